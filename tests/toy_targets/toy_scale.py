"""A target for tests: a function that dequantises fp8 codes, in plain torch, with a flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from diffuzz import stand_ins
from diffuzz.arch import Arch
from diffuzz.calling import call
from diffuzz.case import Axis, Case, Choice, Flag, Int, Real
from diffuzz.expected import Expected
from diffuzz.inputs import random_codes
from diffuzz.numerics.formats import BF16, E4M3FN, decode
from diffuzz.numerics.poison import poison
from diffuzz.slicing.flags import class_flags
from diffuzz.target import Entry, Expectation, Inputs, StandIns


class ToyScale:
    name = "toy_scale"
    summary = "a toy: out = codes * scale"
    archs = ("gfx950",)
    axes: Sequence[Axis] = (
        Choice("mode", ("plain", "odd")),
        Flag("takes_quantised"),
        Int("rows", 1, 20, (1, 2, 16, 17)),
        Real("scale", 2.0**-8, 2.0**8, (0.037, 3.0, 0.5)),
    )
    dims: Mapping[str, tuple[str, ...]] = {"out": ("row", "column")}
    entries = (Entry("scale", ("vllm/toy/scale.py", "vllm/old_toy.py"), ("scale_rows",)),)

    def stand_ins(self, arch: Arch) -> StandIns:
        return StandIns({"vllm.platforms": stand_ins.platforms(arch)})

    def allowed(self, case: Case) -> str | None:
        return "odd mode has an odd number of rows" if self._even_odd(case) else None

    def settle(self, case: Case) -> Case:
        return case.replace(rows=case["rows"] - 1) if self._even_odd(case) else case

    @staticmethod
    def _even_odd(case: Case) -> bool:
        return case["mode"] == "odd" and case["rows"] % 2 == 0

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        return {"codes": random_codes((case["rows"], 32), E4M3FN, "wide", case.seed, "codes")}

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, torch.Tensor]:
        out = poison(torch.empty(inputs["codes"].shape, dtype=torch.bfloat16))
        known = {
            "values": inputs["codes"].view(torch.float8_e4m3fn),
            "scale": torch.tensor(case["scale"], dtype=torch.float32),
            "out": out,
            "backend": SimpleNamespace(takes_quantised=case["takes_quantised"]),
        }
        call(code["scale"], known)
        return {"out": out}

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        scale = float(torch.tensor(case["scale"], dtype=torch.float32))
        value = decode(inputs["codes"], E4M3FN) * scale
        slack = value.abs() * 2.0**-24 + 2.0**-149
        stored = decode(inputs["codes"], E4M3FN)
        return {
            "out": Expected(value, BF16, slack=slack, hypotheses={"scale missing": lambda: stored})
        }

    def facts(self, source: Any) -> Mapping[str, Any]:
        return {"takes_quantised": class_flags(source, "takes_quantised", ("vllm/backends",))}


TARGET = ToyScale()
