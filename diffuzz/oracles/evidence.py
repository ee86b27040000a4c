"""A wrong output as the explainers see it: a sample of its elements.

At most :data:`WRONG_SAMPLE` wrong elements and :data:`RIGHT_SAMPLE` right ones are looked at.
They are chosen by a fixed low-discrepancy sequence over the element index, so the choice is the
same on every machine and does not fall in step with any dimension's size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.numerics.formats import FloatFormat
from diffuzz.numerics.poison import as_integers

WRONG_SAMPLE = 16384
RIGHT_SAMPLE = 2048
SCREEN_SAMPLE = 256
FIRST_SAMPLES = (32,)

_GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Evidence:
    """One wrong output. Flat tensors have one entry per element in row-major order.

    ``wrong`` and ``right`` are sampled flat indices, ``values`` the output in float64, ``codes``
    its bit patterns (as integers of its own width).
    """

    expected: Expected
    values: Tensor
    codes: Tensor
    truth: Tensor
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
        """The few wrong elements on which every hypothesis is tried before the rest."""
        return self.wrong[spread(self.wrong.numel(), SCREEN_SAMPLE)]

    @property
    def handfuls(self) -> list[Tensor]:
        """Fewer yet, each of them part of :attr:`screen`; the smallest first."""
        screen = self.screen
        wanted = [size for size in FIRST_SAMPLES if size < screen.numel()]
        return [screen[spread(screen.numel(), size)] for size in wanted]

    def slack_at(self, at: Tensor) -> Tensor:
        """The slack of elements (float64, >= 0, shape of ``at``); 0 where there is none."""
        given, exact = self.expected.slack, self.expected.exact
        if given is None:
            return torch.zeros(at.shape, dtype=torch.float64)
        slack = given.reshape(-1)[at]
        if exact is not None:
            slack = torch.where(exact.reshape(-1)[at], 0.0, slack)
        return slack.nan_to_num(nan=0.0, posinf=torch.inf)


def gather_evidence(raw: Tensor, values: Tensor, expected: Expected, wrong: Tensor) -> Evidence:
    """``values`` are those of the output ``raw``; ``wrong`` marks the elements to explain (bool, at
    least one)."""
    judged = ~wrong if expected.care is None else ~wrong & expected.care
    wrong_at = wrong.reshape(-1).nonzero().squeeze(1)
    right_at = judged.reshape(-1).nonzero().squeeze(1)
    return Evidence(
        expected=expected,
        values=values.reshape(-1),
        codes=as_integers(raw).reshape(-1),
        truth=expected.value.reshape(-1),
        wrong=wrong_at[spread(wrong_at.numel(), WRONG_SAMPLE)],
        right=right_at[spread(right_at.numel(), RIGHT_SAMPLE)],
        n_wrong=wrong_at.numel(),
        n_right=right_at.numel(),
        shape=tuple(expected.value.shape),
    )


@lru_cache(maxsize=64)
def spread(total: int, wanted: int) -> Tensor:
    """``min(total, wanted)`` or slightly fewer distinct positions below ``total``, ascending."""
    if total <= wanted:
        return torch.arange(total)
    steps = torch.arange(wanted, dtype=torch.float64) * _GOLDEN
    chosen = ((steps - steps.floor()) * total).to(torch.int64).clamp(max=total - 1)
    return chosen.unique()  # type: ignore[no-any-return, no-untyped-call]
