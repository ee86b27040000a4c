"""Judges one output of one revision against its float64 truth, or its bits.

The checks run in a fixed order and each has a reason of its own: missing, shape, dtype, not
written, then the elements. Elements that are wrong are explained where that is possible, and the
explanation decides the kind: ``precision`` for the right value at too little precision or range,
``wrong-result`` otherwise. Without an explanation, an output that is finite in the wrong places
is ``non-finite``, and one whose every wrong element keeps its sign and lies within a quarter of
the truth (relative error 2**-2, or one ulp if that is more) counts as ``precision``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.expected import Expected, ExpectedBits
from diffuzz.finding import Defect, Explanation, Kind, Measure
from diffuzz.numerics.error import measure, read_output, right_elements, unravel
from diffuzz.numerics.formats import ulp
from diffuzz.numerics.poison import is_forbidden, is_poison, raw_bits
from diffuzz.oracles.evidence import gather_evidence
from diffuzz.oracles.explain import ENOUGH, Named, explain
from diffuzz.oracles.wording import (
    UNEXPLAINED,
    first_wrong,
    percent,
    signature,
    sizes,
    wrong_share,
)

COARSE = 2.0**-2

Judgement = tuple[Defect | None, Measure | None]


def judge_output(name: str, output: Tensor | None, expected: Expected | ExpectedBits) -> Judgement:
    """The defect of one output (None when right) and its measure (None when not comparable)."""
    if output is None:
        return _structural(name, "missing", "output missing"), None
    truth = expected.value if isinstance(expected, Expected) else expected.bits
    if output.shape != truth.shape:
        said = f"shape {tuple(output.shape)} instead of {tuple(truth.shape)}"
        return _structural(name, "shape", said), None
    if isinstance(expected, ExpectedBits):
        return _judge_bits(name, output, expected)
    if not _stores(output, expected):
        said = f"dtype {_dtype(output)} instead of {str(expected.fmt.dtype).removeprefix('torch.')}"
        return _structural(name, "dtype", said), None
    return _judge_values(name, output, expected)


def _judge_values(name: str, output: Tensor, expected: Expected) -> Judgement:
    values = read_output(output, expected.fmt)
    right = right_elements(values, expected)
    measured = measure(values, expected, right)
    if measured.wrong == 0:
        return None, measured
    unwritten = _marked(name, output, ~right, measured)
    if unwritten is not None:
        return unwritten, measured
    named = explain(gather_evidence(output, expected, right))
    wrong = ~right
    if named is None:
        kind, what = _unexplained(values[wrong], expected.value[wrong], expected)
        explanation: Explanation | None = None
    else:
        explanation, what = named.explanation, named.key
        kind = Kind.PRECISION if explanation.narrows else Kind.WRONG_RESULT
        if what == "overflow":
            kind = Kind.NON_FINITE
    message = _message(name, measured, expected, explanation)
    return (
        Defect(kind, name, signature(kind, name, what), message, measured, explanation),
        measured,
    )


def _unexplained(values: Tensor, truth: Tensor, expected: Expected) -> tuple[Kind, str]:
    """Kind and WHAT of wrong elements that no hypothesis reproduces."""
    if bool((truth.isfinite() & ~values.isfinite()).any()):
        return Kind.NON_FINITE, "not-finite"
    if bool((values.isfinite() & ~truth.isfinite()).any()):
        return Kind.NON_FINITE, "finite"
    if not bool(values.isfinite().all()):
        return Kind.NON_FINITE, "other-non-finite"
    allowed = torch.maximum(COARSE * truth.abs(), ulp(truth, expected.fmt))
    reachable = truth.clamp(-expected.fmt.max_finite, expected.fmt.max_finite)
    coarse = bool(((values - reachable).abs() <= allowed).all())
    return (Kind.PRECISION if coarse else Kind.WRONG_RESULT), UNEXPLAINED


def _judge_bits(name: str, output: Tensor, expected: ExpectedBits) -> Judgement:
    if output.dtype != expected.bits.dtype:
        wanted = str(expected.bits.dtype).removeprefix("torch.")
        return _structural(name, "dtype", f"dtype {_dtype(output)} instead of {wanted}"), None
    codes, truth = raw_bits(output), raw_bits(expected.bits)
    wrong = codes != truth
    if expected.care is not None:
        wrong &= expected.care
    n_wrong = int(wrong.sum())
    total = wrong.numel() if expected.care is None else int(expected.care.sum())
    if n_wrong == 0:
        return None, Measure(total=total)
    flat = int(wrong.reshape(-1).to(torch.uint8).argmax())
    measured = Measure(
        wrong=n_wrong,
        total=total,
        first=unravel(flat, tuple(output.shape)),
        expected=float(truth.reshape(-1)[flat]),
        actual=float(codes.reshape(-1)[flat]),
    )
    unwritten = _marked(name, output, wrong, measured)
    if unwritten is not None:
        return unwritten, measured
    changed = f"changed {expected.meaning}" if expected.meaning else "bits differ"
    share = f"{n_wrong:,} of {total:,} elements ({percent(n_wrong, total)})"
    message = f"{name}: {changed}: {share}; {first_wrong(measured)}"
    kind = Kind.WRONG_RESULT
    return Defect(kind, name, signature(kind, name, "changed"), message, measured), measured


def _marked(name: str, output: Tensor, wrong: Tensor, measured: Measure) -> Defect | None:
    """Wrong elements that still hold poison, or hold what must not be read."""
    enough = max(1, 4 // output.element_size())
    for test, what, said in (
        (is_poison, "unwritten", "not written"),
        (is_forbidden, "forbidden", "read from memory that must not be read"),
    ):
        marked = test(output) & wrong
        count = int(marked.sum())
        if count < enough or count < ENOUGH * measured.wrong:
            continue
        text = f"{said}{_region(marked)}"
        explanation = Explanation(said, text, count / measured.wrong)
        kind = Kind.WRONG_RESULT
        message = f"{name}: {wrong_share(measured)}: {text}"
        return Defect(kind, name, signature(kind, name, what), message, measured, explanation)
    return None


def _region(marked: Tensor) -> str:
    """Where marked elements are, when they are everything or all that follows some index."""
    if bool(marked.all()):
        return " at all"
    for dim in range(marked.dim()):
        rest = [d for d in range(marked.dim()) if d != dim]
        lines_any = marked.amax(dim=rest) if rest else marked
        lines_all = marked.amin(dim=rest) if rest else marked
        start = int(lines_any.to(torch.uint8).argmax())
        if bool(lines_all[start:].all()):
            return f" from index {start} of dimension {dim} (size {marked.shape[dim]}) on"
    return ""


def _message(
    name: str, measured: Measure, expected: Expected, explanation: Explanation | None
) -> str:
    parts = [wrong_share(measured), sizes(measured, expected.fmt)]
    text = f"{name}: " + ", ".join(part for part in parts if part)
    if explanation is not None:
        share = percent(round(explanation.share * measured.wrong), measured.wrong)
        text += f"; {explanation.text} ({share})"
    where = first_wrong(measured)
    return f"{text}; {where}" if where else text


def _structural(name: str, what: str, said: str) -> Defect:
    kind = Kind.WRONG_RESULT
    return Defect(kind, name, signature(kind, name, what), f"{name}: {said}")


def _stores(output: Tensor, expected: Expected) -> bool:
    if output.dtype == expected.fmt.dtype:
        return True
    return output.dtype == torch.uint8 and expected.fmt.bits == 8


def _dtype(output: Tensor) -> str:
    return str(output.dtype).removeprefix("torch.")


__all__ = ["Judgement", "Named", "judge_output"]
