"""Hypotheses about rounding: a narrower type on the way, truncation, flushing, other bytes."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from functools import lru_cache

import torch
from torch import Tensor

from diffuzz.numerics.formats import FORMATS, FP32, FloatFormat, Overflow
from diffuzz.numerics.rounding import (
    Grid,
    flush_subnormals,
    grid,
    round_extended,
    truncate_extended,
)
from diffuzz.oracles.parts import Rounding, Step

_WORDS: dict[Overflow, str] = {
    "inf": "overflow to infinity",
    "saturate": "saturating",
    "nan": "overflow to NaN",
}
_STEPS = {"round": round_extended, "truncate": truncate_extended, "flush": flush_subnormals}


@dataclass(frozen=True)
class Steps:
    """Some roundings as tensors.

    For the first step of each, its kind, and the grid and limit it has, float64 ``[n, 5, 1]``.
    ``twins`` gives for each the first that differs in nothing but the limit, int64 ``[n]``.
    ``lasts`` are the last roundings that occur, the contract's own first, and ``last_of`` says
    which one each has.
    """

    kinds: tuple[Step | None, ...]
    columns: Tensor
    twins: Tensor
    lasts: tuple[tuple[FloatFormat, Overflow | None], ...]
    last_of: tuple[int, ...]

    def take(self, values: Tensor, chosen: list[int]) -> Tensor:
        """Apply to each row of ``values`` (float64 ``[ends, rows, elements]``, changed in place)
        the step of the rounding ``chosen`` for it; monotone in each element.

        Returns the rows where the limit matters (bool).
        """
        beyond = torch.zeros(len(chosen), dtype=torch.bool)
        kinds = [self.kinds[one] for one in chosen]
        for kind, apply in _STEPS.items():
            rows = [row for row, this in enumerate(kinds) if this == kind]
            if not rows:
                continue
            *grid, limit = self.columns[[chosen[row] for row in rows]].unbind(1)
            stepped = apply(values[:, rows], Grid(*grid))
            if kind == "round":
                infinite = stepped.isinf()
                beyond[rows] = infinite.any(dim=2).any(dim=0)
                stepped = torch.where(infinite, torch.copysign(limit, stepped), stepped)
            values[:, rows] = stepped
        return beyond


@lru_cache(maxsize=64)
def steps(fmt: FloatFormat, overflow: Overflow | None) -> Steps:
    """Those of :func:`roundings`."""
    every = roundings(fmt, overflow)
    columns = [[*astuple(grid(one.through or fmt)), one.limit] for one in every]
    ends = []
    for one in every:
        kept = overflow if one.fmt is None else None
        ends.append((one.fmt or fmt, one.overflow if one.own_overflow else kept))
    alike = [(one.step, one.through, end) for one, end in zip(every, ends, strict=True)]
    lasts = tuple(dict.fromkeys(ends))
    return Steps(
        kinds=tuple(one.step for one in every),
        columns=torch.tensor(columns, dtype=torch.float64).unsqueeze(2),
        twins=torch.tensor([alike.index(one) for one in alike]),
        lasts=lasts,
        last_of=tuple(lasts.index(end) for end in ends),
    )


@lru_cache(maxsize=64)
def roundings(fmt: FloatFormat, overflow: Overflow | None) -> tuple[Rounding, ...]:
    """All of them for an output of ``fmt``, none at all first, then plainest first.

    Wider types come before narrower ones: where data cannot tell them apart, the weaker claim
    stands. Types wider than the output count too: rounding twice is not rounding once.
    """
    others = sorted(
        (f for f in FORMATS.values() if f is not fmt),
        key=lambda f: (-f.mantissa_bits, -f.exponent_bits, f.flavour == "fnuz"),
    )
    cut = "truncated instead of rounded"
    found = [
        Rounding("truncated", cut, 300, step="truncate", through=fmt, narrows=True),
        *_flushed(fmt),
    ]
    for order, other in enumerate(others):
        found += _through(other, 310 + 10 * order)
        if other.mantissa_bits < fmt.mantissa_bits:
            found.append(
                Rounding(
                    f"truncated-to-{_family(other)}",
                    f"truncated to {other.name}",
                    400 + order,
                    step="truncate",
                    through=other,
                    narrows=True,
                )
            )
    return (Rounding(), *found, *_other_bytes(fmt, others), *_other_overflow(fmt, overflow))


def _flushed(fmt: FloatFormat) -> list[Rounding]:
    """Subnormals of the output's type, or of the one it was computed in."""
    return [
        Rounding(
            "flushed",
            f"subnormals of {one.name} flushed to zero",
            50 + order,
            step="flush",
            through=one,
            narrows=True,
        )
        for order, one in enumerate([fmt] if fmt is FP32 else [fmt, FP32])
    ]


def _through(other: FloatFormat, rank: int) -> list[Rounding]:
    policies: tuple[Overflow, ...] = ("inf", "saturate", "nan")
    if other.flavour != "ieee":
        policies = ("saturate", "nan")
    return [
        Rounding(
            f"through-{_family(other)}",
            f"rounded through {other.name}",
            rank + i,
            step="round",
            through=other,
            limit=_limit(other, policy),
            narrows=True,
            variant=_WORDS[policy],
        )
        for i, policy in enumerate(policies)
    ]


def _other_bytes(fmt: FloatFormat, others: list[FloatFormat]) -> list[Rounding]:
    """An output of one-byte codes may hold the right value in another one-byte format."""
    if fmt.bits != 8:
        return []
    same = [o for o in others if o.bits == 8]
    return [
        Rounding(
            f"bytes-of-{o.name}",
            f"stored as {o.name} bytes where {fmt.name} is read",
            250 + i,
            fmt=o,
        )
        for i, o in enumerate(same)
    ]


def _other_overflow(fmt: FloatFormat, overflow: Overflow | None) -> list[Rounding]:
    if overflow is None:
        return []
    policies: tuple[Overflow, ...] = ("saturate", "inf") if fmt.flavour == "ieee" else ("saturate",)
    return [
        Rounding(
            "overflow",
            f"with {_WORDS[p]} instead of {_WORDS[overflow]}",
            260 + i,
            combines=False,
            overflow=p,
            own_overflow=True,
        )
        for i, p in enumerate((*policies, "nan"))
        if p != overflow and not (overflow == "inf" and p == "nan" and fmt.flavour != "ieee")
    ]


def _family(fmt: FloatFormat) -> str:
    """Flavours of one layout share a name: small data often cannot tell them apart."""
    return fmt.name.removesuffix("fnuz").removesuffix("fn")


def _limit(fmt: FloatFormat, policy: Overflow) -> float:
    """What :func:`diffuzz.numerics.rounding.apply_overflow` makes of an infinite magnitude."""
    if policy == "saturate":
        return fmt.max_finite
    return math.inf if policy == "inf" and fmt.flavour == "ieee" else math.nan
