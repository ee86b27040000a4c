"""Explainers: which single mistake, or pair of mistakes, reproduces a wrong output.

Every hypothesis transforms the truth and predicts the output (:mod:`diffuzz.oracles.parts`). One
is named only if it reproduces at least :data:`ENOUGH` of the wrong elements, of which there must
be :data:`MIN_ELEMENTS` with some variety. Among those that do, the order is: share of wrong
elements, agreement with the elements that are right, share reproduced bit for bit, and last the
plainer one. Pairs are tried only when no single mistake will do. Hypotheses with equal scores
cannot be told apart by the data: the plainer one gives the name, the text lists the others.

All are tried on a few hundred elements first, most of which need no more than a handful of them,
and only those that do well there on the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.finding import Explanation
from diffuzz.numerics.error import interval
from diffuzz.numerics.rounding import round_extended
from diffuzz.oracles.by_row import rows_elsewhere
from diffuzz.oracles.evidence import Evidence
from diffuzz.oracles.hypotheses import Hypotheses, Hypothesis
from diffuzz.oracles.trial import attempt

ENOUGH = 0.99
SCREENED = 0.95
MIN_ELEMENTS = 8
MIN_VARIETY = 4


@dataclass(frozen=True)
class Named:
    """An explanation with the key it has in signatures."""

    explanation: Explanation
    key: str


def explain(evidence: Evidence) -> Named | None:
    """Name what reproduces the output, or None. ``evidence`` has wrong elements."""
    if not _telling(evidence):
        return None
    hypotheses = Hypotheses.about(evidence)
    return (
        _best(evidence, hypotheses, 1)
        or _rows_elsewhere(evidence)
        or _best(evidence, hypotheses, 2)
    )


def _telling(evidence: Evidence) -> bool:
    if evidence.n_wrong < MIN_ELEMENTS:
        return False
    # The first few hundred elements nearly always settle it.
    for at in (evidence.screen, evidence.wrong):
        seen = evidence.codes[at], evidence.truth[at]
        if any(torch.unique(t).numel() >= MIN_VARIETY for t in seen):
            return True
    return False


def _best(evidence: Evidence, hypotheses: Hypotheses, mistakes: int) -> Named | None:
    leading = _leading(evidence, hypotheses, hypotheses.with_mistakes(mistakes))
    if not leading:
        return None
    leading.sort(key=lambda pair: pair[0].rank)
    equals = [hypothesis for hypothesis, _ in leading]
    best, share = leading[0]
    rivals = [hypothesis for hypothesis in equals if _is_rival(hypothesis, best)]
    certain = all(rival.key == best.key for rival in rivals)
    text = _worded(best, equals, rivals)
    return Named(Explanation(best.text, text, share, best.narrows, certain), best.key)


def _leading(
    evidence: Evidence, hypotheses: Hypotheses, rows: Tensor
) -> list[tuple[Hypothesis, float]]:
    """Those of ``rows`` that reproduce enough and that nothing tells apart, and what they do."""
    wrong, right = evidence.wrong, evidence.right
    rows = _screened(evidence, hypotheses, rows)
    shares = attempt(evidence, hypotheses, rows, wrong).shares
    rows, shares = rows[shares >= ENOUGH], shares[shares >= ENOUGH]
    lead = _highest(shares, 3)
    if len(lead) > 1 and right.numel():
        agreeing = attempt(evidence, hypotheses, rows[lead], right).shares
        lead = lead[_highest(agreeing, 2)]
    if len(lead) > 1:
        bitwise = attempt(evidence, hypotheses, rows[lead], wrong, bitwise=True).shares
        lead = lead[_highest(bitwise, 2)]
    named = [hypotheses.at(row) for row in rows[lead].tolist()]
    return list(zip(named, shares[lead].tolist(), strict=True))


def _screened(evidence: Evidence, hypotheses: Hypotheses, rows: Tensor) -> Tensor:
    """Those of ``rows`` that do well on the screen."""
    screen = evidence.screen
    # Who fails here too often must fail on the whole screen.
    for few in evidence.handfuls:
        misses = attempt(evidence, hypotheses, rows, few).misses
        rows = rows[misses <= math.ceil((1 - SCREENED) * screen.numel())]
    if screen.numel() == evidence.wrong.numel():
        return rows
    return rows[attempt(evidence, hypotheses, rows, screen).shares >= SCREENED]


def _highest(shares: Tensor, digits: int) -> Tensor:
    """Where the highest share is, as far as ``digits`` tell."""
    rounded = [round(share, digits) for share in shares.tolist()]
    return torch.tensor([i for i, share in enumerate(rounded) if share == max(rounded)]).long()


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
    def bounds(at: Tensor) -> tuple[Tensor, Tensor]:
        low, high = interval(evidence.truth[at], evidence.slack_at(at))
        return round_extended(low, evidence.fmt), round_extended(high, evidence.fmt)

    found = rows_elsewhere(evidence.shape, evidence.values, evidence.wrong, bounds)
    if found is None:
        return None
    key = f"rows-dim{found.dim}"
    return Named(Explanation(key, f"equals the truth {found.text}", found.share), key)
