"""Hypotheses about rounding: a narrower type on the way, truncation, flushing, other bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

from torch import Tensor

from diffuzz.numerics.formats import FORMATS, FP32, FloatFormat, Overflow
from diffuzz.numerics.rounding import (
    apply_overflow,
    flush_subnormals,
    round_extended,
    truncate_extended,
)
from diffuzz.oracles.parts import Rounding

_WORDS: dict[Overflow, str] = {
    "inf": "overflow to infinity",
    "saturate": "saturating",
    "nan": "overflow to NaN",
}


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
    found = [Rounding("truncated", cut, 300, apply=_truncate(fmt), narrows=True), *_flushed(fmt)]
    for order, other in enumerate(others):
        found += _through(other, 310 + 10 * order)
        if other.mantissa_bits < fmt.mantissa_bits:
            found.append(
                Rounding(
                    f"truncated-to-{_family(other)}",
                    f"truncated to {other.name}",
                    400 + order,
                    apply=_truncate(other),
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
            apply=_flush(one),
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
            apply=partial(_round, other, policy),
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


def _round(fmt: FloatFormat, policy: Overflow, values: Tensor) -> Tensor:
    return apply_overflow(round_extended(values, fmt), fmt, policy)


def _truncate(fmt: FloatFormat) -> Callable[[Tensor], Tensor]:
    return partial(truncate_extended, fmt=fmt)


def _flush(fmt: FloatFormat) -> Callable[[Tensor], Tensor]:
    return partial(flush_subnormals, fmt=fmt)
