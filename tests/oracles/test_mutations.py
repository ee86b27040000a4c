"""Every planted mistake is caught and named for what it is, at any seed and shape."""

from __future__ import annotations

import pytest
import torch
from diffuzz.finding import Defect, Kind
from diffuzz.numerics.formats import BF16, E4M3FN, E4M3FNUZ, E5M2, FP16, FP32
from diffuzz.oracles import judge
from diffuzz.outcome import Returned

from .kernels import Paged, Write, gather, write

SHAPES = [
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
def test_gather_fault_is_named(fault: str, shape: dict[str, object]) -> None:
    kind, what = GATHER[fault]
    defect = only(Paged(**shape), fault)  # type: ignore[arg-type]
    assert defect.signature == f"{kind.value}:key:{what}", defect.message


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_correct_gather_has_no_defect(shape: dict[str, object]) -> None:
    case = Paged(**shape)  # type: ignore[arg-type]
    judged = judge(Returned({"key": gather(case)}), {"key": case.expected()})
    assert judged.defects == ()
    assert judged.right == {"key", "run"}
    assert judged.measures["key"].wrong == 0
