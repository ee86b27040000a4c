"""Tries hypotheses on some elements of an output, many at a time.

One hypothesis on a few elements costs nothing but the start of some fifty small operations. So
they are laid out as rows of one tensor, and what several share is worked out once: what was
stored where (content and move), then the factor, then the rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.numerics.error import interval, same_value, within
from diffuzz.numerics.formats import FloatFormat, Overflow, decode
from diffuzz.numerics.rounding import apply_overflow, round_extended
from diffuzz.oracles.by_index import sources
from diffuzz.oracles.evidence import Evidence
from diffuzz.oracles.hypotheses import Hypotheses
from diffuzz.oracles.parts import Content

MIN_KNOWN = 0.5
# Numbers in one tensor: more no longer fit a core's cache, fewer are all overhead.
BATCH = 2**16


@dataclass(frozen=True)
class Claims:
    """What hypotheses say some elements hold before the last rounding.

    ``ends`` are float64 bounds, ``[2, n, elements]``, or only one where the claims are exact;
    ``known`` is False where the hypothesis cannot say, ``[n, elements]``.
    """

    ends: Tensor
    known: Tensor


@dataclass(frozen=True)
class Tally:
    """For each hypothesis, how many of ``total`` elements it can tell, and gets right; int64."""

    known: Tensor
    right: Tensor
    total: int

    @property
    def misses(self) -> Tensor:
        return self.known - self.right

    @property
    def shares(self) -> Tensor:
        """The share it gets right of those it can tell; 0 when these are too few. float64."""
        telling = self.known >= max(MIN_KNOWN * self.total, 1)
        return torch.where(telling, self.right.double() / self.known, 0.0)


def attempt(
    evidence: Evidence,
    hypotheses: Hypotheses,
    rows: Tensor,
    at: Tensor,
    *,
    bitwise: bool = False,
) -> Tally:
    """Count for each of ``rows`` on which of the elements ``at`` it is right: within its slack, or
    ``bitwise`` (without slack, and with the sign of zero)."""
    known = torch.empty(len(rows), dtype=torch.int64)
    right = torch.empty(len(rows), dtype=torch.int64)
    step = max(1, BATCH // max(at.numel(), 1))
    # Rows of one rounding lie together, for they are rounded together.
    for part in torch.split(torch.arange(len(rows)), step) if len(rows) else ():
        claims = _claims(evidence, hypotheses, rows[part], at, exactly=bitwise)
        held = torch.empty(claims.known.shape, dtype=torch.bool)
        for index, fmt, overflow in _last_roundings(evidence, hypotheses, rows[part, 3]):
            values = evidence.values[at]
            if fmt is not evidence.fmt:
                values = decode(evidence.codes[at], fmt)
            held[index] = _holds(values, claims.ends[:, index], fmt, overflow, bitwise=bitwise)
        known[part] = claims.known.sum(dim=1)
        right[part] = (held & claims.known).sum(dim=1)
    return Tally(known, right, at.numel())


def _claims(
    evidence: Evidence, hypotheses: Hypotheses, rows: Tensor, at: Tensor, *, exactly: bool
) -> Claims:
    places, place_of = torch.unique(
        rows[:, 0] * len(hypotheses.moves) + rows[:, 1], return_inverse=True
    )
    truth, stored = _stored(evidence, hypotheses, places, at, exactly=exactly)
    ends, known = stored.ends[:, place_of], stored.known[place_of]
    factors = rows[:, 2].tolist()
    if any(factors):
        used = [hypotheses.factors[i] for i in factors]
        value = torch.tensor([[factor.value] for factor in used], dtype=torch.float64)
        ends = ends * value
        if len(ends) > 1:
            ends = torch.where(value < 0, ends.flip(0), ends)
        for row, factor in enumerate(used):
            if factor.special is not None:
                known[row] &= ~factor.special(truth[place_of[row]], evidence.values[at])
    hypotheses.steps.take(ends, rows[:, 3].tolist())
    return Claims(ends, known)


def _stored(
    evidence: Evidence, hypotheses: Hypotheses, places: Tensor, at: Tensor, *, exactly: bool
) -> tuple[Tensor, Claims]:
    """What each of the ``places`` (content and move, ascending) has for the elements ``at``, bare
    and with its slack."""
    moved = places % len(hypotheses.moves)
    if bool(moved.any()):
        source, known = sources(hypotheses.reads[moved], at)
        if evidence.expected.care is not None:
            known &= evidence.expected.care.reshape(-1)[source]
    else:
        source = at.expand(len(places), -1)
        known = torch.ones(source.shape, dtype=torch.bool)
    chosen, counts = torch.unique_consecutive(places // len(hypotheses.moves), return_counts=True)
    used = [hypotheses.contents[i] for i in chosen.tolist()]
    parts = torch.split(source, counts.tolist())
    truth = torch.cat([_held(content, part) for content, part in zip(used, parts, strict=True)])
    if exactly or evidence.expected.slack is None:
        return truth, Claims(truth[None], known)
    # As large relative to other values as it usually is to the truth.
    relative = [[c.relative_slack if c.slack else torch.nan] for c in used]
    column = torch.tensor(relative, dtype=torch.float64).repeat_interleave(counts, dim=0)
    usual = truth.abs().nan_to_num(nan=0.0, posinf=0.0) * column
    slack = torch.maximum(evidence.slack_at(source), usual).nan_to_num_(nan=0.0, posinf=torch.inf)
    return truth, Claims(torch.stack(interval(truth, slack)), known)


def _held(content: Content, at: Tensor) -> Tensor:
    assert content.values is not None
    return content.values[at]


def _last_roundings(
    evidence: Evidence, hypotheses: Hypotheses, chosen: Tensor
) -> Iterator[tuple[list[int], FloatFormat, Overflow | None]]:
    """Which rows end in which rounding."""
    found: dict[tuple[FloatFormat, Overflow | None], list[int]] = {}
    for row, index in enumerate(chosen.tolist()):
        rounding = hypotheses.roundings[index]
        overflow = evidence.expected.overflow if rounding.fmt is None else None
        if rounding.own_overflow:
            overflow = rounding.overflow
        found.setdefault((rounding.fmt or evidence.fmt, overflow), []).append(row)
    for (fmt, overflow), rows in found.items():
        yield rows, fmt, overflow


def _holds(
    values: Tensor, ends: Tensor, fmt: FloatFormat, overflow: Overflow | None, *, bitwise: bool
) -> Tensor:
    low = ends[0]
    if not bitwise:
        return within(values, low, ends[1] if len(ends) > 1 else low, fmt, overflow)
    stored = apply_overflow(round_extended(low, fmt), fmt, overflow or "inf")
    return same_value(values, stored, fmt)
