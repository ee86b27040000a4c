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

MIN_KNOWN = 0.5
# Numbers in one tensor: more no longer fit a core's cache, fewer are all overhead.
BATCH = 2**16


@dataclass(frozen=True)
class Claims:
    """What hypotheses say some elements hold before any rounding, ``[n, elements]``.

    ``low`` and ``high`` are float64 bounds (one tensor where the claims are exact); ``known`` is
    False where the hypothesis cannot say.
    """

    low: Tensor
    high: Tensor
    known: Tensor

    def rows(self, index: Tensor) -> Claims:
        low = self.low[index]
        high = low if self.high is self.low else self.high[index]
        return Claims(low, high, self.known[index])


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
    order = rows[:, 3].argsort(stable=True)
    for part in torch.split(order, step) if len(rows) else ():
        claims, claim_of = _claims(evidence, hypotheses, rows[part, :3], at, exactly=bitwise)
        for index, claim, fmt, overflow in _rounded(
            evidence, hypotheses, claims, claim_of, rows[part, 3]
        ):
            values = evidence.values[at]
            if fmt is not evidence.fmt:
                values = decode(evidence.codes[at], fmt)
            same = _holds(values, claim, fmt, overflow, bitwise=bitwise)
            known[part[index]] = claim.known.sum(dim=1)
            right[part[index]] = (same & claim.known).sum(dim=1)
    return Tally(known, right, at.numel())


def _claims(
    evidence: Evidence, hypotheses: Hypotheses, rows: Tensor, at: Tensor, *, exactly: bool
) -> tuple[Claims, Tensor]:
    """The claims of different contents, moves and factors, and which one each row makes."""
    sizes = len(hypotheses.moves), len(hypotheses.factors)
    coded = (rows[:, 0] * sizes[0] + rows[:, 1]) * sizes[1] + rows[:, 2]
    triples, claim_of = torch.unique(coded, return_inverse=True)
    places, place_of = torch.unique_consecutive(triples // sizes[1], return_inverse=True)
    truth, stored = _stored(evidence, hypotheses, places, at, exactly=exactly)
    claims = stored.rows(place_of)
    factors = (triples % sizes[1]).tolist()
    low, high, known = claims.low, claims.high, claims.known
    if any(factors):
        used = [hypotheses.factors[i] for i in factors]
        value = torch.tensor([[factor.value] for factor in used], dtype=torch.float64)
        exact = high is low
        low = low * value
        high = low if exact else high * value
        if not exact and min(factor.value for factor in used) < 0:
            low, high = torch.where(value < 0, high, low), torch.where(value < 0, low, high)
        for i, factor in enumerate(used):
            if factor.special is not None:
                known[i] &= ~factor.special(truth[place_of[i]], evidence.values[at])
    return Claims(low, high, known), claim_of


def _stored(
    evidence: Evidence, hypotheses: Hypotheses, places: Tensor, at: Tensor, *, exactly: bool
) -> tuple[Tensor, Claims]:
    """What each of the ``places`` (content and move) has for the elements ``at``, bare and with its
    slack."""
    moved = places % len(hypotheses.moves)
    source, known = sources(hypotheses.reads[moved], at)
    if evidence.expected.care is not None:
        known &= evidence.expected.care.reshape(-1)[source]
    chosen, counts = torch.unique_consecutive(places // len(hypotheses.moves), return_counts=True)
    used = [hypotheses.contents[i] for i in chosen.tolist()]
    parts = torch.split(source, counts.tolist())
    held = []
    for content, part in zip(used, parts, strict=True):
        assert content.values is not None
        held.append(content.values[part])
    truth = torch.cat(held)
    if exactly or evidence.expected.slack is None:
        return truth, Claims(truth, truth, known)
    slacks = []
    for content, part, values in zip(used, parts, held, strict=True):
        if not content.slack:
            slacks.append(torch.zeros_like(values))
            continue
        # As large relative to other values as it usually is to the truth.
        usual = values.abs().nan_to_num(nan=0.0, posinf=0.0) * content.relative_slack
        slacks.append(torch.maximum(evidence.slack_at(part), usual))
    return truth, Claims(*interval(truth, torch.cat(slacks)), known)


def _rounded(
    evidence: Evidence,
    hypotheses: Hypotheses,
    claims: Claims,
    claim_of: Tensor,
    roundings: Tensor,
) -> Iterator[tuple[Tensor, Claims, FloatFormat, Overflow | None]]:
    """Rows with the claims they make before the last rounding, and what that one is.

    ``roundings`` is ascending. Rows that are rounded alike in the end come together.
    """
    chosen, counts = torch.unique_consecutive(roundings, return_counts=True)
    rows = torch.split(torch.arange(len(roundings)), counts.tolist())
    last: dict[tuple[FloatFormat, Overflow | None], list[tuple[Tensor, Claims]]] = {}
    for chosen_one, index in zip(chosen.tolist(), rows, strict=True):
        rounding = hypotheses.roundings[chosen_one]
        claim = claims.rows(claim_of[index])
        if rounding.apply is not None:
            low = rounding.apply(claim.low)
            high = low if claim.high is claim.low else rounding.apply(claim.high)
            claim = Claims(low, high, claim.known)
        overflow = evidence.expected.overflow if rounding.fmt is None else None
        if rounding.own_overflow:
            overflow = rounding.overflow
        last.setdefault((rounding.fmt or evidence.fmt, overflow), []).append((index, claim))
    for (fmt, overflow), found in last.items():
        low = torch.cat([claim.low for _, claim in found])
        exact = claims.high is claims.low
        high = low if exact else torch.cat([claim.high for _, claim in found])
        known = torch.cat([claim.known for _, claim in found])
        yield torch.cat([index for index, _ in found]), Claims(low, high, known), fmt, overflow


def _holds(
    values: Tensor, claim: Claims, fmt: FloatFormat, overflow: Overflow | None, *, bitwise: bool
) -> Tensor:
    if not bitwise:
        return within(values, claim.low, claim.high, fmt, overflow)
    stored = apply_overflow(round_extended(claim.low, fmt), fmt, overflow or "inf")
    return same_value(values, stored, fmt)
