"""The fused Kimi-K3 decode ops, written from their contract.

For B tokens with H heads: ``mqa_q[t, h] = [ql_nope[t, h] | q_pe[t, h]]`` (512 + 64 wide), and the
latent ``[kv_c_normed[t] | k_pe[t]]`` goes into the paged cache at ``slot_mapping[t]`` (page
``slot // block_size``, row ``slot % block_size``; a negative slot writes nothing). With
``position_ids`` and ``cos_sin_cache`` (float32 rows of 32 cosines, then 32 sines) both 64-wide
parts are rotated first, in float32, pairs of neighbours (GPT-J style).

Three caches: the query's dtype; fp8, where values times ``*_scale_inv`` (float32) saturate at the
architecture's limit; and 656-byte entries of 512 fp8 values in four tiles, four float32 tile
scales, and 64 rotated values in the query's dtype.

The limit is 448 for OCP e4m3 and 224 for FNUZ, whose own maximum is 240: it is the one vLLM uses
on gfx942. NaN meets the limit like a value below it (``fmaxf`` drops NaN), hence ``-limit``. In
a tile NaN does not take part in the scale and stays NaN, an infinity makes the scale infinite.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from diffuzz.arch import Arch
from diffuzz.native.op_models.options import Options
from diffuzz.numerics.formats import FORMATS, decode, encode

LATENT, ROPE, TILES = 512, 64, 4
ENTRY = LATENT + ROPE
DS_ENTRY = LATENT + 4 * TILES + 2 * ROPE
FLT_MIN = torch.finfo(torch.float32).tiny
POWER_OF_TWO_FLOOR = 1e-4

_INPUTS = (
    "Tensor ql_nope, Tensor q_pe, Tensor kv_c_normed, Tensor k_pe, "
    "Tensor! mqa_q, Tensor! k_cache, Tensor slot_mapping, "
)
_TAIL = "int cache_block_size, Tensor? position_ids=None, Tensor? cos_sin_cache=None) -> ()"


def fp8_limit(arch: Arch) -> float:
    """Largest magnitude the ops write in fp8; source: the ops' own constant per platform."""
    return 224.0 if arch.is_fnuz else 448.0


def fused_multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """float32 ``a*b + c`` rounded once.

    The product of two float32 values is exact in float64. The sum is rounded to odd there (the
    exact error from Knuth's two-sum says which way), which makes the second rounding harmless
    (Boldo and Melquiond, 2008: double rounding with round-to-odd and two extra bits is exact).
    """
    p, t = a.double() * b.double(), c.double()
    s = p + t
    v = s - p
    error = (p - (s - v)) + (t - v)
    bits = s.view(torch.int64)
    fix = s.isfinite() & (error != 0) & (bits & 1 == 0)
    away = torch.sign(error) == torch.where(s >= 0, 1.0, -1.0)
    odd = torch.where(fix, bits + torch.where(away, 1, -1), bits)
    return odd.view(torch.float64).float()


