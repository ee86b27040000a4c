"""The op models of the fused Kimi-K3 decode ops, against float64 and by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from diffuzz.arch import get_arch
from diffuzz.native import op_models
from diffuzz.native.op_models import kimi_k3
from diffuzz.native.op_models.kimi_k3 import DS_ENTRY, ENTRY, fused_multiply_add
from diffuzz.numerics.formats import E4M3FN, E4M3FNUZ, FORMATS, decode, round_to

B, H, BLOCK, PAGES = 3, 2, 4, 3


def make_inputs(dtype: torch.dtype, scale: float = 1.0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=g) * scale).to(dtype)

    return {
        "ql_nope": draw(B, H, 512),
        "q_pe": draw(B, H, 64),
        "kv_c_normed": draw(B, 512),
        "k_pe": draw(B, 64),
        "slot_mapping": torch.tensor([5, -1, 2]),
    }


def rope_inputs() -> dict[str, torch.Tensor]:
    angle = torch.arange(9)[:, None] * torch.linspace(1, 0.01, 32)
    return {
        "position_ids": torch.tensor([8, 0, 3]),
        "cos_sin_cache": torch.cat((angle.cos(), angle.sin()), dim=-1),
    }


@pytest.fixture
def ops_for():
    live = []

    def register(arch: str, **kwargs):
        live.append(op_models.register(get_arch(arch), **kwargs))
        return torch.ops._C

    yield register
    for registered in live:
        registered.close()


@pytest.mark.parametrize("arch", ["sm90", "gfx942", "gfx950"])
def test_plain_fp8_saturates_and_skips_negative_slots(ops_for, arch):
    ops = ops_for(arch)
    fmt = FORMATS[get_arch(arch).e4m3]
    limit = 224.0 if arch == "gfx942" else 448.0
    inputs = make_inputs(torch.bfloat16, scale=150.0)
    inputs["ql_nope"][0, 0, 0], inputs["ql_nope"][0, 0, 1] = 1e30, -torch.inf
    query = torch.empty(B, H, ENTRY, dtype=torch.float8_e4m3fn)
    cache = torch.full((PAGES, BLOCK, ENTRY), 0x55, dtype=torch.uint8).view(torch.float8_e4m3fn)
    q_inv, c_inv = torch.tensor([0.75]), torch.tensor([2.5])
    ops.fused_kimi_k3_mla_decode_q_concat_kv_cache_fp8_insert(
        *list(inputs.values())[:4], query, cache, inputs["slot_mapping"], q_inv, c_inv, BLOCK
    )
    scaled = torch.cat((inputs["ql_nope"], inputs["q_pe"]), -1).float() * 0.75
    truth = round_to(scaled.double().clamp(-limit, limit), fmt)
    assert torch.equal(decode(query.view(torch.uint8), fmt), truth)
    latent = torch.cat((inputs["kv_c_normed"], inputs["k_pe"]), -1).float() * 2.5
    stored = decode(cache.view(torch.uint8).view(-1, ENTRY)[[5, 2]], fmt)
    assert torch.equal(stored, round_to(latent[[0, 2]].double().clamp(-limit, limit), fmt))
    untouched = [row for row in range(PAGES * BLOCK) if row not in (5, 2)]
    assert (cache.view(torch.uint8).view(-1, ENTRY)[untouched] == 0x55).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rotation_is_interleaved_and_rounded_once(ops_for, dtype):
    ops = ops_for("sm90")
    inputs, rope = make_inputs(dtype), rope_inputs()
    query = torch.empty(B, H, ENTRY, dtype=dtype)
    cache = torch.zeros(PAGES, BLOCK, ENTRY, dtype=dtype)
    ops.fused_kimi_k3_mla_decode_q_concat_kv_cache_insert(
        *list(inputs.values())[:4], query, cache, inputs["slot_mapping"], BLOCK, *rope.values()
    )
    assert torch.equal(query[..., :512], inputs["ql_nope"])
    angles = rope["cos_sin_cache"].double()[rope["position_ids"]][:, None]
    z = torch.view_as_complex(inputs["q_pe"].double().reshape(B, H, 32, 2))
    turned = torch.view_as_real(z * torch.complex(angles[..., :32], angles[..., 32:])).flatten(-2)
    error = (query[..., 512:].double() - turned).abs()
    # one float32 rounding per operation, then one to the output's type: just over half an ulp
    ulp = torch.exp2(torch.floor(torch.log2(turned.abs().clamp(min=1e-3))))
    ulp = ulp * (2.0**-7 if dtype == torch.bfloat16 else 2.0**-10)
    assert (error <= 0.51 * ulp).all()
    kept = torch.view_as_real(
        torch.view_as_complex(inputs["k_pe"].double().reshape(B, 32, 2))
        * torch.complex(angles[:, 0, :32], angles[:, 0, 32:])
    ).flatten(-2)
    assert torch.allclose(cache[1, 1, 512:].double(), kept[0], rtol=2**-7, atol=2**-9)


@pytest.mark.parametrize("tile_scale", ["absmax", "power-of-two"])
@pytest.mark.parametrize(("arch", "fmt"), [("sm90", E4M3FN), ("gfx942", E4M3FNUZ)])
def test_block_scaled_entries_read_back(ops_for, arch, fmt, tile_scale):
    ops = ops_for(arch, options=op_models.Options(tile_scale=tile_scale))
    inputs = make_inputs(torch.bfloat16, scale=3.0)
    inputs["kv_c_normed"][0, :128] = 0.0
    query = torch.empty(B, H, ENTRY, dtype=torch.bfloat16)
    cache = torch.full((PAGES, BLOCK, DS_ENTRY), 0xAA, dtype=torch.uint8)
    ops.fused_kimi_k3_mla_decode_q_concat_ds_mla_insert(
        *list(inputs.values())[:4], query, cache, inputs["slot_mapping"], BLOCK
    )
    latent, rope = kimi_k3.read_entry(
        cache.view(-1, DS_ENTRY)[[5, 2]], get_arch(arch), torch.bfloat16
    )
    truth = inputs["kv_c_normed"][[0, 2]].double()
    tiles = truth.view(2, 4, 128).abs().amax(-1, keepdim=True).expand(2, 4, 128).reshape(2, 512)
    # 3 mantissa bits, and the subnormals of a tile whose largest value meets the limit
    slack = 2.0 if tile_scale == "power-of-two" else 1.0
    bound = truth.abs() * 2.0**-4 * 1.001 + tiles * slack * fmt.smallest / 224
    assert ((latent - truth).abs() <= bound).all()
    assert torch.equal(rope, inputs["k_pe"][[0, 2]].double())
    assert (latent[0, :128] == 0).all()


def test_strided_inputs_and_cache(ops_for):
    ops = ops_for("sm90")
    inputs = make_inputs(torch.bfloat16)
    dense_q = torch.empty(B, H, ENTRY, dtype=torch.bfloat16)
    dense = torch.zeros(PAGES, BLOCK, ENTRY, dtype=torch.bfloat16)
    tail = (inputs["slot_mapping"], BLOCK)
    names = ("ql_nope", "q_pe", "kv_c_normed", "k_pe")
    op = ops.fused_kimi_k3_mla_decode_q_concat_kv_cache_insert
    op(*(inputs[n] for n in names), dense_q, dense, *tail)
    padded = {n: torch.cat((inputs[n], inputs[n]), -1)[..., : inputs[n].shape[-1]] for n in names}
    strided = torch.zeros(PAGES, BLOCK + 1, ENTRY + 8, dtype=torch.bfloat16)[:, :BLOCK, :ENTRY]
    query = torch.empty_like(dense_q)
    op(*(padded[n] for n in names), query, strided, *tail)
    assert torch.equal(query, dense_q)
    assert torch.equal(strided, dense)


def test_the_revisions_own_schema_is_used_and_an_unknown_parameter_refused(ops_for):
    name = "fused_kimi_k3_mla_decode_q_concat_ds_mla_insert"
    schema = op_models.MODELS[name][0]
    assert op_models.unmodelled([name], {name: schema}) is None
    newer = schema.replace("int cache_block_size", "int cache_block_size, bool swizzle")
    assert op_models.unmodelled([name], {name: newer}) == "new parameter swizzle"
    assert op_models.unmodelled(["no_such_op"]) == "missing op no_such_op"
    with pytest.raises(ValueError, match="new parameter swizzle"):
        op_models.register(get_arch("sm90"), {name: newer})


def test_a_slot_outside_the_cache_is_an_error(ops_for):
    ops = ops_for("sm90")
    inputs = make_inputs(torch.bfloat16)
    inputs["slot_mapping"][1] = PAGES * BLOCK
    query = torch.empty(B, H, ENTRY, dtype=torch.bfloat16)
    cache = torch.zeros(PAGES, BLOCK, ENTRY, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="slot 12 is outside the cache"):
        ops.fused_kimi_k3_mla_decode_q_concat_kv_cache_insert(
            *list(inputs.values())[:4], query, cache, inputs["slot_mapping"], BLOCK
        )


def test_fused_multiply_add_rounds_once():
    g = torch.Generator().manual_seed(3)
    a, b = (torch.randn(2000, generator=g) for _ in range(2))
    near = -(a * b) * (1 + torch.randint(-2, 3, (2000,), generator=g) * 2.0**-23)
    c = torch.where(torch.rand(2000, generator=g) < 0.5, near, torch.randn(2000, generator=g))
    # a half-way case that double rounding gets wrong
    a[0], b[0], c[0] = 1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60
    got = fused_multiply_add(a, b, c)
    for x, y, z, r in zip(a.tolist(), b.tolist(), c.tolist(), got.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        low = torch.nextafter(torch.tensor(r), torch.tensor(-torch.inf)).item()
        high = torch.nextafter(torch.tensor(r), torch.tensor(torch.inf)).item()
        distance = abs(Fraction(r) - exact)
        assert distance <= abs(Fraction(low) - exact)
        assert distance <= abs(Fraction(high) - exact)
