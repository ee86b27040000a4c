"""A target for the native op of ``toy.py``; only what running a case needs is written out."""

from __future__ import annotations

import torch

from diffuzz.case import Choice
from diffuzz.target import Entry, StandIns


class ToyInsert:
    name = "toy_insert"
    summary = "our own kernel"
    axes = (Choice("slot", ("inside", "skipped", "outside")), Choice("rows", (1, 3)))
    archs = ("sm90",)
    entries = (Entry("insert", ("vllm/toy_ops.py",), ("insert",)),)

    def stand_ins(self, arch):
        return StandIns()

    def allowed(self, case):
        return None

    def inputs(self, case, arch):
        slots = torch.arange(case["rows"]) * 4 + 1
        slots[0] = {"inside": 2, "skipped": -1, "outside": 12}[case["slot"]]
        x = torch.full((case["rows"], 80), torch.nan)
        x[:, :64] = torch.arange(64) - 20.5
        return {"x": x, "slots": slots}

    def run(self, code, case, arch, inputs):
        cache = torch.zeros(3, 5, 80, dtype=torch.uint8)
        scales = torch.zeros(case["rows"])
        code["insert"](inputs["x"][:, :64], cache[:, :4, :64], scales, inputs["slots"], 1.0)
        return {"cache": cache, "scales": scales}

    def expected(self, case, arch, inputs):
        return {}

    def facts(self, source):
        return {}


TARGET = ToyInsert()
