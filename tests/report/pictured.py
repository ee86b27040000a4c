"""A report with every kind of picture, made by the functions that make them for a real run."""

from __future__ import annotations

import random
from typing import Any

import torch

from diffuzz.case import Case, Choice, Flag, Int, IntList, Real
from diffuzz.expected import Expected
from diffuzz.finding import Verdict
from diffuzz.numerics.formats import FORMATS
from diffuzz.outcome import Returned
from diffuzz.report.pictures import coverage, errors
from tests.report import sample

AXES = (
    Choice("cache", ("model", "fp8", "int8")),
    Choice("layout", ("NHD", "HND")),
    Flag("rope"),
    Int("tokens", 1, 8192, boundaries=(15, 16, 17, 63, 64, 65)),
    IntList("lengths", 0, 4096, 1, 8, boundaries=(16,)),
    Real("scale", 1e-4, 1e4),
)


def _covered(seed: int) -> dict[str, Any]:
    draw = random.Random(seed)
    cases, verdicts = [], []
    for _ in range(80):
        cache = draw.choice(["model", "fp8"])
        lengths = tuple(draw.choice([0, 1, 16, 40]) for _ in range(draw.randint(1, 4)))
        values = {
            "cache": cache,
            "layout": draw.choice(["NHD", "HND"]),
            "rope": draw.random() < 0.3,
            "tokens": draw.choice([1, 15, 16, 17, 50, 64, 300]),
            "lengths": lengths,
            "scale": draw.choice([1.0, 0.5, 0.037, 8.0]),
        }
        cases.append(Case("gather", values))
        verdicts.append(Verdict.DIFFER if cache == "fp8" else Verdict.AGREE)
    return coverage(cases, AXES, verdicts)


def _errors(where: str) -> dict[str, Any]:
    """A wrong head, a wrong page or a coarse type, planted into 48 tokens, 8 heads, 128 columns."""
    generator = torch.Generator().manual_seed(1)
    truth = torch.randn(48, 8, 128, generator=generator, dtype=torch.float64)
    truth = truth.to(torch.bfloat16).to(torch.float64)
    wrong = truth.clone()
    if where == "head":
        wrong[:, 3] = truth[:, 4]
    elif where == "page":
        wrong[16:32] = truth[0:16]
        wrong[20, 0, 0] = torch.nan
    else:
        wrong = truth.to(torch.float8_e4m3fn).to(torch.float64)
    right = Returned({"value": truth.to(torch.bfloat16)})
    bad = Returned({"value": wrong.to(torch.bfloat16)})
    sides = (bad, right) if where == "coarse" else (right, bad)
    made = errors("value", *sides, {"value": Expected(truth, FORMATS["bf16"])})
    assert made is not None
    return made


def pictured() -> dict[str, Any]:
    report = sample.usual()
    gather, decode = report["targets"][:2]
    for item, seed in ((gather, 1), (decode, 2)):
        item["coverage"] = _covered(seed)
        item["target_archs"] = ["gfx942", "gfx950"] if item is gather else ["sm90", "sm100"]
    coarse, head, _ = gather["findings"]
    coarse["errors"], head["errors"] = _errors("coarse"), _errors("head")
    decode["findings"][0]["errors"] = _errors("page")
    values = {"cache": "fp8", "layout": "NHD", "rope": False, "tokens": 1, "lengths": [1, 17]}
    for finding in report["findings"]:
        finding["case"]["values"] = {**values, "scale": 0.5}
    report["timeline"] = [
        {
            "commit": f"{k:02d}" + "ab" * 19,
            "date": f"2026-{1 + k // 28:02d}-{1 + k % 28:02d}T10:00:00+00:00",
            "subject": f"Change number {k}",
            "verdict": "agree" if k < 30 else "unknown" if k < 33 else "differ",
            "measure": None if 30 <= k < 33 else {"max_ulp": 0.5 if k < 30 else 1920.0},
        }
        for k in range(70)
    ]
    return report
