"""Tries hypotheses on some elements of an output, many at a time.

One hypothesis on a few elements costs nothing but the start of some fifty small operations. So
they are laid out as rows of one tensor, and what several share is worked out once: what was
stored where (content and move), then the factor, then the rounding.
"""

from __future__ import annotations

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
SMALL = 2**12


@dataclass(frozen=True)
class Claims:
    """What hypotheses say some elements hold before the last rounding.

    ``ends`` are float64 bounds, ``[2, n, elements]``, or only one where the claims are exact;
    ``known`` is False where the hypothesis cannot say, ``[n, elements]``; ``beyond`` tells whether
    the first rounding overflows, ``[n]``.
    """

    ends: Tensor
    known: Tensor
    beyond: Tensor


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
    if rows.shape[0] * at.numel() <= SMALL:
        counted = _count(evidence, hypotheses, rows, at, bitwise=bitwise)
        return Tally(counted[:, 0], counted[:, 1], at.numel())
    # Roundings that differ in what overflow becomes are one where nothing overflows.
    alike = rows.clone()
    alike[:, 3] = hypotheses.steps.twins[rows[:, 3]]
    codes = _packed(alike, hypotheses.sizes)
    once, once_of = torch.unique(codes, return_inverse=True)
    counted = _count(evidence, hypotheses, _unpacked(once, hypotheses.sizes), at, bitwise=bitwise)[
        once_of
    ]
    again = ((counted[:, 2] > 0) & (alike[:, 3] != rows[:, 3])).nonzero()[:, 0]
    counted[again] = _count(evidence, hypotheses, rows[again], at, bitwise=bitwise)
    return Tally(counted[:, 0], counted[:, 1], at.numel())


def _count(
    evidence: Evidence, hypotheses: Hypotheses, rows: Tensor, at: Tensor, *, bitwise: bool
) -> Tensor:
    """How many elements each row can tell, how many it gets right, whether its first rounding
    overflows: int64 ``[n, 3]``."""
    counted = torch.empty((len(rows), 3), dtype=torch.int64)
    step = max(1, BATCH // max(at.numel(), 1))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        claims = _claims(evidence, hypotheses, rows[part], at, exactly=bitwise)
        held = _held_of(evidence, hypotheses, rows[part], claims, at, bitwise=bitwise)
        counted[part, 0] = claims.known.sum(dim=1)
        counted[part, 1] = (held & claims.known).sum(dim=1)
        counted[part, 2] = claims.beyond
    return counted


def _packed(rows: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Each row of indices below ``sizes`` as one number, in the rows' lexical order."""
    code = rows[:, 0]
    for column, size in enumerate(sizes[1:], start=1):
        code = code * size + rows[:, column]
    return code


def _unpacked(codes: Tensor, sizes: tuple[int, ...]) -> Tensor:
    columns = []
    for size in reversed(sizes):
        columns.append(codes % size)
        codes = codes // size
    return torch.stack(columns[::-1], dim=1)


def _claims(
    evidence: Evidence, hypotheses: Hypotheses, rows: Tensor, at: Tensor, *, exactly: bool
) -> Claims:
    places, place_of = torch.unique(_packed(rows[:, :2], hypotheses.sizes[:2]), return_inverse=True)
    truth, ends, known = _stored(evidence, hypotheses, places, at, exactly=exactly)
    ends, known = ends[:, place_of], known[place_of]
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
    beyond = hypotheses.steps.take(ends, rows[:, 3].tolist())
    return Claims(ends, known, beyond)


def _stored(
    evidence: Evidence, hypotheses: Hypotheses, places: Tensor, at: Tensor, *, exactly: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """What each of the ``places`` (content and move, ascending) has for the elements ``at``: bare,
    with its slack as ``ends``, and where it can tell."""
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
        return truth, truth[None], known
    # As large relative to other values as it usually is to the truth.
    relative = [[c.relative_slack if c.slack else torch.nan] for c in used]
    column = torch.tensor(relative, dtype=torch.float64).repeat_interleave(counts, dim=0)
    usual = truth.abs().nan_to_num(nan=0.0, posinf=0.0) * column
    slack = torch.maximum(evidence.slack_at(source), usual).nan_to_num_(nan=0.0, posinf=torch.inf)
    return truth, torch.stack(interval(truth, slack)), known


def _held(content: Content, at: Tensor) -> Tensor:
    assert content.values is not None
    return content.values[at]


def _held_of(
    evidence: Evidence,
    hypotheses: Hypotheses,
    rows: Tensor,
    claims: Claims,
    at: Tensor,
    *,
    bitwise: bool,
) -> Tensor:
    """Which claims hold, rounded as the contract says or as they say themselves; bool."""
    steps = hypotheses.steps
    lasts = [steps.last_of[rounding] for rounding in rows[:, 3].tolist()]
    held = torch.empty(0, dtype=torch.bool)
    for last in sorted({0, *lasts}):
        fmt, overflow = steps.lasts[last]
        values = evidence.values[at] if last == 0 else decode(evidence.codes[at], fmt)
        if last == 0:
            # The others' rows too, which costs less than to leave them out.
            held = _holds(values, claims.ends, fmt, overflow, bitwise=bitwise)
            continue
        index = [row for row, this in enumerate(lasts) if this == last]
        held[index] = _holds(values, claims.ends[:, index], fmt, overflow, bitwise=bitwise)
    return held


def _holds(
    values: Tensor, ends: Tensor, fmt: FloatFormat, overflow: Overflow | None, *, bitwise: bool
) -> Tensor:
    low = ends[0]
    if not bitwise:
        return within(values, low, ends[1] if len(ends) > 1 else low, fmt, overflow)
    stored = apply_overflow(round_extended(low, fmt), fmt, overflow or "inf")
    return same_value(values, stored, fmt)
