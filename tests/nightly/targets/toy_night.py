"""The toy target with two switches for a test: files beside this one that stop or kill workers."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from diffuzz import stand_ins
from diffuzz.arch import Arch
from diffuzz.calling import call
from diffuzz.case import Axis, Case, Choice, Int, Real
from diffuzz.expected import Expected
from diffuzz.inputs import random_codes
from diffuzz.numerics.formats import BF16, E4M3FN, decode
from diffuzz.numerics.poison import poison
from diffuzz.target import Entry, Expectation, Inputs, StandIns

SWITCHES = Path(__file__).parent


class ToyNight:
    name = "toy_night"
    summary = "a toy: out = codes * scale"
    archs = ("gfx950",)
    axes: Sequence[Axis] = (
        Choice("mode", ("plain", "odd")),
        Int("rows", 1, 6, (1, 2, 5)),
        Real("scale", 2.0**-8, 2.0**8, (0.037, 3.0, 0.5)),
    )
    entries = (Entry("scale", ("vllm/toy/scale.py",), ("scale_rows",)),)

    def stand_ins(self, arch: Arch) -> StandIns:
        return StandIns({"vllm.platforms": stand_ins.platforms(arch)})

    def allowed(self, case: Case) -> str | None:
        return None

    def settle(self, case: Case) -> Case:
        return case

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        return {"codes": random_codes((case["rows"], 32), E4M3FN, "wide", case.seed, "codes")}

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, torch.Tensor]:
        if (SWITCHES / "KILL").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        while (SWITCHES / "PAUSE").exists():
            (SWITCHES / "PAUSED").touch()
            time.sleep(0.05)
        out = poison(torch.empty(inputs["codes"].shape, dtype=torch.bfloat16))
        known = {
            "values": inputs["codes"].view(torch.float8_e4m3fn),
            "scale": torch.tensor(case["scale"], dtype=torch.float32),
            "out": out,
            "backend": SimpleNamespace(),
        }
        call(code["scale"], known)
        return {"out": out}

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        scale = float(torch.tensor(case["scale"], dtype=torch.float32))
        stored = decode(inputs["codes"], E4M3FN)
        value = stored * scale
        slack = value.abs() * 2.0**-24 + 2.0**-149
        return {
            "out": Expected(value, BF16, slack=slack, hypotheses={"scale missing": lambda: stored})
        }

    def facts(self, source: Any) -> Mapping[str, Any]:
        return {}


TARGET = ToyNight()
