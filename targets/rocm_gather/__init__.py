"""The ROCm AITER backend's paged gather and its shuffled-layout cache write.

``cp_mha_gather_cache`` collects the keys and values of a batch of sequences out of the paged
cache into two flat workspaces, dequantising an fp8 cache on the way. It reads two layouts: NHD,
by strides, with one scale per tensor, and SHUFFLE, which packs 16 bytes of the head dimension (K)
or of the page (V) together and stores values at unit scale. ``reshape_and_cache_shuffle_triton``
writes the SHUFFLE layout.

Two operations are judged:

* ``gather``: a cache laid out by this target, gathered by vLLM, against the truth;
* ``round_trip``: keys and values written by vLLM's shuffle kernel into a cache of the shape the
  backend itself declares at that revision, split as the backend splits it, then gathered back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diffuzz import stand_ins
from diffuzz.arch import Arch
from diffuzz.case import Axis, Case, Choice, Int, IntList, Real
from diffuzz.target import Entry, Expectation, Inputs, StandIns

if TYPE_CHECKING:
    from torch import Tensor

    from diffuzz.sources import Source

_BACKEND = ("vllm/v1/attention/backends/rocm_aiter_fa.py",)
_SCALES = (0.5, 2.0, 0.037, 0.001, 8.0, 448.0, 1.0 / 3.0)

# Stand for the AITER package and its wrappers. Older revisions import its device query beside the
# kernels; the wrappers hold the switch for the shuffle layout, which a case sets.
_AITER = "def get_num_sms():\n    return {units}\n"
_AITER_OPS = """\
class _Switches:
    shuffle = False

    def is_shuffle_kv_cache_enabled(self):
        return self.shuffle

    def is_enabled(self):
        return True


rocm_aiter_ops = _Switches()
"""


class RocmGather:
    name = "rocm_gather"
    summary = "paged K/V gather and shuffled cache write of the ROCm AITER backend"
    # sm90 is not a ROCm arch: it is there to run the same kernels on an NVIDIA GPU on request.
    archs = ("gfx942", "gfx950")
    axes: Sequence[Axis] = (
        Choice("op", ("gather", "round_trip"), often=("gather",)),
        Choice("layout", ("NHD", "SHUFFLE"), "memory layout the kernel is told", often=("NHD",)),
        Choice("cache", ("model", "fp8"), "element type of the cache", often=("fp8",)),
        Choice("dtype", ("bf16", "fp16"), "model dtype, that of the workspaces"),
        IntList("seq_lens", 0, 50, 1, 4, (0, 1, 15, 16, 17, 31, 32, 33), "tokens to gather"),
        Int("num_heads", 1, 9, (1, 3, 5, 7, 8), doc="KV heads"),
        Choice("head_size", (64, 128, 256)),
        Choice("page_size", (16, 32)),
        Choice("starts", ("zero", "aligned", "unaligned"), "where each sequence's chunk begins"),
        Choice("pages", ("ordered", "permuted", "shared"), "how the block table maps"),
        Choice("memory", ("contiguous", "declared", "padded"), "strides of the cache"),
        Choice("declared_layout", ("preferred", "last"), "which of the layouts the backend lists"),
        Real("k_scale", 2.0**-12, 2.0**9, _SCALES),
        Real("v_scale", 2.0**-12, 2.0**9, _SCALES),
        Choice("content", ("plain", "wide", "extreme"), "values in the cache"),
        Int("pad_tokens", 0, 3, doc="tokens of the write with slot -1"),
    )
    dims: Mapping[str, tuple[str, ...]] = {
        "key": ("token", "head", "column"),
        "value": ("token", "head", "column"),
    }
    entries = (
        Entry("gather", _BACKEND, ("cp_mha_gather_cache",)),
        Entry("write", _BACKEND, ("reshape_and_cache_shuffle_triton",), optional=True),
        Entry(
            "cache_shape",
            _BACKEND,
            ("AiterFlashAttentionBackend.get_kv_cache_shape",),
            optional=True,
        ),
        Entry("spec", _BACKEND, ("AiterFlashAttentionBackend.customize_spec",), optional=True),
        Entry(
            "layouts",
            _BACKEND,
            ("AiterFlashAttentionBackend.supported_kv_cache_layouts",),
            optional=True,
        ),
        Entry("split", _BACKEND, ("AiterFlashAttentionImpl._split_kv_cache",), optional=True),
    )

    def stand_ins(self, arch: Arch) -> StandIns:
        return StandIns(
            {
                "vllm.platforms": stand_ins.platforms(arch, "amd"),
                "vllm.triton_utils": stand_ins.triton_utils(),
                "vllm.logger": stand_ins.logger(),
                "vllm.utils.platform_utils": stand_ins.platform_utils(arch),
                "vllm._aiter_ops": _AITER_OPS,
                "aiter": "",
                "aiter.ops.triton.utils.device_info": _AITER.format(units=arch.compute_units),
            }
        )

    def allowed(self, case: Case) -> str | None:
        if sum(case["seq_lens"]) == 0:
            return "the backend never gathers an empty chunk"
        if case["memory"] != "declared" and case["declared_layout"] != "preferred":
            return "only declared memory has a choice of layouts"
        scaled = case["k_scale"] != 1.0 or case["v_scale"] != 1.0
        if scaled and case["cache"] == "model":
            return "an unquantised cache has no scales"
        if scaled and case["layout"] == "SHUFFLE":
            return "the SHUFFLE layout holds values at unit scale"
        if case["layout"] == "SHUFFLE" and case["memory"] == "padded":
            return "the SHUFFLE layout addresses whole blocks, not strides"
        if case["op"] == "round_trip":
            if case["layout"] != "SHUFFLE":
                return "the NHD layout is written by an op outside this target"
            if case["memory"] != "declared":
                return "a round trip uses the memory the backend declares"
        elif case["pad_tokens"]:
            return "only the write has padding tokens"
        elif case["layout"] == "SHUFFLE" and case["memory"] != "contiguous":
            return "a SHUFFLE cache laid out by the target is contiguous"
        return None

    def settle(self, case: Case) -> Case:
        values: dict[str, Any] = {}
        if case["op"] == "round_trip":
            values |= {"layout": "SHUFFLE", "memory": "declared"}
        elif case["layout"] == "SHUFFLE":
            values |= {"memory": "contiguous"}
        if case["op"] == "gather":
            values |= {"pad_tokens": 0}
        if case["cache"] == "model" or {**case.values, **values}["layout"] == "SHUFFLE":
            values |= {"k_scale": 1.0, "v_scale": 1.0}
        if {**case.values, **values}["memory"] != "declared":
            values |= {"declared_layout": "preferred"}
        if sum(case["seq_lens"]) == 0:
            values |= {"seq_lens": (*case["seq_lens"][:-1], 1)}
        return case.replace(**values)

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        from .cases import make_inputs

        return make_inputs(case, arch)

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, Tensor]:
        from .running import run_gather, run_round_trip

        run = run_gather if case["op"] == "gather" else run_round_trip
        return run(code, case, arch, inputs)

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        from .truth import expect

        return expect(case, arch, inputs)

    def facts(self, source: Source) -> Mapping[str, Any]:
        return {}


TARGET = RocmGather()
