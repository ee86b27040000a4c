"""How far a result is from the truth, and whether it is one of the results that count as right.

Pure functions on CPU tensors of any shape, empty ones included. Results are read into float64
first (:func:`read_output`), where every value of every format is exact.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.finding import Measure
from diffuzz.numerics.formats import FloatFormat, Overflow, decode, ulp, widen
from diffuzz.numerics.rounding import round_extended


def read_output(output: Tensor, fmt: FloatFormat) -> Tensor:
    """float64 values of a raw output: of ``fmt.dtype``, or bytes that hold codes of ``fmt``.

    Raises ValueError for any other dtype.
    """
    if output.dtype == fmt.dtype:
        return widen(output)
    if output.dtype == torch.uint8 and fmt.bits == 8:
        return decode(output, fmt)
    raise ValueError(f"a tensor of {output.dtype} does not hold {fmt.name}")


def distance(values: Tensor, truth: Tensor, fmt: FloatFormat) -> Tensor:
    """Absolute error in ulps of ``fmt`` at the truth, same shape.

    The truth is first brought into the format's range, so that a saturated result counts as near.
    NaN where either side is not finite, 0 where both are the same infinity or both NaN.
    """
    reachable = truth.clamp(-fmt.max_finite, fmt.max_finite)
    error = (values - reachable).abs() / ulp(truth, fmt)
    error = torch.where(values.isfinite() & ~truth.isnan(), error, torch.nan)
    same = (values == truth) | (values.isnan() & truth.isnan())
    return torch.where(same, 0.0, error)


def within(
    values: Tensor, low: Tensor, high: Tensor, fmt: FloatFormat, overflow: Overflow | None
) -> Tensor:
    """Which values lie between the roundings to ``fmt`` of ``low`` and ``high`` (float64).

    ``overflow`` as in :class:`~diffuzz.expected.Expected`. NaN in ``low`` or ``high`` wants NaN.
    The sign of zero is ignored.
    """
    low_end, high_end = round_extended(low, fmt), round_extended(high, fmt)
    top = fmt.max_finite
    if overflow == "inf" and fmt.flavour != "ieee":
        overflow = "nan"
    beyond = low_end.isinf() | high_end.isinf()
    if overflow == "saturate":
        low_end, high_end = low_end.clamp(-top, top), high_end.clamp(-top, top)
    elif overflow is None:
        low_end, high_end = low_end.clamp(max=top), high_end.clamp(min=-top)
    inside = (low_end <= values) & (values <= high_end)
    if overflow == "nan":
        inside &= values.isfinite()
    if overflow in ("nan", None):
        inside |= beyond & values.isnan()
    return torch.where(low.isnan() | high.isnan(), values.isnan(), inside)


def interval(value: Tensor, slack: Tensor | None) -> tuple[Tensor, Tensor]:
    """``value - slack`` and ``value + slack``, widened by float64's own rounding of the sum.

    Infinite and NaN truths have no slack. Raises ValueError for a slack that is negative or NaN.
    """
    if slack is None:
        return value, value
    if not bool((slack >= 0).all()):
        raise ValueError("the error model has a slack that is negative or NaN")
    plain = (slack == 0) | ~value.isfinite()
    infinity = torch.full_like(value, torch.inf)
    low = torch.where(plain, value, torch.nextafter(value - slack, -infinity))
    high = torch.where(plain, value, torch.nextafter(value + slack, infinity))
    return low, high


def right_elements(values: Tensor, expected: Expected) -> Tensor:
    """Which elements of a result (float64, read by :func:`read_output`) count as right; bool.

    Elements outside ``care`` count as right. ``exact`` elements must have the value and the sign
    of zero of the truth; NaN stands for NaN of any payload (use ``ExpectedBits`` for payloads).
    """
    right = _surely_right(values, expected)
    open_ = (~right).reshape(-1).nonzero().squeeze(1)
    if open_.numel():
        picked = [_pick(t, open_) for t in (values, expected.value, expected.slack)]
        assert picked[0] is not None
        assert picked[1] is not None
        low, high = interval(picked[1], picked[2])
        right.view(-1)[open_] = within(picked[0], low, high, expected.fmt, expected.overflow)
    if expected.exact is not None:
        same = same_value(values, expected.value, expected.fmt)
        right = torch.where(expected.exact, same, right)
    if expected.care is not None:
        right = right | ~expected.care
    return right


def same_value(values: Tensor, truth: Tensor, fmt: FloatFormat) -> Tensor:
    """Which values would have the same bits in ``fmt``, NaN payloads aside."""
    same = values == truth
    if fmt.flavour != "fnuz":
        same &= torch.signbit(values) == torch.signbit(truth)
    return same | (values.isnan() & truth.isnan())


def measure(values: Tensor, expected: Expected, right: Tensor) -> Measure:
    """How wrong a result is, over the elements that are judged.

    ``max_ulp``, ``rms_ulp`` and ``max_rel`` leave out elements where either side is not finite
    (they count in ``wrong``). ``right`` comes from :func:`right_elements`.
    """
    truth = expected.value
    error = distance(values, truth, expected.fmt)
    if expected.care is not None:
        error = torch.where(expected.care, error, torch.nan)
    counted = error.isfinite()
    total = truth.numel() if expected.care is None else int(expected.care.sum())
    count = int(counted.sum())
    error = torch.where(counted, error, 0.0)
    wrong = ~right
    n_wrong = int(wrong.sum())
    max_ulp = float(error.max()) if error.numel() else 0.0
    rms = float((error * error).sum() / max(count, 1)) ** 0.5
    relative = _max_relative(values, truth, error, expected.fmt)
    if n_wrong == 0:
        return Measure(max_ulp, rms, relative, 0, total)
    flat = int(wrong.reshape(-1).to(torch.uint8).argmax())
    first = unravel(flat, tuple(truth.shape))
    return Measure(
        max_ulp,
        rms,
        relative,
        n_wrong,
        total,
        first,
        float(truth.reshape(-1)[flat]),
        float(values.reshape(-1)[flat]),
    )


def unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index whose position in row-major order is ``flat``."""
    index = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def _max_relative(values: Tensor, truth: Tensor, error: Tensor, fmt: FloatFormat) -> float:
    """Largest relative error; a truth below the normal range is taken as the smallest normal."""
    magnitude = truth.abs().clamp(2.0**fmt.min_exponent, fmt.max_finite)
    reachable = truth.clamp(-fmt.max_finite, fmt.max_finite)
    relative = torch.where(error > 0, (values - reachable).abs() / magnitude, 0.0)
    return float(relative.max()) if relative.numel() else 0.0


def _surely_right(values: Tensor, expected: Expected) -> Tensor:
    """A cheap test that only says yes when the interval test would, and usually does.

    A result is right if some point within the slack of the truth is nearer to it than half of the
    smallest gap beside it. That gap is at least ``|result| * 2**-(mantissa bits + 1)``.
    """
    error = (values - expected.value).abs()
    reach = values.abs() * 2.0 ** -(expected.fmt.mantissa_bits + 2)
    if expected.slack is not None:
        reach += expected.slack
    return (error < reach) & values.isfinite() | (error == 0)


def _pick(tensor: Tensor | None, at: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.reshape(-1)[at]
