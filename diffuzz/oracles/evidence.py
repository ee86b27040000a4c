"""A wrong output as the explainers see it: a sample of its elements, and how to test a claim.

At most :data:`WRONG_SAMPLE` wrong elements and :data:`RIGHT_SAMPLE` right ones are looked at.
They are chosen by a fixed low-discrepancy sequence over the element index, so the choice is the
same on every machine and does not fall in step with any dimension's size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.numerics.error import read_output, same_value, within
from diffuzz.numerics.formats import FloatFormat, Overflow, decode
from diffuzz.numerics.poison import raw_bits
from diffuzz.numerics.rounding import apply_overflow, round_extended

WRONG_SAMPLE = 16384
RIGHT_SAMPLE = 2048
SCREEN_SAMPLE = 256

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Evidence:
    """One wrong output. Flat tensors have one entry per element in row-major order.

    ``wrong`` and ``right`` are sampled flat indices, ``values`` the output in float64, ``raw`` the
    output tensor itself, ``codes`` its bit patterns (int64).
    """

    expected: Expected
    raw: Tensor
    values: Tensor
    codes: Tensor
    truth: Tensor
    slack: Tensor | None
    wrong: Tensor
    right: Tensor
    n_wrong: int
    n_right: int
    shape: tuple[int, ...]

    @property
    def fmt(self) -> FloatFormat:
        return self.expected.fmt

    @property
    def screen(self) -> Tensor:
        """The few wrong elements on which every hypothesis is tried first."""
        return self.wrong[spread(self.wrong.numel(), SCREEN_SAMPLE)]


@dataclass(frozen=True)
class Claim:
    """What a hypothesis says some elements hold before the last rounding.

    ``low`` and ``high`` are float64 bounds (equal where the claim is exact); ``known`` is False
    where the hypothesis cannot say. ``fmt`` and ``overflow`` are those of the last rounding; a
    ``fmt`` other than the output's own means that its bytes are read as that format.
    """

    low: Tensor
    high: Tensor
    fmt: FloatFormat
    overflow: Overflow | None
    known: Tensor | None = None


def gather_evidence(raw: Tensor, expected: Expected, wrong: Tensor) -> Evidence:
    """``wrong`` marks the elements to explain (bool, at least one)."""
    judged = ~wrong if expected.care is None else ~wrong & expected.care
    wrong_at = wrong.reshape(-1).nonzero().squeeze(1)
    right_at = judged.reshape(-1).nonzero().squeeze(1)
    slack = expected.slack
    if slack is not None and expected.exact is not None:
        slack = torch.where(expected.exact, 0.0, slack)
    return Evidence(
        expected=expected,
        raw=raw,
        values=read_output(raw, expected.fmt).reshape(-1),
        codes=raw_bits(raw).reshape(-1),
        truth=expected.value.reshape(-1),
        slack=None if slack is None else slack.reshape(-1).nan_to_num(nan=0.0, posinf=torch.inf),
        wrong=wrong_at[spread(wrong_at.numel(), WRONG_SAMPLE)],
        right=right_at[spread(right_at.numel(), RIGHT_SAMPLE)],
        n_wrong=wrong_at.numel(),
        n_right=right_at.numel(),
        shape=tuple(expected.value.shape),
    )


def spread(total: int, wanted: int) -> Tensor:
    """``min(total, wanted)`` or slightly fewer distinct positions below ``total``, ascending."""
    if total <= wanted:
        return torch.arange(total)
    steps = torch.arange(wanted, dtype=torch.float64) * _GOLDEN
    chosen = ((steps - steps.floor()) * total).to(torch.int64).clamp(max=total - 1)
    return chosen.unique()  # type: ignore[no-any-return, no-untyped-call]


def holds(evidence: Evidence, claim: Claim, at: Tensor) -> Tensor:
    """Which of the elements ``at`` are what the claim says, within its bounds; bool."""
    values = _read(evidence, claim, at)
    return within(values, claim.low, claim.high, claim.fmt, claim.overflow)


def holds_bitwise(evidence: Evidence, claim: Claim, at: Tensor) -> Tensor:
    """As :func:`holds` for a claim without slack, and with the sign of zero; bool."""
    rounded = round_extended(claim.low, claim.fmt)
    stored = apply_overflow(rounded, claim.fmt, claim.overflow or "inf")
    return same_value(_read(evidence, claim, at), stored, claim.fmt)


def _read(evidence: Evidence, claim: Claim, at: Tensor) -> Tensor:
    if claim.fmt is evidence.fmt:
        return evidence.values[at]
    return decode(evidence.codes[at], claim.fmt)