def rotate(values: Tensor, cos_sin: Tensor, options: Options) -> Tensor:
    """Rotate neighbouring pairs of the last axis; float32 in and out.

    ``cos_sin`` has a row per leading index, broadcast over the axes between.
    """
    while cos_sin.dim() < values.dim():
        cos_sin = cos_sin.unsqueeze(1)
    cos, sin = cos_sin[..., : ROPE // 2], cos_sin[..., ROPE // 2 :]
    x, y = values[..., 0::2], values[..., 1::2]
    if options.contraction == "device":
        first = fused_multiply_add(x, cos.expand_as(x), -(y * sin))
        second = fused_multiply_add(y, cos.expand_as(y), x * sin)
    else:
        first, second = x * cos - y * sin, x * sin + y * cos
    return torch.stack((first, second), dim=-1).flatten(-2)


def to_fp8(values: Tensor, arch: Arch) -> Tensor:
    """Bytes of float32 ``values`` in the architecture's e4m3, saturating; NaN stays NaN."""
    return encode(values.double(), FORMATS[arch.e4m3], "saturate").to(torch.uint8)


def _quantized(values: Tensor, scale_inv: Tensor, arch: Arch) -> Tensor:
    limit = fp8_limit(arch)
    scaled = values * scale_inv.float().reshape(())
    return to_fp8(scaled.nan_to_num(nan=-limit).clamp(-limit, limit), arch)


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise RuntimeError(f"op model: {what}")


def _checked_rope(
    position_ids: Tensor | None, cos_sin_cache: Tensor | None, tokens: int
) -> Tensor | None:
    """The rotation's row of each token, or None without rotation."""
    _require(
        (position_ids is None) == (cos_sin_cache is None),
        "position_ids and cos_sin_cache go together",
    )
    if position_ids is None or cos_sin_cache is None:
        return None
    _require(
        position_ids.dtype == torch.int64 and position_ids.shape == (tokens,),
        "position_ids must be int64 of shape [B]",
    )
    _require(
        cos_sin_cache.dtype == torch.float32 and cos_sin_cache.shape[1:] == (ROPE,),
        "cos_sin_cache must be float32 of shape [positions, 64]",
    )
    return cos_sin_cache[position_ids]


def _check_inputs(
    ql_nope: Tensor, q_pe: Tensor, kv_c_normed: Tensor, k_pe: Tensor, mqa_q: Tensor
) -> None:
    b, h = ql_nope.shape[0], ql_nope.shape[1]
    dtypes = {ql_nope.dtype, q_pe.dtype, kv_c_normed.dtype, k_pe.dtype}
    _require(dtypes in ({torch.bfloat16}, {torch.float16}), "inputs must be all bf16 or all fp16")
    for name, value, shape in (
        ("ql_nope", ql_nope, (b, h, LATENT)),
        ("q_pe", q_pe, (b, h, ROPE)),
        ("kv_c_normed", kv_c_normed, (b, LATENT)),
        ("k_pe", k_pe, (b, ROPE)),
        ("mqa_q", mqa_q, (b, h, ENTRY)),
    ):
        _require(tuple(value.shape) == shape, f"{name} must have shape {list(shape)}")


def _rows(cache: Tensor, slots: Tensor, block_size: int, width: int) -> list[tuple[int, int, int]]:
    """(token, page, row) of every token that is written."""
    _require(
        cache.dim() == 3 and cache.shape[1] == block_size and cache.shape[2] == width,
        f"k_cache must have shape [pages, {block_size}, {width}]",
    )
    _require(slots.dtype == torch.int64, "slot_mapping must be int64")
    places = []
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            _require(slot < cache.shape[0] * block_size, f"slot {slot} is outside the cache")
            places.append((token, slot // block_size, slot % block_size))
    return places


def _store(cache: Tensor, places: list[tuple[int, int, int]], rows: Tensor) -> None:
    for token, page, row in places:
        cache[page, row] = rows[token]


def _parts(
    nope: Tensor, pe: Tensor, cos_sin: Tensor | None, options: Options
) -> tuple[Tensor, Tensor]:
    """float32 of both parts, the second one rotated."""
    rotated = pe.float() if cos_sin is None else rotate(pe.float(), cos_sin, options)
    return nope.float(), rotated


def _concat(nope: Tensor, pe: Tensor, cos_sin: Tensor | None, options: Options) -> Tensor:
    """[nope | pe] in the inputs' dtype; values that are not rotated are copied bit for bit."""
    if cos_sin is not None:
        pe = rotate(pe.float(), cos_sin, options).to(pe.dtype)
    return torch.cat((nope, pe), dim=-1)


def plain_insert(
    arch: Arch,
    options: Options,
    *,
    ql_nope: Tensor,
    q_pe: Tensor,
    kv_c_normed: Tensor,
    k_pe: Tensor,
    mqa_q: Tensor,
    k_cache: Tensor,
    slot_mapping: Tensor,
    cache_block_size: int,
    position_ids: Tensor | None = None,
    cos_sin_cache: Tensor | None = None,
) -> None:
    """Query and cache in the inputs' dtype."""
    _check_inputs(ql_nope, q_pe, kv_c_normed, k_pe, mqa_q)
    _require(mqa_q.dtype == k_cache.dtype == ql_nope.dtype, "mqa_q and k_cache need q's dtype")
    cos_sin = _checked_rope(position_ids, cos_sin_cache, ql_nope.shape[0])
    places = _rows(k_cache, slot_mapping, cache_block_size, ENTRY)
    mqa_q.copy_(_concat(ql_nope, q_pe, cos_sin, options))
    _store(k_cache, places, _concat(kv_c_normed, k_pe, cos_sin, options))


def fp8_insert(
    arch: Arch,
    options: Options,
    *,
    ql_nope: Tensor,
    q_pe: Tensor,
    kv_c_normed: Tensor,
    k_pe: Tensor,
    mqa_q: Tensor,
    k_cache: Tensor,
    slot_mapping: Tensor,
    q_scale_inv: Tensor,
    cache_scale_inv: Tensor,
    cache_block_size: int,
    position_ids: Tensor | None = None,
    cos_sin_cache: Tensor | None = None,
) -> None:
    """Query and cache as fp8 bytes (in whatever one-byte dtype the caller's tensors have)."""
    _check_inputs(ql_nope, q_pe, kv_c_normed, k_pe, mqa_q)
    _require(mqa_q.element_size() == k_cache.element_size() == 1, "mqa_q and k_cache need fp8")
    cos_sin = _checked_rope(position_ids, cos_sin_cache, ql_nope.shape[0])
    places = _rows(k_cache, slot_mapping, cache_block_size, ENTRY)
    query = torch.cat(_parts(ql_nope, q_pe, cos_sin, options), dim=-1)
    mqa_q.view(torch.uint8).copy_(_quantized(query, q_scale_inv, arch))
    latent = torch.cat(_parts(kv_c_normed, k_pe, cos_sin, options), dim=-1)
    _store(k_cache.view(torch.uint8), places, _quantized(latent, cache_scale_inv, arch))


def _tiled(values: Tensor) -> Tensor:
    return values.reshape(*values.shape[:-1], TILES, LATENT // TILES)


def tile_scales(latent: Tensor, arch: Arch, options: Options) -> Tensor:
    """float32 scales [B, 4] of the tiles of ``latent`` [B, 512] (float32)."""
    magnitude = latent.abs().nan_to_num(nan=0.0, posinf=torch.inf)
    largest = _tiled(magnitude).amax(dim=-1)
    scale = largest / fp8_limit(arch)
    if options.tile_scale == "absmax":
        return scale.clamp(min=FLT_MIN)
    scale = scale.clamp(min=POWER_OF_TWO_FLOOR)
    return torch.exp2(torch.ceil(torch.log2(scale)))


def ds_mla_insert(
    arch: Arch,
    options: Options,
    *,
    ql_nope: Tensor,
    q_pe: Tensor,
    kv_c_normed: Tensor,
    k_pe: Tensor,
    mqa_q: Tensor,
    k_cache: Tensor,
    slot_mapping: Tensor,
    cache_block_size: int,
    position_ids: Tensor | None = None,
    cos_sin_cache: Tensor | None = None,
) -> None:
    """Query in the inputs' dtype, cache in 656-byte block-scaled entries."""
    _check_inputs(ql_nope, q_pe, kv_c_normed, k_pe, mqa_q)
    _require(mqa_q.dtype == ql_nope.dtype, "mqa_q needs q's dtype")
    _require(k_cache.dtype == torch.uint8, "k_cache must be uint8")
    cos_sin = _checked_rope(position_ids, cos_sin_cache, ql_nope.shape[0])
    places = _rows(k_cache, slot_mapping, cache_block_size, DS_ENTRY)
    mqa_q.copy_(_concat(ql_nope, q_pe, cos_sin, options))
    latent = kv_c_normed.float()
    scales = tile_scales(latent, arch, options)
    codes = to_fp8((_tiled(latent) / scales[..., None]).flatten(-2), arch)
    rope = _concat(k_pe[:, :0], k_pe, cos_sin, options)
    entries = torch.cat(
        (codes, scales.contiguous().view(torch.uint8), rope.contiguous().view(torch.uint8)), dim=-1
    )
    _store(k_cache, places, entries)


def read_entry(entries: Tensor, arch: Arch, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """float64 (latent [..., 512], rope [..., 64]) of 656-byte entries [..., 656] of uint8."""
    codes = entries[..., :LATENT]
    scales, rope = entries[..., LATENT : LATENT + 4 * TILES], entries[..., LATENT + 4 * TILES :]
    values = _tiled(decode(codes, FORMATS[arch.e4m3]))
    scale = scales.contiguous().view(torch.float32).double()
    return (values * scale[..., None]).flatten(-2), rope.contiguous().view(dtype).double()


MODELS: dict[str, tuple[str, Callable[..., None]]] = {
    "fused_kimi_k3_mla_decode_q_concat_kv_cache_insert": (
        f"fused_kimi_k3_mla_decode_q_concat_kv_cache_insert({_INPUTS}{_TAIL}",
        plain_insert,
    ),
    "fused_kimi_k3_mla_decode_q_concat_kv_cache_fp8_insert": (
        f"fused_kimi_k3_mla_decode_q_concat_kv_cache_fp8_insert({_INPUTS}"
        f"Tensor q_scale_inv, Tensor cache_scale_inv, {_TAIL}",
        fp8_insert,
    ),
    "fused_kimi_k3_mla_decode_q_concat_ds_mla_insert": (
        f"fused_kimi_k3_mla_decode_q_concat_ds_mla_insert({_INPUTS}{_TAIL}",
        ds_mla_insert,
    ),
}
