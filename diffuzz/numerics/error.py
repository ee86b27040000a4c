"""How far a result is from the truth, and whether it is one of the results that count as right.

Pure functions on CPU tensors of any shape, empty ones included. Results are read into float64
first (:func:`read_output`), where every value of every format is exact.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.finding import Measure
from diffuzz.numerics.formats import FloatFormat, Overflow, decode, widen
from diffuzz.numerics.rounding import round_extended, spacing


def read_output(output: Tensor, fmt: FloatFormat) -> Tensor:
    """float64 values of a raw output: of ``fmt.dtype``, or bytes that hold codes of ``fmt``.

    Raises ValueError for any other dtype.
    """
    if output.dtype == fmt.dtype:
        if fmt.bits > 8:
            return widen(output)
        return _read_bytes(output.contiguous().view(torch.uint8), fmt)
    if output.dtype == torch.uint8 and fmt.bits == 8:
        return _read_bytes(output, fmt)
    raise ValueError(f"a tensor of {output.dtype} does not hold {fmt.name}")


def _read_bytes(codes: Tensor, fmt: FloatFormat) -> Tensor:
    return decode(torch.arange(256), fmt)[codes.to(torch.int32)]


def distance(values: Tensor, truth: Tensor, fmt: FloatFormat) -> Tensor:
    """Absolute error in ulps of ``fmt`` at the truth, same shape.

    The truth is first brought into the format's range, so that a saturated result counts as near.
    NaN where either side is not finite, 0 where both are the same infinity or both NaN.
    """
    reachable = truth.clamp(-fmt.max_finite, fmt.max_finite)
    error = (values - reachable).abs() / spacing(truth, fmt)
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
    low_end = round_extended(low, fmt)
    high_end = low_end if high is low else round_extended(high, fmt)
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

    Infinite and NaN truths have no slack, whatever it says there. Raises ValueError for a slack
    of a finite truth that is negative or NaN.
    """
    if slack is None:
        return value, value
    plain = (slack == 0) | ~value.isfinite()
    if not bool(((slack > 0) | plain).all()):
        raise ValueError("the error model has a slack that is negative or NaN")
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
    settled = right
    if expected.exact is not None:
        same = same_value(values, expected.value, expected.fmt)
        right = torch.where(expected.exact, same, right)
        settled = right | expected.exact
    right = right.contiguous()
    open_ = (~settled).reshape(-1).nonzero().squeeze(1)
    if open_.numel():
        picked = [_pick(t, open_) for t in (values, expected.value, expected.slack)]
        assert picked[0] is not None
        assert picked[1] is not None
        low, high = interval(picked[1], picked[2])
        right.view(-1)[open_] = within(picked[0], low, high, expected.fmt, expected.overflow)
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
    total = truth.numel() if expected.care is None else int(expected.care.sum())
    n_wrong = truth.numel() - int(right.sum())
    max_ulp, rms, relative = _sizes(values, truth, expected.care, expected.fmt)
    if n_wrong == 0:
        return Measure(max_ulp, rms, relative, 0, total)
    flat = int((~right).reshape(-1).to(torch.uint8).argmax())
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


def _sizes(
    values: Tensor, truth: Tensor, care: Tensor | None, fmt: FloatFormat
) -> tuple[float, float, float]:
    """Largest and rms error in ulps and largest relative error, over pairs of finite numbers.

    For the relative error, a truth below the normal range is taken as the smallest normal.
    """
    if truth.numel() == 0:
        return 0.0, 0.0, 0.0
    error = (values - truth.clamp(-fmt.max_finite, fmt.max_finite)).abs_()
    magnitude = truth.abs().clamp_(2.0**fmt.min_exponent, fmt.max_finite)
    counted = care
    # Nearly always all are finite, and one sum tells.
    if not math.isfinite(float(error.sum())):
        finite = values.isfinite() & ~truth.isnan()
        counted = finite if care is None else finite & care
        magnitude.nan_to_num_(nan=1.0)
    if counted is not None:
        error = torch.where(counted, error, 0.0)
    relative = float((error / magnitude).max())
    ulps = error.div_(spacing(truth, fmt))
    count = truth.numel() if counted is None else int(counted.sum())
    mean = float(ulps.square().sum()) / max(count, 1)
    return float(ulps.max()), math.sqrt(mean), relative


def _surely_right(values: Tensor, expected: Expected) -> Tensor:
    """A cheap test that only says yes when the interval test would, and usually does.

    A result is right if some point within the slack of the truth is nearer to it than half of the
    smallest gap beside it. That gap is at least ``|result| * 2**-(mantissa bits + 1)``.
    """
    error = (values - expected.value).abs_()
    reach = values.abs().mul_(2.0 ** -(expected.fmt.mantissa_bits + 2))
    if expected.slack is not None:
        reach += expected.slack
    # An infinite or NaN result has such an error too, which is below nothing.
    return (error < reach).logical_or_(error == 0)


def _pick(tensor: Tensor | None, at: Tensor) -> Tensor | None:
    return None if tensor is None else tensor.reshape(-1)[at]
