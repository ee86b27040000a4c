"""Every planted mistake is caught and named for what it is, at any seed and shape."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from diffuzz.expected import Expected
from diffuzz.finding import Defect, Kind
from diffuzz.numerics.formats import (
    BF16,
    E4M3FN,
    E4M3FNUZ,
    E5M2,
    FP16,
    FP32,
    FloatFormat,
    cast,
    round_to,
)
from diffuzz.numerics.rounding import truncate_extended
from diffuzz.oracles import judge
from diffuzz.outcome import Returned

from .kernels import Paged, Write, gather, write

SHAPES: list[dict[str, Any]] = [
    {},
    {"seed": 1, "lengths": (33,), "rows": 40},
    {"seed": 2, "lengths": (16, 15, 17, 1, 8), "page": 16, "heads": 8, "size": 32, "rows": 64},
    {"seed": 3, "k_scale": 0.019, "v_scale": 0.75},
    {"seed": 4, "k_scale": 11.7, "v_scale": 0.013, "fmt": E4M3FNUZ},
    {"seed": 5, "k_scale": 11.7, "v_scale": 0.013, "out": FP16},
]

# What the kernel does wrong -> kind and WHAT of the signature.
GATHER = {
    "through float8_e4m3fn saturating": (Kind.PRECISION, "through-e4m3"),
    "through float8_e5m2 saturating": (Kind.PRECISION, "through-e5m2"),
    "truncated": (Kind.PRECISION, "truncated"),
    "slot+1": (Kind.WRONG_RESULT, "slot-off-by-one"),
    "page+1": (Kind.WRONG_RESULT, "page-off-by-one"),
    "head+1": (Kind.WRONG_RESULT, "shift-dim1"),
    "column+1": (Kind.WRONG_RESULT, "shift-dim2"),
    "swapped": (Kind.WRONG_RESULT, "k-and-v-scale-swapped"),
    "missing scale": (Kind.WRONG_RESULT, "k_scale-missing"),
    "doubled": (Kind.WRONG_RESULT, "k_scale-applied-twice"),
    "inverted": (Kind.WRONG_RESULT, "k_scale-inverted"),
    "stride": (Kind.WRONG_RESULT, "block-stride-ignored"),
    "mask": (Kind.WRONG_RESULT, "mask-missing"),
    "tail": (Kind.WRONG_RESULT, "unwritten"),
    "zeros": (Kind.WRONG_RESULT, "zeros"),
    "shuffled": (Kind.WRONG_RESULT, "rows-dim0"),
    "transposed": (Kind.WRONG_RESULT, "swapped-dims-1-2"),
    "negated": (Kind.WRONG_RESULT, "negated"),
    "stale": (Kind.WRONG_RESULT, "old-content-kept"),
    "nan injected": (Kind.NON_FINITE, "not-finite"),
    "head+1 missing scale": (Kind.WRONG_RESULT, "k_scale-missing+shift-dim1"),
    "through float8_e4m3fn saturating missing scale": (Kind.WRONG_RESULT, "k_scale-missing"),
    "slot+1 through float8_e5m2 saturating": (
        Kind.WRONG_RESULT,
        "slot-off-by-one+through-e5m2",
    ),
    "doubled through float8_e4m3fn saturating": (
        Kind.WRONG_RESULT,
        "k_scale-applied-twice+through-e4m3",
    ),
    "slot+1 truncated": (Kind.WRONG_RESULT, "slot-off-by-one+truncated"),
}


def only(case: Paged, fault: str) -> Defect:
    judged = judge(Returned({"key": gather(case, fault)}), {"key": case.expected()})
    assert judged.unknown is None
    assert "key" not in judged.right
    (defect,) = judged.defects
    return defect


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fault", GATHER)
def test_gather_fault_is_named(fault: str, shape: dict[str, Any]) -> None:
    kind, what = GATHER[fault]
    defect = only(Paged(**shape), fault)
    assert defect.signature == f"{kind.value}:key:{what}", defect.message


@pytest.mark.parametrize("fmt", [E4M3FN, E5M2], ids=lambda f: f.name)
@pytest.mark.parametrize("fault", ["saturating", ""])
def test_range_effects_alone_are_a_precision_defect(fmt: FloatFormat, fault: str) -> None:
    """A power of two as scale costs no mantissa bits: only overflow and underflow show."""
    dtype = str(fmt.dtype).removeprefix("torch.")
    case = Paged(k_scale=256.0 if fmt is E4M3FN else 65536.0)
    defect = only(case, f"through {dtype} {fault}")
    family = "e4m3" if fmt is E4M3FN else "e5m2"
    assert defect.signature == f"precision:key:through-{family}", defect.message
    assert ("saturating" in defect.message) is bool(fault)


def test_the_message_says_what_a_person_wants_to_know() -> None:
    defect = only(Paged(), "through float8_e4m3fn saturating")
    assert defect.message == (
        "key: 87.1 % of 4,480 elements wrong, max 189 ulp of bf16 (rel 1); "
        "equals the truth rounded through e4m3fn (100 %); "
        "first at [0, 0, 0]: -4.5 instead of -4.44"
    )


@pytest.mark.parametrize("fault", ["read as OCP", "read as FNUZ"])
@pytest.mark.parametrize("seed", range(3))
def test_the_other_fp8_flavour_is_named(fault: str, seed: int) -> None:
    case = Paged(seed=seed, fmt=E4M3FNUZ if "OCP" in fault else E4M3FN)
    # The special codes: FNUZ's largest is OCP's NaN, OCP's negative zero is FNUZ's.
    case.codes[::3, 1, 0] = 0x7F if "OCP" in fault else 0x80
    defect = only(case, fault)
    assert defect.signature == "wrong-result:key:factor-2", defect.message
    wanted = (
        "FNUZ fp8 format are read as OCP" if "OCP" in fault else "OCP fp8 format are read as FNUZ"
    )
    assert wanted in defect.message


@pytest.mark.parametrize("fault", ["read as OCP", "read as FNUZ"])
@pytest.mark.parametrize("seed", range(3))
def test_the_other_fp8_flavour_is_named_on_every_code(fault: str, seed: int) -> None:
    case = Paged(seed=seed, fmt=E4M3FNUZ if "OCP" in fault else E4M3FN)
    draw = torch.Generator().manual_seed(seed)
    case.codes = torch.randint(0, 256, case.codes.shape, generator=draw, dtype=torch.uint8)
    assert only(case, fault).signature == "wrong-result:key:factor-2"


def test_a_uniform_factor_is_stated() -> None:
    case = Paged()
    expected = case.expected()
    plain = replace(expected, hypotheses={})
    judged = judge(Returned({"key": gather(case, "missing scale")}), {"key": plain})
    (defect,) = judged.defects
    assert defect.signature == "wrong-result:key:factor"
    # The shortest decimal that maps every element; 1 / 0.37 is 2.7027.
    assert "equals the truth times 2.7 (100 %)" in defect.message


@pytest.mark.parametrize("fault", ["lost nan"])
def test_a_lost_nan_is_non_finite(fault: str) -> None:
    case = Paged()
    case.codes[int(case.slots()[5]) // case.page, int(case.slots()[5]) % case.page, 2, 3] = 0x7F
    assert only_right(case)
    defect = only(case, fault)
    assert defect.signature == "non-finite:key:finite"
    assert "first at [5, 2, 3]: 0 instead of nan" in defect.message


def only_right(case: Paged) -> bool:
    judged = judge(Returned({"key": gather(case)}), {"key": case.expected()})
    return judged.defects == () and judged.right == {"key", "run"}


WRITE = {
    "as FNUZ": (E4M3FN, "wrong-result:written:bytes-of-e4m3fnuz"),
    "as OCP": (E4M3FNUZ, "wrong-result:written:bytes-of-e4m3fn"),
    "truncated": (E4M3FN, "precision:written:truncated"),
    "missing scale": (E4M3FN, "wrong-result:written:scale-missing"),
    "inverted": (E4M3FN, "wrong-result:written:scale-inverted"),
    "doubled": (E4M3FN, "wrong-result:written:scale-applied-twice"),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("fault", WRITE)
def test_write_fault_is_named(fault: str, seed: int) -> None:
    fmt, signature = WRITE[fault]
    case = Write(seed, tokens=20 + 7 * seed, fmt=fmt, spread=5.0)
    judged = judge(Returned(write(case, fault)), case.expected())
    assert [d.signature for d in judged.defects] == [signature], judged.defects[0].message
    assert judged.right == {"run", "untouched", "input:rows"}


@pytest.mark.parametrize("fmt", [E4M3FN, E5M2], ids=lambda f: f.name)
def test_overflow_where_the_contract_saturates(fmt: FloatFormat) -> None:
    case = Write(fmt=fmt, spread=fmt.max_finite, scale=0.1)
    judged = judge(Returned(write(case, "not saturated")), case.expected())
    (defect,) = judged.defects
    assert defect.signature == "non-finite:written:overflow"
    word = "infinity" if fmt is E5M2 else "NaN"
    assert f"with overflow to {word} instead of saturating" in defect.message


def test_saturation_where_the_contract_overflows() -> None:
    case = Write(fmt=E5M2, spread=E5M2.max_finite, scale=0.1, overflow="inf")
    judged = judge(Returned(write(case, "saturated instead")), case.expected())
    (defect,) = judged.defects
    assert defect.signature == "non-finite:written:overflow"
    assert "with saturating instead of overflow to infinity" in defect.message


def test_a_slot_off_by_one_is_seen_from_both_sides() -> None:
    case = Write()
    judged = judge(Returned(write(case, "slot+1")), case.expected())
    assert {d.aspect for d in judged.defects} == {"written", "untouched"}
    changed = next(d for d in judged.defects if d.aspect == "untouched")
    assert "untouched: changed cache slots no token maps to" in changed.message


def test_a_mutated_input_is_seen() -> None:
    case = Write()
    judged = judge(Returned(write(case, "mutated")), case.expected())
    (defect,) = judged.defects
    assert defect.signature == "wrong-result:input.rows:changed"
    assert "input:rows: changed the input rows: 0.1 % of 640 elements wrong" in defect.message
    assert defect.measure is not None
    assert defect.measure.first == (5, 3)


def planted(output: Tensor, expected: Expected) -> Defect:
    (defect,) = judge(Returned({"x": output}), {"x": expected}).defects
    return defect


def drawn(*shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_another_order_and_rows_repeated(seed: int) -> None:
    truth = drawn(24, 6, 16, seed=seed)
    heads = planted(cast(truth[:, [4, 2, 5, 0, 1, 3]], BF16), Expected(truth, BF16))
    assert heads.signature == "wrong-result:x:rows-dim1"
    assert "rows along dimension 1 in another order (0 holds 4)" in heads.message
    pages = truth.unflatten(0, (6, 4))[[3, 0, 5, 4, 2, 1]].flatten(0, 1)
    assert planted(cast(pages, BF16), Expected(truth, BF16)).signature == "wrong-result:x:rows-dim0"
    repeated = planted(cast(truth[:1].expand_as(truth), BF16), Expected(truth, BF16))
    assert repeated.signature == "wrong-result:x:rows-dim0"
    assert "taken from other rows (1 holds 0)" in repeated.message


@pytest.mark.parametrize("out", [E4M3FN, E5M2], ids=lambda f: f.name)
def test_rounding_twice_on_the_way_to_fp8(out: FloatFormat) -> None:
    """Only ties of the second rounding show it, but they all do."""
    truth = drawn(400, 64)
    defect = planted(cast(round_to(truth, BF16), out), Expected(truth, out))
    assert defect.signature == "precision:x:through-bf16"
    assert defect.measure is not None
    assert defect.measure.wrong < 0.1 * defect.measure.total


def test_range_lost_to_fp16() -> None:
    truth = drawn(40, 64) * 1e5
    defect = planted(cast(round_to(truth, FP16), BF16), Expected(truth, BF16))
    assert defect.signature == "precision:x:through-fp16"
    assert "overflow to infinity" in defect.message


@pytest.mark.parametrize("narrow", [BF16, E4M3FN, E5M2], ids=lambda f: f.name)
def test_truncation_to_a_narrower_type(narrow: FloatFormat) -> None:
    truth = drawn(40, 64)
    defect = planted(cast(truncate_extended(truth, narrow), FP32), Expected(truth, FP32))
    family = narrow.name.removesuffix("fn")
    assert defect.signature == f"precision:x:truncated-to-{family}"


def test_flushed_subnormals() -> None:
    truth = drawn(40, 64) * 2.0**-15
    flushed = torch.where(truth.abs() < 2.0**-14, 0.0, truth)
    defect = planted(cast(flushed, FP16), Expected(truth, FP16))
    assert defect.signature == "precision:x:flushed"


def test_a_targets_own_precision_hypothesis() -> None:
    a, b = drawn(40, 64), drawn(40, 64, seed=1)
    truth = a * b
    coarse = round_to(a, BF16) * b
    expected = Expected(truth, FP32, hypotheses={"rounded before the product": lambda: coarse})
    defect = planted(cast(coarse, FP32), expected)
    assert defect.signature == "precision:x:rounded-before-the-product"


def test_a_shift_by_a_page_without_a_targets_help() -> None:
    truth = drawn(64, 4, 16)
    defect = planted(cast(truth.roll(16, 0), BF16), Expected(truth, BF16))
    assert defect.signature == "wrong-result:x:shift-dim0"
    assert "taken from 16 before along dimension 0 (size 64)" in defect.message


def test_a_mistake_in_one_region_is_named_for_that_region() -> None:
    truth = drawn(64, 4, 16)
    output = cast(truth, BF16)
    output[40:, 2] = cast(round_to(truth[40:, 2], E4M3FN), BF16)
    defect = planted(output, Expected(truth, BF16))
    assert defect.signature == "precision:x:through-e4m3"
    assert "first at [40, 2, " in defect.message


def test_a_large_output_is_explained_from_a_sample() -> None:
    truth = drawn(200, 8, 64)
    defect = planted(cast(round_to(truth, E4M3FN), BF16), Expected(truth, BF16))
    assert defect.signature == "precision:x:through-e4m3"
    assert "(100 % of a sample)" in defect.message
