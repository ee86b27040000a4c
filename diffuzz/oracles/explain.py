"""Explainers: which single mistake, or pair of mistakes, reproduces a wrong output.

Every hypothesis transforms the truth and predicts the output (:mod:`diffuzz.oracles.parts`). One
is named only if it reproduces at least :data:`ENOUGH` of the wrong elements, of which there must
be :data:`MIN_ELEMENTS` with some variety. Among those that do, the order is: share of wrong
elements, share reproduced bit for bit, agreement with the elements that are right, and last the
plainer one. Pairs are tried only when no single mistake will do. Hypotheses with equal scores
cannot be told apart by the data: the plainer one gives the name, the text lists the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.finding import Explanation
from diffuzz.numerics.error import interval
from diffuzz.numerics.rounding import round_extended
from diffuzz.oracles.by_index import moves
from diffuzz.oracles.by_rounding import roundings
from diffuzz.oracles.by_row import rows_elsewhere
from diffuzz.oracles.by_scale import fitted_factor, fixed_factors
from diffuzz.oracles.evidence import Claim, Evidence, holds, holds_bitwise
from diffuzz.oracles.parts import Content, Factor, Move, Part, Rounding
from diffuzz.oracles.wording import number, slug

ENOUGH = 0.99
MIN_ELEMENTS = 8
MIN_VARIETY = 4
MIN_KNOWN = 0.5
SCREENED = 0.95


@dataclass(frozen=True)
class Named:
    """An explanation with the key it has in signatures."""

    explanation: Explanation
    key: str


@dataclass(frozen=True)
class Hypothesis:
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
    def rank(self) -> int:
        return sum(part.rank for part in self.parts)

    @property
    def narrows(self) -> bool:
        """A lone loss of precision or range; beside another mistake it is not what is wrong."""
        if len(self.parts) != 1:
            return False
        return self.rounding.narrows or self.content.narrows


@dataclass(frozen=True)
class Score:
    """Shares in [0, 1], compared in this order."""

    wrong: float
    bitwise: float
    right: float

    @property
    def rounded(self) -> tuple[float, float, float]:
        return (round(self.wrong, 3), round(self.bitwise, 2), round(self.right, 2))


def explain(evidence: Evidence) -> Named | None:
    """Name what reproduces the output, or None. ``evidence`` has wrong elements."""
    if not _telling(evidence):
        return None
    lists = _Lists.of(evidence)
    for mistakes in (1, 2):
        scored = list(_passing(evidence, lists.choices(mistakes)))
        if scored:
            return _best(scored)
        if mistakes == 1:
            rows = _rows_elsewhere(evidence)
            if rows is not None:
                return rows
    return None


@dataclass(frozen=True)
class _Lists:
    contents: list[Content]
    moves: list[Move]
    factors: list[Factor]
    roundings: list[Rounding]

    @classmethod
    def of(cls, evidence: Evidence) -> _Lists:
        expected = evidence.expected
        factors = [Factor(), *fixed_factors()]
        fitted = fitted_factor(evidence, evidence.wrong)
        return cls(
            contents=[Content(values=evidence.truth, slack=evidence.slack), *_contents(evidence)],
            moves=[Move(), *moves(evidence.shape)],
            factors=factors + ([fitted] if fitted else []),
            roundings=[Rounding(), *roundings(expected.fmt, expected.overflow)],
        )

    def choices(self, mistakes: int) -> Iterator[Hypothesis]:
        for content in self.contents:
            for move in self.moves:
                for factor in self.factors:
                    for rounding in self.roundings:
                        made = Hypothesis(content, move, factor, rounding)
                        parts = made.parts
                        if len(parts) != mistakes:
                            continue
                        if mistakes == 1 or all(part.combines for part in parts):
                            yield made


def _contents(evidence: Evidence) -> Iterator[Content]:
    # After the roundings: where everything underflows in a narrower type, both fit.
    zeros = torch.zeros_like(evidence.truth)
    yield Content("zeros", "replaced by zeros", 440, combines=False, values=zeros)
    held = evidence.values[evidence.wrong[0]]
    if bool((evidence.values[evidence.wrong] == held).all()) and float(held) != 0:
        text = f"replaced by {number(float(held))} everywhere"
        same = held.expand_as(evidence.truth)
        yield Content("constant", text, 450, combines=False, values=same)
    for order, (name, make) in enumerate(evidence.expected.hypotheses.items()):
        values = make()
        if tuple(values.shape) != evidence.shape:
            raise ValueError(
                f"hypothesis {name!r} gives shape {tuple(values.shape)}, "
                f"the output has {evidence.shape}"
            )
        flat = values.to(torch.float64).reshape(-1)
        narrows = name.startswith(("rounded", "truncated"))
        yield Content(
            slug(name),
            f"with {name}",
            110 + order,
            values=flat,
            slack=_scaled_slack(evidence, flat),
            narrows=narrows,
        )


def _scaled_slack(evidence: Evidence, values: Tensor) -> Tensor | None:
    """Slack follows the magnitude up: a value ten times as large may be off ten times as far."""
    if evidence.slack is None:
        return None
    ratio = (values / evidence.truth).abs().nan_to_num(nan=1.0, posinf=1.0)
    return evidence.slack * ratio.clamp(min=1.0)


def _telling(evidence: Evidence) -> bool:
    if evidence.n_wrong < MIN_ELEMENTS:
        return False
    seen = evidence.codes[evidence.wrong], evidence.truth[evidence.wrong]
    return any(torch.unique(t).numel() >= MIN_VARIETY for t in seen)


def _passing(
    evidence: Evidence, choices: Iterator[Hypothesis]
) -> Iterator[tuple[Score, Hypothesis]]:
    screen = evidence.screen
    for hypothesis in choices:
        if _share(evidence, hypothesis, screen) < SCREENED:
            continue
        wrong = _share(evidence, hypothesis, evidence.wrong)
        if wrong >= ENOUGH:
            bitwise = _share(evidence, hypothesis, evidence.wrong, bitwise=True)
            right = _share(evidence, hypothesis, evidence.right) if evidence.right.numel() else 1.0
            yield Score(wrong, bitwise, right), hypothesis


def _rows_elsewhere(evidence: Evidence) -> Named | None:
    low, high = (
        round_extended(end, evidence.fmt).reshape(evidence.shape)
        for end in interval(evidence.truth, evidence.slack)
    )
    wrong = torch.zeros(evidence.truth.numel(), dtype=torch.bool)
    wrong[evidence.wrong] = True
    values = evidence.values.reshape(evidence.shape)
    found = rows_elsewhere(values, low, high, wrong.reshape(evidence.shape))
    if found is None:
        return None
    key = f"rows-dim{found.dim}"
    return Named(Explanation(key, f"equals the truth {found.text}", found.share), key)


def _share(
    evidence: Evidence, hypothesis: Hypothesis, at: Tensor, *, bitwise: bool = False
) -> float:
    """Share of the elements ``at`` for which the hypothesis can tell and is right; 0 when it can
    tell for too few."""
    claim = predict(evidence, hypothesis, at)
    same = (holds_bitwise if bitwise else holds)(evidence, claim, at)
    if claim.known is None:
        return float(same.double().mean())
    known = int(claim.known.sum())
    if known < max(MIN_KNOWN * at.numel(), 1):
        return 0.0
    return int((same & claim.known).sum()) / known


def predict(evidence: Evidence, hypothesis: Hypothesis, at: Tensor) -> Claim:
    """What the hypothesis says the elements ``at`` hold."""
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
    low, high = interval(truth, None if content.slack is None else content.slack[source])
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


def _best(scored: list[tuple[Score, Hypothesis]]) -> Named:
    top = max(score.rounded for score, _ in scored)
    tied = [pair for pair in scored if pair[0].rounded == top]
    tied.sort(key=lambda pair: pair[1].rank)
    score, best = tied[0]
    variants = {h.rounding.variant for _, h in tied if _bare(h) == _bare(best)}
    text = _bare(best)
    if len(variants) == 1 and best.rounding.variant:
        text += f", {best.rounding.variant}"
    rivals = list(dict.fromkeys(_bare(h) for _, h in tied if _is_rival(h, best)))
    if rivals:
        text += f" (or {'; or '.join(rivals[:2])}: these data cannot tell)"
    joint = " " if best.content.plain or best.content.rank >= 440 else ", but "
    text = f"equals the truth{joint}{text}"
    return Named(Explanation(_bare(best), text, score.wrong, best.narrows), best.key)


def _is_rival(other: Hypothesis, best: Hypothesis) -> bool:
    """A fitted factor or a longer shift only restates what the target's own hypothesis says."""
    if _bare(other) == _bare(best):
        return False
    return best.content.plain or not other.content.plain


def _bare(hypothesis: Hypothesis) -> str:
    return " and ".join(part.text for part in hypothesis.parts)
