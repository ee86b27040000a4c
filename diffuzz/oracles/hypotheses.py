"""All hypotheses about one wrong output, and what each says its elements hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import torch
from torch import Tensor

from diffuzz.oracles.by_index import moves, reads
from diffuzz.oracles.by_rounding import Steps, roundings, steps
from diffuzz.oracles.by_scale import fitted_factor, fixed_factors
from diffuzz.oracles.evidence import WRONG_SAMPLE, Evidence, spread
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
    """The four lists for one output, each with its plain entry first.

    A hypothesis is a row of four indices into them. ``reads`` and ``steps`` are those of the
    moves and of the roundings, as tensors.
    """

    contents: tuple[Content, ...]
    moves: tuple[Move, ...]
    factors: tuple[Factor, ...]
    roundings: tuple[Rounding, ...]
    reads: Tensor
    steps: Steps

    @classmethod
    def about(cls, evidence: Evidence) -> Hypotheses:
        expected = evidence.expected
        fitted = fitted_factor(evidence, evidence.wrong)
        return cls(
            contents=(Content(values=evidence.truth, slack=True), *_contents(evidence)),
            moves=moves(evidence.shape),
            factors=(*fixed_factors(), *([fitted] if fitted else [])),
            roundings=roundings(expected.fmt, expected.overflow),
            reads=reads(evidence.shape),
            steps=steps(expected.fmt, expected.overflow),
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, (self.contents, self.moves, self.factors, self.roundings)))

    def with_mistakes(self, count: int) -> Tensor:
        """Rows of every hypothesis of ``count`` mistakes, int64 ``[n, 4]``; several mistakes only
        of parts that combine."""
        lists: tuple[Sequence[Part], ...]
        lists = self.contents, self.moves, self.factors, self.roundings
        usable = tuple(
            tuple(i for i, part in enumerate(parts) if i and (count == 1 or part.combines))
            for parts in lists
        )
        return _rows(usable, count)

    def at(self, row: Sequence[int]) -> Hypothesis:
        content, move, factor, rounding = row
        return Hypothesis(
            self.contents[content],
            self.moves[move],
            self.factors[factor],
            self.roundings[rounding],
        )


@lru_cache(maxsize=64)
def _rows(usable: tuple[tuple[int, ...], ...], count: int) -> Tensor:
    found = []
    for columns in combinations(range(len(usable)), count):
        for indices in product(*(usable[column] for column in columns)):
            row = [0] * len(usable)
            for column, index in zip(columns, indices, strict=True):
                row[column] = index
            found.append(row)
    return torch.tensor(found, dtype=torch.int64).reshape(-1, len(usable))


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
            slack=True,
            relative_slack=relative_slack,
            narrows=name.startswith(_NARROWING_NAMES),
            stated=True,
        )


def _relative_slack(evidence: Evidence) -> float:
    """The median slack of an element relative to its magnitude."""
    if evidence.expected.slack is None or not evidence.expected.hypotheses:
        return 0.0
    at = spread(evidence.truth.numel(), WRONG_SAMPLE)
    relative = evidence.slack_at(at) / evidence.truth[at].abs()
    usual = relative[relative.isfinite()]
    return float(usual.median()) if usual.numel() else 0.0
