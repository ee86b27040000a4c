"""Explainers: which single mistake, or pair of mistakes, reproduces a wrong output.

Every hypothesis transforms the truth and predicts the output (:mod:`diffuzz.oracles.parts`). One
is named only if it reproduces at least :data:`ENOUGH` of the wrong elements, of which there must
be :data:`MIN_ELEMENTS` with some variety. Among those that do, the order is: share of wrong
elements, agreement with the elements that are right, share reproduced bit for bit, and last the
plainer one. Pairs are tried only when no single mistake will do. Hypotheses with equal scores
cannot be told apart by the data: the plainer one gives the name, the text lists the others.

All are tried on a few hundred elements first and only those that do well there on the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.finding import Explanation
from diffuzz.numerics.error import interval
from diffuzz.numerics.rounding import round_extended
from diffuzz.oracles.by_row import rows_elsewhere
from diffuzz.oracles.evidence import Evidence, holds, holds_bitwise
from diffuzz.oracles.hypotheses import Hypotheses, Hypothesis, predict

ENOUGH = 0.99
SCREENED = 0.95
MIN_ELEMENTS = 8
MIN_VARIETY = 4
MIN_KNOWN = 0.5


@dataclass(frozen=True)
class Named:
    """An explanation with the key it has in signatures."""

    explanation: Explanation
    key: str


@dataclass(frozen=True)
class Score:
    """Shares in [0, 1], compared in this order."""

    wrong: float
    right: float
    bitwise: float

    @property
    def rounded(self) -> tuple[float, float, float]:
        return (round(self.wrong, 3), round(self.right, 2), round(self.bitwise, 2))


def explain(evidence: Evidence) -> Named | None:
    """Name what reproduces the output, or None. ``evidence`` has wrong elements."""
    if not _telling(evidence):
        return None
    hypotheses = Hypotheses.about(evidence)
    return (
        _best(evidence, hypotheses.with_mistakes(1))
        or _rows_elsewhere(evidence)
        or _best(evidence, hypotheses.with_mistakes(2))
    )


def _telling(evidence: Evidence) -> bool:
    if evidence.n_wrong < MIN_ELEMENTS:
        return False
    seen = evidence.codes[evidence.wrong], evidence.truth[evidence.wrong]
    return any(torch.unique(t).numel() >= MIN_VARIETY for t in seen)


def _best(evidence: Evidence, choices: Iterator[Hypothesis]) -> Named | None:
    scored = list(_passing(evidence, choices))
    if not scored:
        return None
    top = max(score.rounded for score, _ in scored)
    tied = [pair for pair in scored if pair[0].rounded == top]
    tied.sort(key=lambda pair: pair[1].rank)
    score, best = tied[0]
    equals = [hypothesis for _, hypothesis in tied]
    rivals = [hypothesis for hypothesis in equals if _is_rival(hypothesis, best)]
    certain = all(rival.key == best.key for rival in rivals)
    text = _worded(best, equals, rivals)
    return Named(Explanation(best.text, text, score.wrong, best.narrows, certain), best.key)


def _passing(
    evidence: Evidence, choices: Iterator[Hypothesis]
) -> Iterator[tuple[Score, Hypothesis]]:
    screen, wrong, right = evidence.screen, evidence.wrong, evidence.right
    for hypothesis in choices:
        if _share(evidence, hypothesis, screen) < SCREENED:
            continue
        share = _share(evidence, hypothesis, wrong)
        if share >= ENOUGH:
            bitwise = _share(evidence, hypothesis, wrong, bitwise=True)
            agreeing = _share(evidence, hypothesis, right) if right.numel() else 1.0
            yield Score(share, agreeing, bitwise), hypothesis


def _share(
    evidence: Evidence, hypothesis: Hypothesis, at: Tensor, *, bitwise: bool = False
) -> float:
    """Share of the elements ``at`` for which the hypothesis can tell and is right; 0 when it can
    tell for too few."""
    claim = predict(evidence, hypothesis, at, exactly=bitwise)
    same = (holds_bitwise if bitwise else holds)(evidence, claim, at)
    if claim.known is None:
        return float(same.double().mean())
    known = int(claim.known.sum())
    if known < max(MIN_KNOWN * at.numel(), 1):
        return 0.0
    return int((same & claim.known).sum()) / known


def _worded(best: Hypothesis, tied: list[Hypothesis], rivals: list[Hypothesis]) -> str:
    text = best.text
    variants = {h.rounding.variant for h in tied if h.text == best.text}
    if len(variants) == 1 and best.rounding.variant:
        text += f", {best.rounding.variant}"
    others = list(dict.fromkeys(rival.text for rival in rivals))
    if others:
        text += f" (or {'; or '.join(others[:2])}: these data cannot tell)"
    return f"equals the truth, but {text}" if best.content.stated else f"equals the truth {text}"


def _is_rival(other: Hypothesis, best: Hypothesis) -> bool:
    """A fitted factor or a shift only restates what the target's own hypothesis says."""
    if other.text == best.text:
        return False
    restates = not other.content.stated and (other.key == "factor" or not other.move.plain)
    return not (best.content.stated and restates)


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
