"""Judges one output of one revision against its float64 truth, or its bits.

The checks run in a fixed order and each has a reason of its own: missing, shape, dtype, elements
not written or read from forbidden memory, then the remaining wrong elements. Those are explained
where that is possible, and the explanation decides the kind: ``precision`` for the right value at
too little precision or range, ``wrong-result`` otherwise. Without an explanation, an output that
is finite in the wrong places is ``non-finite``, and one whose every wrong element keeps its sign
and lies within a quarter of the truth (relative error 2**-2), or beside the right result (1.5 ulp),
counts as ``precision``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from diffuzz.expected import Expected, ExpectedBits
from diffuzz.finding import Defect, Explanation, Kind, Measure
from diffuzz.numerics.error import measure, read_output, right_elements, unravel
from diffuzz.numerics.formats import FloatFormat, ulp
from diffuzz.numerics.poison import as_integers, raw_bits
from diffuzz.oracles.by_mark import marked_elements
from diffuzz.oracles.evidence import WRONG_SAMPLE, gather_evidence
from diffuzz.oracles.explain import explain
from diffuzz.oracles.explain_bits import explain_bits
from diffuzz.oracles.wording import (
    FINITE,
    NOT_FINITE,
    OTHER_NON_FINITE,
    UNEXPLAINED,
    first_wrong,
    percent,
    signature,
    sizes,
    wrong_share,
)

COARSE = 2.0**-2
BESIDE = 1.5

Judgement = tuple[list[Defect], Measure | None]


def judge_output(name: str, output: Tensor | None, expected: Expected | ExpectedBits) -> Judgement:
    """The defects of one output (none when right) and its measure (None if not comparable)."""
    if output is None:
        return [_structural(name, "missing", "output missing")], None
    truth = expected.value if isinstance(expected, Expected) else expected.bits
    _check(name, expected, truth)
    if output.shape != truth.shape:
        said = f"shape {tuple(output.shape)} instead of {tuple(truth.shape)}"
        return [_structural(name, "shape", said)], None
    wanted = expected.fmt.dtype if isinstance(expected, Expected) else truth.dtype
    if not _stores(output, expected):
        said = f"dtype {_dtype(output.dtype)} instead of {_dtype(wanted)}"
        return [_structural(name, "dtype", said)], None
    if isinstance(expected, ExpectedBits):
        return _judge_bits(name, output, expected)
    return _judge_values(name, output, expected)


def _check(name: str, expected: Expected | ExpectedBits, truth: Tensor) -> None:
    """Refuse an expectation that cannot be judged by: the target made a mistake, not the kernel."""
    masks = [expected.care]
    if isinstance(expected, Expected):
        masks.append(expected.exact)
        if truth.dtype != torch.float64:
            raise ValueError(f"{name}: the truth is {_dtype(truth.dtype)}, not float64")
        if expected.slack is not None and expected.slack.shape != truth.shape:
            raise ValueError(f"{name}: the slack has another shape than the truth")
    for mask in masks:
        if mask is not None and (mask.dtype != torch.bool or mask.shape != truth.shape):
            raise ValueError(f"{name}: a mask is not bool of the truth's shape")


def _judge_values(name: str, output: Tensor, expected: Expected) -> Judgement:
    values = read_output(output, expected.fmt)
    right = right_elements(values, expected)
    measured = measure(values, expected, right)
    if measured.wrong == 0:
        return [], measured
    defects, rest = _marked(name, output, ~right, measured)
    if bool(rest.any()):
        if defects:
            measured = measure(values, expected, ~rest)
        defects.append(_judge_wrong(name, output, values, expected, rest, measured))
    return defects, measured


def _judge_wrong(
    name: str,
    output: Tensor,
    values: Tensor,
    expected: Expected,
    wrong: Tensor,
    measured: Measure,
) -> Defect:
    named = explain(gather_evidence(output, values, expected, wrong))
    explanation: Explanation | None = None
    if named is None:
        kind, what = _unexplained(values[wrong], expected.value[wrong], expected.fmt)
    else:
        explanation, what = named.explanation, named.key
        kind = Kind.PRECISION if explanation.narrows else Kind.WRONG_RESULT
        if what == "overflow":
            kind = Kind.NON_FINITE
    parts = [wrong_share(measured), sizes(measured, expected.fmt)]
    text = f"{name}: " + ", ".join(part for part in parts if part) + _because(explanation, measured)
    message = f"{text}; {first_wrong(measured)}"
    return Defect(kind, name, signature(kind, name, what), message, measured, explanation)


def _unexplained(values: Tensor, truth: Tensor, fmt: FloatFormat) -> tuple[Kind, str]:
    """Kind and WHAT of wrong elements that no hypothesis reproduces."""
    if bool((truth.isfinite() & ~values.isfinite()).any()):
        return Kind.NON_FINITE, NOT_FINITE
    if bool((values.isfinite() & ~truth.isfinite()).any()):
        return Kind.NON_FINITE, FINITE
    if not bool(values.isfinite().all()):
        return Kind.NON_FINITE, OTHER_NON_FINITE
    step = ulp(torch.maximum(truth.abs(), values.abs()), fmt)
    allowed = torch.maximum(COARSE * truth.abs(), BESIDE * step)
    reachable = truth.clamp(-fmt.max_finite, fmt.max_finite)
    coarse = bool(((values - reachable).abs() <= allowed).all())
    return (Kind.PRECISION if coarse else Kind.WRONG_RESULT), UNEXPLAINED


def _judge_bits(name: str, output: Tensor, expected: ExpectedBits) -> Judgement:
    total = output.numel() if expected.care is None else int(expected.care.sum())
    wrong = as_integers(output) != as_integers(expected.bits)
    if expected.care is not None:
        wrong &= expected.care
    if not bool(wrong.any()):
        return [], Measure(total=total)
    codes, truth = raw_bits(output), raw_bits(expected.bits)
    measured = _bits_measure(codes, truth, wrong, total)
    defects, rest = _marked(name, output, wrong, measured)
    if bool(rest.any()):
        measured = _bits_measure(codes, truth, rest, total)
        named = explain_bits(codes, truth, rest)
        explanation = named.explanation if named else None
        changed = f"changed {expected.meaning}" if expected.meaning else "bits differ"
        text = f"{name}: {changed}: {wrong_share(measured)}" + _because(explanation, measured)
        what = f"changed+{named.key}" if named else "changed"
        kind = Kind.WRONG_RESULT
        is_code = output.is_floating_point() or output.dtype == torch.uint8
        message = f"{text}; {first_wrong(measured, as_codes=is_code)}"
        defects.append(
            Defect(kind, name, signature(kind, name, what), message, measured, explanation)
        )
    return defects, measured


def _bits_measure(codes: Tensor, truth: Tensor, wrong: Tensor, total: int) -> Measure:
    flat = int(wrong.reshape(-1).to(torch.uint8).argmax())
    return Measure(
        wrong=int(wrong.sum()),
        total=total,
        first=unravel(flat, tuple(wrong.shape)),
        expected=float(truth.reshape(-1)[flat]),
        actual=float(codes.reshape(-1)[flat]),
    )


def _marked(
    name: str, output: Tensor, wrong: Tensor, measured: Measure
) -> tuple[list[Defect], Tensor]:
    """Defects of elements that hold a mark, and the wrong elements that remain."""
    defects = []
    rest = wrong
    kind = Kind.WRONG_RESULT
    for found in marked_elements(output, wrong):
        explanation = Explanation(found.what, found.text, found.count / measured.wrong)
        share = f"{percent(found.count, measured.total)} of {measured.total:,} elements"
        message = f"{name}: {share} {found.text}"
        sign = signature(kind, name, found.what)
        defects.append(Defect(kind, name, sign, message, measured, explanation))
        rest = rest & ~found.at
    return defects, rest


def _because(explanation: Explanation | None, measured: Measure) -> str:
    if explanation is None:
        return ""
    share = percent(round(explanation.share * measured.wrong), measured.wrong)
    sampled = " of a sample" if measured.wrong > WRONG_SAMPLE else ""
    return f"; {explanation.text} ({share}{sampled})"


def _structural(name: str, what: str, said: str) -> Defect:
    kind = Kind.WRONG_RESULT
    return Defect(kind, name, signature(kind, name, what), f"{name}: {said}")


def _stores(output: Tensor, expected: Expected | ExpectedBits) -> bool:
    if isinstance(expected, ExpectedBits):
        return output.dtype == expected.bits.dtype
    if output.dtype == expected.fmt.dtype:
        return True
    return output.dtype == torch.uint8 and expected.fmt.bits == 8


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
