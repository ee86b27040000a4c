"""All hypotheses about one wrong output, and what each says its elements hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import torch
from torch import Tensor

from diffuzz.numerics.error import interval
from diffuzz.oracles.by_index import moves
from diffuzz.oracles.by_rounding import roundings
from diffuzz.oracles.by_scale import fitted_factor, fixed_factors
from diffuzz.oracles.evidence import WRONG_SAMPLE, Claim, Evidence, spread
from diffuzz.oracles.parts import Content, Factor, Move, Part, Rounding
from diffuzz.oracles.wording import number, slug

# A target's hypothesis whose name starts so says that the value is right but too coarse.
_NARROWING_NAMES = ("rounded", "truncated")


@dataclass(frozen=True)
class Hypothesis:
    """One choice from each list; those that are not plain are the mistakes."""

    content: Content
    move: Move
    factor: Factor
    rounding: Rounding

    @property
    def parts(self) -> list[Part]:
        every: tuple[Part, ...] = (self.content, self.move, self.factor, self.rounding)
        return [part for part in every if not part.plain]

    @property
    def key(self) -> str:
        return "+".join(part.key for part in self.parts)

    @property
    def text(self) -> str:
        return " and ".join(part.text for part in self.parts)

    @property
    def rank(self) -> int:
        return sum(part.rank for part in self.parts)

    @property
    def narrows(self) -> bool:
        """A lone loss of precision or range; beside another mistake it is not what is wrong."""
        if len(self.parts) != 1:
            return False
        return self.rounding.narrows or self.content.narrows


@dataclass(frozen=True)
class Hypotheses:
    """The lists for one output, without their plain entries."""

    truth: Content
    lists: dict[str, Sequence[Part]]

    @classmethod
    def about(cls, evidence: Evidence) -> Hypotheses:
        expected = evidence.expected
        fitted = fitted_factor(evidence, evidence.wrong)
        return cls(
            truth=Content(values=evidence.truth, slack=evidence.slack),
            lists={
                "content": list(_contents(evidence)),
                "move": moves(evidence.shape),
                "factor": [*fixed_factors(), *([fitted] if fitted else [])],
                "rounding": roundings(expected.fmt, expected.overflow),
            },
        )

    def with_mistakes(self, count: int) -> Iterator[Hypothesis]:
        """Every hypothesis of ``count`` mistakes; several only of parts that combine."""
        plain = Hypothesis(self.truth, Move(), Factor(), Rounding())
        for names in combinations(self.lists, count):
            usable = [
                [part for part in self.lists[name] if count == 1 or part.combines] for name in names
            ]
            for parts in product(*usable):
                changes = dict(zip(names, parts, strict=True))
                yield replace(plain, **changes)  # type: ignore[arg-type]


def predict(
    evidence: Evidence, hypothesis: Hypothesis, at: Tensor, *, exactly: bool = False
) -> Claim:
    """What the hypothesis says the elements ``at`` hold; without any slack when ``exactly``."""
    content, move = hypothesis.content, hypothesis.move
    factor, rounding = hypothesis.factor, hypothesis.rounding
    known: Tensor | None = None
    source = at
    if move.source is not None:
        source, known = move.source(at)
        if evidence.expected.care is not None:
            known = known & evidence.expected.care.reshape(-1)[source]
    assert content.values is not None
    truth = content.values[source]
    slack = None
    if content.slack is not None and not exactly:
        # As large relative to other values as it usually is to the truth.
        usual = truth.abs().nan_to_num(nan=0.0, posinf=0.0) * content.relative_slack
        slack = torch.maximum(content.slack[source], usual)
    low, high = interval(truth, slack)
    if factor.value != 1.0:
        low, high = low * factor.value, high * factor.value
        if factor.value < 0:
            low, high = high, low
    if factor.special is not None:
        usual = ~factor.special(truth, evidence.values[at])
        known = usual if known is None else known & usual
    if rounding.apply is not None:
        low, high = rounding.apply(low), rounding.apply(high)
    fmt = rounding.fmt or evidence.fmt
    overflow = evidence.expected.overflow if rounding.fmt is None else None
    return Claim(low, high, fmt, rounding.overflow if rounding.own_overflow else overflow, known)


def _contents(evidence: Evidence) -> Iterator[Content]:
    # After the roundings: where everything underflows in a narrower type, both fit.
    zeros = torch.zeros(1, dtype=torch.float64).expand_as(evidence.truth)
    yield Content("zeros", "replaced by zeros", 440, combines=False, values=zeros)
    held = evidence.values[evidence.wrong[0]]
    if bool((evidence.values[evidence.wrong] == held).all()) and float(held) != 0:
        text = f"replaced by {number(float(held))} everywhere"
        same = held.expand_as(evidence.truth)
        yield Content("constant", text, 450, combines=False, values=same)
    relative_slack = _relative_slack(evidence)
    for order, (name, make) in enumerate(evidence.expected.hypotheses.items()):
        values = make()
        if tuple(values.shape) != evidence.shape:
            raise ValueError(
                f"hypothesis {name!r} gives shape {tuple(values.shape)}, "
                f"the output has {evidence.shape}"
            )
        flat = values.to(torch.float64).reshape(-1)
        yield Content(
            slug(name),
            name,
            110 + order,
            values=flat,
            slack=evidence.slack,
            relative_slack=relative_slack,
            narrows=name.startswith(_NARROWING_NAMES),
            stated=True,
        )


def _relative_slack(evidence: Evidence) -> float:
    """The median slack of an element relative to its magnitude."""
    if evidence.slack is None:
        return 0.0
    at = spread(evidence.truth.numel(), WRONG_SAMPLE)
    relative = evidence.slack[at] / evidence.truth[at].abs()
    usual = relative[relative.isfinite()]
    return float(usual.median()) if usual.numel() else 0.0
