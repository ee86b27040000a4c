from __future__ import annotations

import pytest
import torch

from diffuzz.numerics.formats import BY_DTYPE, E4M3FN, bits_of, cast, widen
from diffuzz.numerics.poison import forbid, is_forbidden, is_poison, poison, raw_bits

DTYPES = [*BY_DTYPE, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4)], ids=str)
def test_what_is_filled_is_recognised(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = poison(torch.zeros(shape, dtype=dtype))
    assert is_poison(tensor).shape == tensor.shape
    assert bool(is_poison(tensor).all())
    assert not bool(is_forbidden(tensor).any())
    assert bool(is_forbidden(forbid(tensor)).all())
    assert not bool(is_poison(tensor).any())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_float_pattern_is_a_quiet_nan_that_copies_keep(dtype: torch.dtype) -> None:
    tensor = poison(torch.zeros(4, dtype=dtype))
    assert bool(tensor.isnan().all())
    quiet = 1 << (BY_DTYPE[dtype].mantissa_bits - 1)
    assert bool((bits_of(tensor) & quiet != 0).all())
    assert bool(is_poison(tensor.clone()).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_arithmetic_makes_other_nans(dtype: torch.dtype) -> None:
    zero = torch.zeros(1, dtype=dtype)
    inf = torch.full((1,), torch.inf, dtype=dtype)
    for made in (zero / zero, inf - inf, inf * zero, torch.full((1,), torch.nan, dtype=dtype)):
        assert not bool(is_poison(made).any() | is_forbidden(made).any())


def test_only_the_view_is_touched() -> None:
    memory = torch.zeros(4, 6, dtype=torch.bfloat16)
    poison(memory[1:3, ::2])
    assert int(is_poison(memory).sum()) == 6
    assert int((memory == 0).sum()) == 18


def test_bool_is_never_called_poison() -> None:
    tensor = poison(torch.zeros(3, dtype=torch.bool))
    assert bool(tensor.all())
    assert not bool(is_poison(tensor).any())


def test_the_byte_pattern_is_finite_in_fp8() -> None:
    tensor = poison(cast(torch.zeros(1, dtype=torch.float64), E4M3FN))
    assert bool(widen(tensor).isfinite())


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool], ids=str)
def test_raw_bits_tell_every_pattern_apart(dtype: torch.dtype) -> None:
    size = torch.empty(0, dtype=dtype).element_size()
    draw = torch.Generator().manual_seed(0)
    raw = torch.randint(0, 256, (64 * size,), dtype=torch.uint8, generator=draw)
    if dtype == torch.bool:
        raw &= 1
    tensor = raw.view(dtype)
    same_bytes = (raw.view(64, 1, size) == raw.view(1, 64, size)).all(dim=2)
    codes = raw_bits(tensor)
    assert torch.equal(codes.view(64, 1) == codes.view(1, 64), same_bytes)
