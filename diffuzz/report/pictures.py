"""Pictures of a run as small plain data: which cases were drawn, and where an output is wrong.

:func:`coverage` counts what a target's cases held, :func:`error_map` says how large the errors of
an output are and where in it they sit, :func:`errors` does so for both revisions of a finding.
The results are a few kilobytes of JSON each and depend on nothing but their arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import torch
from torch import Tensor

from diffuzz.case import Axis, Case, Choice, Int, IntList, Real, float32
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.finding import Verdict
from diffuzz.numerics.error import distance, read_output, right_elements
from diffuzz.numerics.poison import raw_bits
from diffuzz.outcome import Outcome, Returned

SIDE = 64  # a map has at most this many rows and columns
_MAPS = 4
_BINS = 24  # parts that the values of an axis are counted in
_LISTED_PAIRS = 40
# Upper ends of the bins of an error in ulps: 0, 1/2, 1, 2, ... 2**26, and above. With "not finite"
# there are 31 bins.
_ULPS = [0.0, 0.5, *(2.0**k for k in range(27))]

Bins = list[tuple[str, Callable[[Any], bool]]]


def coverage(
    cases: Sequence[Case], axes: Sequence[Axis], verdicts: Iterable[Verdict] | None = None
) -> dict[str, Any]:
    """How often each value of each axis was drawn, values that never were included.

    Options are counted one by one; numbers in ranges between the axis's boundaries, each boundary
    by itself; a list by its length and by its items (a case counts once for each range its items
    touch). With ``verdicts``, in the order of ``cases``, the cases that differ are counted as
    well. ``pairs`` counts the pairs of options of two axes that some case had together; those
    missing were not drawn, or the target's contract excludes them.
    """
    differ = [verdict is Verdict.DIFFER for verdict in verdicts] if verdicts is not None else []
    counted = []
    for axis in axes:
        parts = []
        for of, bins, values in _parts(axis, cases):
            rows = []
            for label, holds in bins:
                hit = [any(holds(item) for item in items) for items in values]
                row: dict[str, Any] = {"value": label, "count": sum(hit)}
                if verdicts is not None:
                    row["differ"] = sum(a and b for a, b in zip(hit, differ, strict=True))
                rows.append(row)
            parts.append({"of": of, "values": rows})
        counted.append({"name": axis.name, "default": _word(axis.default), "parts": parts})
    return {"cases": len(cases), "axes": counted, "pairs": _pairs(cases, axes)}


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_word, value))}]"
    return str(value)


def _parts(axis: Axis, cases: Sequence[Case]) -> list[tuple[str, Bins, list[tuple[Any, ...]]]]:
    """What is counted of an axis: (of what, bins, for each case the items to put into them)."""
    drawn = [case[axis.name] for case in cases]
    single = [(value,) for value in drawn]
    if isinstance(axis, Choice):
        options: Bins = [(_word(o), _same(o)) for o in axis.options]
        return [("value", options, single)]
    if isinstance(axis, Real):
        return [("value", _scales(axis), single)]
    if isinstance(axis, Int):
        special = axis.boundaries if axis.plain is None else (*axis.boundaries, axis.plain)
        return [("value", _ranges(axis.low, axis.high, special), single)]
    assert isinstance(axis, IntList)
    lengths = _ranges(axis.min_size, axis.max_size, ())
    items = _ranges(axis.low, axis.high, axis.boundaries)
    return [
        ("length", lengths, [(len(value),) for value in drawn]),
        ("items", items, [tuple(value) for value in drawn]),
    ]


def _same(option: object) -> Callable[[Any], bool]:
    return lambda value: type(value) is type(option) and value == option


def _between(low: float, high: float) -> Callable[[Any], bool]:
    return lambda value: low <= value <= high


def _ranges(low: int, high: int, special: Sequence[int]) -> Bins:
    """Each special integer by itself and the ranges between; without any, powers of two."""
    single = {low, high, *(value for value in special if low <= value <= high)}
    if high - low < 16:
        single = set(range(low, high + 1))
    elif not special or len(single) > _BINS // 2:
        single = {low, high, *(2**k for k in range(31) if low <= 2**k <= high)}
        single = set(sorted(single)[-_BINS // 2 :]) | {low}
    bins: Bins = []
    after = low
    for value in sorted(single):
        if after < value:
            label = str(after) if after == value - 1 else f"{after}–{value - 1}"
            bins.append((label, _between(after, value - 1)))
        bins.append((str(value), _between(value, value)))
        after = value + 1
    return bins


def _scales(axis: Real) -> Bins:
    """1, powers of two and other scales on either side of it: the classes that bugs know."""

    def power(value: float) -> bool:
        return math.frexp(float32(value))[0] == 0.5

    bins: Bins = [
        ("other, below 1", lambda v: v < 1 and not power(v)),
        ("power of two below 1", lambda v: v < 1 and power(v)),
        ("1", lambda v: v == 1),
        ("power of two above 1", lambda v: v > 1 and power(v)),
        ("other, above 1", lambda v: v > 1 and not power(v)),
    ]
    return [
        found
        for found in bins
        if ("below" not in found[0] or axis.low < 1) and ("above" not in found[0] or axis.high > 1)
    ]


def _pairs(cases: Sequence[Case], axes: Sequence[Axis]) -> dict[str, Any]:
    choices = [axis for axis in axes if isinstance(axis, Choice)]
    total = drawn = 0
    missing: list[list[str]] = []
    for one, other in combinations(choices, 2):
        seen = {(_word(case[one.name]), _word(case[other.name])) for case in cases}
        for first in map(_word, one.options):
            for second in map(_word, other.options):
                total += 1
                if (first, second) in seen:
                    drawn += 1
                elif len(missing) < _LISTED_PAIRS:
                    missing.append([one.name, first, other.name, second])
    return {"total": total, "drawn": drawn, "missing": missing}


def errors(
    aspect: str,
    baseline: Outcome,
    candidate: Outcome,
    expectations: Mapping[str, Expected | ExpectedBits],
) -> dict[str, Any] | None:
    """The error maps of one output on both revisions; None for a side that gave no output, and
    None for the whole where the aspect is no output, such as ``run``."""
    expected = expectations.get(aspect)
    if expected is None:
        return None
    sides: dict[str, Any] = {}
    for side, outcome in (("baseline", baseline), ("candidate", candidate)):
        output = outcome.outputs.get(aspect) if isinstance(outcome, Returned) else None
        sides[side] = None if output is None else error_map(output, expected)
    return sides


def error_map(actual: Tensor, expected: Expected | ExpectedBits) -> dict[str, Any]:
    """Sizes and places of the errors of an output, over the elements that are judged.

    ``histogram`` counts elements by error, in ulps of the output's format or in differing bits,
    and how many of them are wrong. ``maps`` has one picture for each two neighbouring dimensions
    longer than 1, summed over the others: a row of text for each row, a character for each cell,
    ``0`` for no wrong element, ``1`` to ``8`` by their share, ``9`` for only wrong ones, ``.``
    where none is judged. A page or token shows as a row, a head or column as a column. An output
    of another shape or type than the truth has no histogram but a ``note``.
    """
    truth = expected.value if isinstance(expected, Expected) else expected.bits
    unit = f"ulp of {expected.fmt.name}" if isinstance(expected, Expected) else "differing bits"
    shape = list(actual.shape)
    result: dict[str, Any] = {"unit": unit, "shape": shape, "histogram": [], "maps": []}
    if actual.shape != truth.shape:
        return {**result, "note": f"shape {shape} instead of {list(truth.shape)}"}
    try:
        size, wrong = _sizes(actual, expected)
    except ValueError as error:
        return {**result, "note": str(error)}
    care = torch.ones_like(wrong) if expected.care is None else expected.care
    result["histogram"] = _histogram(size[care], wrong[care], isinstance(expected, Expected))
    result["maps"] = _maps(wrong & care, care)
    return result


def _sizes(actual: Tensor, expected: Expected | ExpectedBits) -> tuple[Tensor, Tensor]:
    """The error of each element (float64, NaN where not finite), and which are wrong."""
    if isinstance(expected, Expected):
        values = read_output(actual, expected.fmt)
        right = right_elements(values, expected)
        return distance(values, expected.value, expected.fmt), ~right
    if actual.dtype != expected.bits.dtype:
        raise ValueError(f"dtype {actual.dtype} instead of {expected.bits.dtype}")
    changed = raw_bits(actual).long() ^ raw_bits(expected.bits).long()
    width = 8 * actual.element_size()
    count = sum((changed >> bit) & 1 for bit in range(width))
    assert isinstance(count, Tensor)
    return count.to(torch.float64), changed != 0


def _histogram(size: Tensor, wrong: Tensor, ulps: bool) -> list[dict[str, Any]]:
    """Bins up to the last that holds something, at least the first."""
    ends = _ULPS if ulps else [float(k) for k in range(17)] + [32.0, 64.0]
    place = torch.bucketize(size, torch.tensor(ends, dtype=torch.float64))
    place = torch.where(size.isfinite(), place, len(ends) + 1)
    labels = [_end(ends, k, ulps) for k in range(len(ends))]
    labels += [f"> {labels[-1].removeprefix('≤ ')}", "not finite"]
    counts = torch.bincount(place, minlength=len(labels)).tolist()
    bad = torch.bincount(place[wrong], minlength=len(labels)).tolist()
    used = max((k for k in range(len(ends) + 1) if counts[k]), default=0)
    kept = [*range(used + 1), *([len(ends) + 1] if counts[-1] else [])]
    return [{"label": labels[k], "count": counts[k], "wrong": bad[k]} for k in kept]


def _end(ends: list[float], k: int, ulps: bool) -> str:
    if ends[k] > 1024:
        return f"≤ 2^{int(math.log2(ends[k]))}"
    if k and (ulps or ends[k] - ends[k - 1] > 1):
        return f"≤ {ends[k]:,g}"
    return f"{ends[k]:g}"


def _maps(wrong: Tensor, care: Tensor) -> list[dict[str, Any]]:
    dims = [dim for dim, size in enumerate(wrong.shape) if size > 1]
    if wrong.numel() < 2:
        return []
    if len(dims) == 1:
        return [_map(wrong.reshape(1, -1), care.reshape(1, -1), "all", f"dim {dims[0]}")]
    found = []
    for one, other in list(pairwise(dims))[:_MAPS]:
        rest = [dim for dim in dims if dim not in (one, other)]
        squeezed = [
            item.to(torch.float64).sum(dim=rest, keepdim=True) if rest else item.to(torch.float64)
            for item in (wrong, care)
        ]
        shape = (wrong.shape[one], wrong.shape[other])
        bad, judged = (item.reshape(shape) for item in squeezed)
        found.append(_map(bad, judged, f"dim {one}", f"dim {other}"))
    return found


def _map(wrong: Tensor, judged: Tensor, rows: str, cols: str) -> dict[str, Any]:
    """A map of two-dimensional counts, several rows or columns in one cell where there are many."""
    bad, care = _shrunk(wrong.to(torch.float64)), _shrunk(judged.to(torch.float64))
    # 9 is kept for cells that are wrong throughout, so that a lone right element still shows.
    some = torch.ceil(8 * bad / care.clamp(min=1))
    levels = torch.where(bad == care, 9, some).where(care > 0, -1).to(torch.int64)
    text = ["".join("." if level < 0 else str(level) for level in row) for row in levels.tolist()]
    names = [
        f"{name}: {size:,}" + (f" in {cells} cells" if cells != size else "")
        for name, size, cells in zip((rows, cols), wrong.shape, bad.shape, strict=True)
    ]
    return {"rows": names[0], "cols": names[1], "cells": text}


def _shrunk(counts: Tensor) -> Tensor:
    for dim in (0, 1):
        size = counts.shape[dim]
        cells = min(size, SIDE)
        target = torch.arange(size) * cells // size
        shape = list(counts.shape)
        shape[dim] = cells
        counts = torch.zeros(shape, dtype=counts.dtype).index_add_(dim, target, counts)
    return counts
