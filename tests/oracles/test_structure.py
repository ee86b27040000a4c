"""Missing, misshapen, mistyped and unwritten outputs; outputs judged by their bits."""

from __future__ import annotations

import pytest
import torch

from diffuzz.errors import UsageError
from diffuzz.expected import Expected, ExpectedBits
from diffuzz.finding import Kind
from diffuzz.numerics.formats import BF16, E4M3FN, FloatFormat, cast
from diffuzz.numerics.poison import forbid, poison
from diffuzz.oracles import judge
from diffuzz.outcome import Returned


def truth(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def said(output: torch.Tensor | None, expected: Expected | ExpectedBits) -> list[tuple[str, str]]:
    outputs = {} if output is None else {"x": output}
    judged = judge(Returned(outputs), {"x": expected})
    assert "x" not in judged.right
    return [(d.signature, d.message) for d in judged.defects]


def test_missing_shape_and_dtype_each_have_a_reason() -> None:
    value = truth(4, 8)
    expected = Expected(value, BF16)
    assert said(None, expected) == [("wrong-result:x:missing", "x: output missing")]
    assert said(cast(value[1:], BF16), expected) == [
        ("wrong-result:x:shape", "x: shape (3, 8) instead of (4, 8)")
    ]
    assert said(cast(value, BF16).reshape(32), expected)[0][0] == "wrong-result:x:shape"
    assert said(cast(value, BF16).float(), expected) == [
        ("wrong-result:x:dtype", "x: dtype float32 instead of bfloat16")
    ]
    assert said(torch.zeros(4, 8, dtype=torch.uint8), expected)[0][0] == "wrong-result:x:dtype"
    bits = ExpectedBits(torch.zeros(4, 8, dtype=torch.int32))
    assert said(torch.zeros(4, 8, dtype=torch.int64), bits) == [
        ("wrong-result:x:dtype", "x: dtype int64 instead of int32")
    ]
    assert said(None, bits)[0][0] == "wrong-result:x:missing"


def test_an_output_without_expectation_is_the_targets_mistake() -> None:
    outcome = Returned({"x": torch.zeros(1), "extra": torch.zeros(1)})
    with pytest.raises(UsageError, match="returned extra without an expectation; it states x"):
        judge(outcome, {"x": ExpectedBits(torch.zeros(1))})


@pytest.mark.parametrize(
    "expected",
    [
        Expected(torch.zeros(2), BF16),
        Expected(truth(2), BF16, slack=truth(3).abs()),
        Expected(truth(2), BF16, care=torch.ones(3, dtype=torch.bool)),
        Expected(truth(2), BF16, exact=torch.ones(2)),
        ExpectedBits(torch.zeros(2), care=torch.ones(1, dtype=torch.bool)),
    ],
    ids=["float32 truth", "slack", "care", "exact", "bits"],
)
def test_an_expectation_that_cannot_be_judged_by_is_refused(
    expected: Expected | ExpectedBits,
) -> None:
    with pytest.raises(ValueError, match=r"^x: "):
        judge(Returned({"x": torch.zeros(2, dtype=torch.bfloat16)}), {"x": expected})


def test_a_hypothesis_of_another_shape_is_refused() -> None:
    value = truth(8, 8)
    expected = Expected(value, BF16, hypotheses={"page lost": lambda: value[1:]})
    with pytest.raises(ValueError, match=r"hypothesis 'page lost' gives shape \(7, 8\)"):
        judge(Returned({"x": cast(-value, BF16)}), {"x": expected})


@pytest.mark.parametrize("fmt", [BF16, E4M3FN], ids=lambda f: f.name)
def test_an_untouched_output(fmt: FloatFormat) -> None:
    value = truth(6, 16)
    output = poison(torch.empty(6, 16, dtype=fmt.dtype))
    ((signature, message),) = said(output, Expected(value, fmt))
    assert signature == "wrong-result:x:unwritten"
    assert message == "x: 100 % of 96 elements not written at all"


@pytest.mark.parametrize("fmt", [BF16, E4M3FN], ids=lambda f: f.name)
@pytest.mark.parametrize("dim", [0, 1])
def test_an_unwritten_tail_is_located(fmt: FloatFormat, dim: int) -> None:
    value = truth(12, 16)
    output = cast(value, fmt)
    poison(output.narrow(dim, 9, 3))
    ((signature, message),) = said(output, Expected(value, fmt))
    assert signature == "wrong-result:x:unwritten"
    size = (12, 16)[dim]
    if dim == 0:
        assert f"not written from index 9 of dimension {dim} (size {size}) on" in message


def test_a_tail_unwritten_and_the_rest_too_coarse_are_two_defects() -> None:
    value = truth(12, 16)
    output = cast(value, BF16)
    output[:9] = cast(value[:9], E4M3FN).to(torch.bfloat16)
    poison(output[9:])
    found = said(output, Expected(value, BF16))
    assert [signature for signature, _ in found] == [
        "wrong-result:x:unwritten",
        "precision:x:through-e4m3",
    ]


def test_a_byte_that_looks_unwritten_by_chance_is_not_called_so() -> None:
    value = truth(64, 16)
    output = cast(-value, E4M3FN)
    assert [s for s, _ in said(output, Expected(value, E4M3FN))] == ["wrong-result:x:negated"]


def test_forbidden_memory_is_told_from_unwritten_output() -> None:
    value = truth(12, 16)
    output = cast(value, BF16)
    forbid(output[3])
    ((signature, message),) = said(output, Expected(value, BF16))
    assert signature == "wrong-result:x:forbidden"
    assert "read from memory that must not be read" in message


def test_poison_that_must_stay_is_right() -> None:
    kept = poison(torch.empty(4, 8, dtype=torch.bfloat16))
    expected = ExpectedBits(kept.clone(), meaning="rows nobody asked for")
    assert judge(Returned({"x": kept}), {"x": expected}).right == {"x", "run"}
    kept[1, 2] = 0
    ((signature, message),) = said(kept, expected)
    assert signature == "wrong-result:x:changed"
    assert message.startswith("x: changed rows nobody asked for: 3.1 % of 32 elements wrong")
    assert message.endswith("first at [1, 2]: 0x0 instead of 0x7fe5")


def test_care_limits_what_bits_are_judged() -> None:
    bits = torch.arange(8, dtype=torch.int32)
    care = torch.arange(8) < 6
    changed = bits.clone()
    changed[7] = 99
    assert judge(Returned({"x": changed}), {"x": ExpectedBits(bits, care)}).right == {"x", "run"}
    changed[2] = 99
    ((_, message),) = said(changed, ExpectedBits(bits, care))
    assert "16.6 % of 6 elements wrong" in message


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8, torch.bfloat16], ids=str)
def test_bits_are_explained_by_place(dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    bits = torch.randint(0, 100, (12, 4, 16), generator=draw).to(dtype)
    expected = ExpectedBits(bits)

    def what(output: torch.Tensor) -> str:
        ((signature, _),) = said(output, expected)
        return signature.removeprefix("wrong-result:x:changed")

    assert what(bits.roll(1, 0)) == "+shift-dim0"
    assert what(bits.roll(-1, 1)) == "+shift-dim1"
    assert what(bits.flip(0)) == "+rows-dim0"
    assert what(bits.transpose(0, 2).contiguous().view(bits.shape)) == "+swapped-dims-0-2"
    assert what(torch.zeros_like(bits)) == "+zeros"
    assert what(torch.full_like(bits, 7)) == "+constant"
    assert what(torch.randint(0, 100, bits.shape, generator=draw).to(dtype)) == ""


def test_bits_tell_apart_what_values_do_not() -> None:
    bits = torch.tensor([0.0, torch.nan], dtype=torch.bfloat16)
    assert judge(Returned({"x": bits.clone()}), {"x": ExpectedBits(bits)}).defects == ()
    other = torch.tensor([-0.0, torch.nan], dtype=torch.bfloat16)
    assert said(other, ExpectedBits(bits))[0][0] == "wrong-result:x:changed"


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_empty_and_scalar_outputs(shape: tuple[int, ...]) -> None:
    value = torch.zeros(shape, dtype=torch.float64)
    output = torch.zeros(shape, dtype=torch.bfloat16)
    both = {"x": Expected(value, BF16), "y": ExpectedBits(output.clone())}
    judged = judge(Returned({"x": output, "y": output}), both)
    assert judged.right == {"x", "y", "run"}
    assert {m.total for m in judged.measures.values()} == {value.numel()}


def test_a_wrong_scalar_has_an_index() -> None:
    judged = judge(
        Returned({"x": torch.tensor(2.0, dtype=torch.bfloat16)}),
        {"x": Expected(torch.tensor(1.0, dtype=torch.float64), BF16)},
    )
    (defect,) = judged.defects
    assert defect.kind is Kind.WRONG_RESULT
    assert "100 % of 1 element wrong" in defect.message
    assert "first at []: 2 instead of 1" in defect.message
