"""Single Triton operations: how far the CPU executor can be trusted, op by op and dtype by dtype.

16-bit inputs hold all 65,536 patterns, 8-bit ones all 256, float32 ones the ends of the range and
262,144 patterns drawn over all of it. There is no truth here: executors are compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from diffuzz.arch import Arch
from diffuzz.calling import call
from diffuzz.case import Axis, Case, Choice
from diffuzz.expected import ExpectedBits
from diffuzz.inputs import random_bits, random_words
from diffuzz.numerics.poison import poison
from diffuzz.target import Entry, Expectation, Inputs, StandIns

FLOATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
FP8 = {
    "e4m3fn": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e5m2fnuz": torch.float8_e5m2fnuz,
}
DTYPES = {**FLOATS, **FP8}
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "less")
FUSED = ("fma", "div_rn", "mul_add")
UNARY = (
    *("exp", "exp2", "log", "log2", "sqrt", "sqrt_rn", "rsqrt", "sin", "cos", "sigmoid"),
    *("floor", "ceil", "abs"),
)
REDUCTIONS = ("sum", "max", "min")
WORDS = 1 << 18
ROW = 256


class TritonOps:
    name = "triton_ops"
    summary = "our own kernels: one Triton operation each, for comparing executors"
    archs = ("sm90", "sm100", "gfx942", "gfx950")
    axes: Sequence[Axis] = (
        Choice("op", ("cast", *BINARY, *FUSED, *UNARY, *REDUCTIONS)),
        Choice("src", tuple(DTYPES)),
        Choice("dst", tuple(DTYPES)),
    )
    entries = (Entry("run_op", ("vllm/fixtures/ops.py",), ("run_op",)),)

    def stand_ins(self, arch: Arch) -> StandIns:
        return StandIns()

    def allowed(self, case: Case) -> str | None:
        if case["op"] == "cast":
            return "a cast to the same type" if case["src"] == case["dst"] else None
        if case["op"] in FUSED and case["src"] != "fp32":
            return "fused operations are of float32"
        if case["src"] not in FLOATS or case["dst"] != case["src"]:
            return "arithmetic is of one type, 16 or 32 bits wide"
        return None

    def settle(self, case: Case) -> Case:
        if case["op"] == "cast":
            return case if case["src"] != case["dst"] else case.replace(src="fp32", dst="bf16")
        src = case["src"] if case["src"] in FLOATS and case["op"] not in FUSED else "fp32"
        return case.replace(src=src, dst=src)

    def every_case(self, arch: Arch) -> list[Case]:
        """All allowed cases in the fp8 flavours that the arch's compiler takes."""
        fp8 = {arch.e4m3, arch.e5m2}
        # Triton's AMD backend converts every flavour; its NVIDIA backend the OCP ones.
        known = {*FLOATS, *(FP8 if arch.vendor == "amd" else fp8)}
        values = [
            {"op": op, "src": src, "dst": dst}
            for op in self.axes[0].options  # type: ignore[union-attr]
            for src in DTYPES
            for dst in DTYPES
            if {src, dst} <= known
        ]
        cases = [Case(self.name, v, 0) for v in values]
        return [case for case in cases if self.allowed(case) is None]

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        x = patterns(case["src"], case.seed, "x")
        y = patterns(case["src"], case.seed, "y")
        order = torch.argsort(random_bits((len(y),), case.seed, "order"), stable=True)
        return {"x": x, "y": y.view(torch.uint8).view(len(y), -1)[order].flatten().view(y.dtype)}

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, torch.Tensor]:
        x = inputs["x"]
        count = len(x) // ROW if case["op"] in REDUCTIONS else len(x)
        out = poison(torch.empty(count, dtype=DTYPES[case["dst"]], device=x.device))
        call(code["run_op"], {"op": case["op"], "x": x, "y": inputs["y"], "out": out})
        return {_output(case): out}

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        count = len(inputs["x"]) // (ROW if case["op"] in REDUCTIONS else 1)
        blank = torch.zeros(count, dtype=DTYPES[case["dst"]])
        nothing = torch.zeros(count, dtype=torch.bool)
        return {_output(case): ExpectedBits(blank, care=nothing, meaning="nothing")}

    def facts(self, source: Any) -> Mapping[str, Any]:
        return {}


def _output(case: Case) -> str:
    """One row of the comparison for each operation and source type."""
    return f"{case['op']} {case['src']}"


def patterns(dtype: str, seed: int, stream: str) -> torch.Tensor:
    """The inputs of one operand: every bit pattern, or for float32 many and the notable ones."""
    if dtype == "fp32":
        ends = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.0**-149, 2.0**-126, 2.0**127]
        words = random_words(WORDS, seed, stream).view(torch.float32)
        words[: len(ends)] = torch.tensor(ends)
        return words
    if dtype in FLOATS:
        return torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(FLOATS[dtype])
    return torch.arange(256, dtype=torch.int32).to(torch.uint8).view(FP8[dtype])


TARGET = TritonOps()
