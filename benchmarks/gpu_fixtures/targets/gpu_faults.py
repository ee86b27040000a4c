"""Kernels of our own that go wrong on purpose: what a campaign must survive and record.

The tree ``right`` doubles its input whatever ``fault`` says; the tree ``faulty`` does what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from diffuzz.arch import Arch
from diffuzz.calling import call
from diffuzz.case import Axis, Case, Choice, Int
from diffuzz.expected import Expected
from diffuzz.inputs import random_values
from diffuzz.numerics.formats import FP32, widen
from diffuzz.numerics.poison import poison
from diffuzz.target import Entry, Expectation, Inputs, StandIns


class GpuFaults:
    name = "gpu_faults"
    summary = "our own kernels with an illegal access, an endless loop, a device assertion"
    archs = ("sm90", "sm100", "gfx942", "gfx950")
    axes: Sequence[Axis] = (
        Choice("fault", ("none", "illegal access", "endless loop", "device assert")),
        Int("rows", 1, 9, (1, 2, 3, 8)),
    )
    entries = (Entry("double", ("vllm/fixtures/faults.py",), ("double",)),)

    def stand_ins(self, arch: Arch) -> StandIns:
        return StandIns()

    def allowed(self, case: Case) -> str | None:
        return None

    def settle(self, case: Case) -> Case:
        return case

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        return {"values": random_values((case["rows"], 128), FP32, "plain", case.seed, "values")}

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, torch.Tensor]:
        values = inputs["values"]
        out = poison(torch.empty_like(values))
        call(code["double"], {"values": values, "out": out, "fault": case["fault"]})
        return {"out": out}

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        return {"out": Expected(widen(inputs["values"]) * 2.0, FP32)}

    def facts(self, source: Any) -> Mapping[str, Any]:
        return {}


TARGET = GpuFaults()
