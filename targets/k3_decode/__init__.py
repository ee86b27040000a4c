"""Kimi-K3 MLA decode: the query concat and latent cache insert before attention.

``MultiHeadLatentAttention._decode_concat_cache`` builds the decode query ``[ql_nope | q_pe]`` and
inserts ``[kv_c | k_pe]`` into the paged latent cache, by cache dtype: unquantised, per-tensor fp8
(query and cache), or ``fp8_ds_mla`` (656-byte entries with a scale for each tile of 128). RoPE is
optional. Which attention backends receive the query, and whether they take a quantised one, is
drawn as a flag and read from the revision's own backends.

Judged: the query (shape, dtype, values), the inserted cache entries, every byte of the cache that
no token maps to, and that the inputs keep their bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diffuzz import stand_ins
from diffuzz.arch import Arch
from diffuzz.case import Axis, Case, Choice, Flag, Int, Real
from diffuzz.target import Entry, Expectation, Inputs, StandIns

if TYPE_CHECKING:
    from torch import Tensor

    from diffuzz.sources import Source

_MODEL = ("vllm/models/kimi_k3/nvidia/mla.py",)
_SCALES = (0.5, 2.0, 0.037, 0.001, 8.0, 448.0, 1.0 / 3.0)


class K3Decode:
    name = "k3_decode"
    summary = "Kimi-K3 MLA decode: query concat, RoPE and latent cache insert"
    archs = ("sm90", "gfx950", "gfx942")
    axes: Sequence[Axis] = (
        Choice("kv_cache_dtype", ("auto", "fp8", "fp8_e4m3", "fp8_ds_mla")),
        Choice("dtype", ("bf16", "fp16")),
        Flag("rope", "rotary embedding in the kernel"),
        Choice(
            "supports_quant_query_input",
            (True, False),
            "whether the attention backend takes a quantised query",
        ),
        # The layer decodes only when it has a token to decode.
        Int("tokens", 1, 33, (1, 2, 7, 8, 9, 31, 32, 33)),
        Int("num_heads", 1, 24, (1, 2, 3, 7, 8, 12, 16, 17), doc="heads on this rank"),
        Choice("block_size", (16, 1, 32, 64)),
        Choice("slots", ("ordered", "permuted", "some skipped", "all skipped")),
        Choice("memory", ("contiguous", "padded"), "strides of the inputs and of the cache"),
        Real("q_scale", 2.0**-12, 2.0**9, _SCALES),
        Real("k_scale", 2.0**-12, 2.0**9, _SCALES),
        Choice("content", ("plain", "wide", "extreme")),
    )
    dims: Mapping[str, tuple[str, ...]] = {
        "mqa_q": ("token", "head", "column"),
        "cache": ("inserted token", "column"),
        "cache_latent": ("inserted token", "column"),
        "cache_rope": ("inserted token", "column"),
    }
    entries = (Entry("decode", _MODEL, ("MultiHeadLatentAttention._decode_concat_cache",)),)

    def stand_ins(self, arch: Arch) -> StandIns:
        return StandIns(
            {
                "vllm.platforms": stand_ins.platforms(arch),
                "vllm.logger": stand_ins.logger(),
            }
        )

    def allowed(self, case: Case) -> str | None:
        quantised = case["kv_cache_dtype"] in ("fp8", "fp8_e4m3")
        if not quantised and (case["q_scale"] != 1.0 or case["k_scale"] != 1.0):
            return "only a per-tensor fp8 cache has scales"
        return None

    def settle(self, case: Case) -> Case:
        if case["kv_cache_dtype"] in ("fp8", "fp8_e4m3"):
            return case
        return case.replace(q_scale=1.0, k_scale=1.0)

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        from .cases import make_inputs

        return make_inputs(case, arch)

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, Tensor]:
        from .running import run

        return run(code, case, arch, inputs)

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        from .truth import expect

        return expect(case, arch, inputs)

    def facts(self, source: Source) -> Mapping[str, Any]:
        """``supports_quant_query_input`` of the revision's MLA backends, by class name."""
        from diffuzz.slicing.flags import class_flags

        folders = ("vllm/v1/attention/backends/mla", "vllm/model_executor/layers/attention")
        return {
            "supports_quant_query_input": class_flags(source, "supports_quant_query_input", folders)
        }


TARGET = K3Decode()
