"""Reports to render: plain ones, one with pictures of planted faults, one full of hostile text."""

from __future__ import annotations

import copy
from typing import Any

# What must come through every document as text and do nothing.
HOSTILE = (
    "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1> <!-- --> ]]> "
    "&amp; &#x3c; `code` ``` ~~~ \n```\n# heading\n- item\n| a | b |\n|---|---|\n> quote\n"
    "@someone @org/team #123 owner/name#4 **bold** _it_ [link](https://e.example/) "
    "![i](https://e.example/i.png) https://e.example www.e.example <a@e.example> :smile: $x$ \\"
    "\x1b[31mred\x1b[0m \x1b]8;;https://e.example\x07l\x1b]8;;\x07 "
    "\x00 \x07 \ud800 \u202eabc \ufffe "
    "@@data@@ ${x} {{ y }} %s"
)


def target(name: str = "gather", arch: str = "gfx942", **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name,
        "arch": arch,
        "executor": "cpu",
        "slices": {"baseline": "a" * 64, "candidate": "b" * 64},
        "cases": 40,
        "verdicts": {"agree": 30, "differ": 10, "unknown": 0},
        "unknown_reasons": {},
        "native": {"baseline": {"note": ""}, "candidate": {"note": ""}},
        "findings": [],
        "seconds": 1234.5678,
    }
    return {**made, **changes}


def finding(number: int = 0, direction: str = "regression", **changes: Any) -> dict[str, Any]:
    kind = changes.pop("kind", "wrong-result")
    made: dict[str, Any] = {
        "id": f"gather-{kind}-{number:08x}",
        "kind": kind,
        "direction": direction,
        "signature": f"{kind}:value:sign-{number}",
        "aspect": "value",
        "message": f"value: 5 % of 1,000 elements wrong, max 12 ulp of bf16; number {number}",
        "target": "gather",
        "arch": "gfx942",
        "executor": "cpu",
        "case": {
            "id": "0123456789ab",
            "target": "gather",
            "seed": 7,
            "values": {"cache": "fp8", "rope": False, "lengths": [1, 17], "scale": 0.5},
        },
        "cases_hit": 3,
        "measure": {
            "baseline": {"max_ulp": 0.5, "wrong": 0, "total": 1000, "first": None},
            "candidate": {"max_ulp": "inf", "wrong": 50, "total": 1000, "first": [0, 3, 1]},
        },
        "explanation": {
            "hypothesis": "h",
            "text": "equals the truth shifted by a page",
            "share": 1,
        },
        "location": {"file": "vllm/ops/gather.py", "line": 150, "function": "gather_cache"},
        "backends": ["OneImpl", "OtherImpl (conditional)"],
        "reproduce": "diffuzz replay 'findings/a b.yaml' --revision candidate",
    }
    return {**made, **changes}


def report(*targets: dict[str, Any], **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "schema": 1,
        "environment": {"diffuzz": "0.1.0", "python": "3.11.7", "device": None, "torch": "2.13.0"},
        "started": "2026-11-29T14:58:37+00:00",
        "seed": 7,
        "baseline": {"revision": "v1", "commit": "1" * 40, "version": None, "date": "2026-01-02"},
        "candidate": {"revision": "v2", "commit": None, "version": "2", "date": None},
        "targets": list(targets),
        "findings": [item for found in targets for item in found["findings"]],
    }
    return {**made, **changes}


def usual() -> dict[str, Any]:
    """Two targets on two archs with findings of every direction, and one that was not tested."""
    culprit = {"commit": "c" * 40, "date": "2026-05-06", "subject": "Tidy the gather", "pr": 12}
    return report(
        target(
            findings=[
                finding(1, "fixed", kind="precision"),
                finding(2, culprit=culprit),
                finding(3, kind="crash", location=None, explanation=None, backends=[]),
            ],
            unknown_reasons={"unsupported op tt.dot_scaled": 2},
            verdicts={"agree": 28, "differ": 10, "unknown": 2},
        ),
        target(
            "decode",
            "sm90",
            findings=[finding(4, "both", target="decode", arch="sm90")],
            native={
                "baseline": {"note": ""},
                "candidate": {"note": "cat_op is a model, not built"},
            },
        ),
        target(
            "decode",
            "sm100",
            cases=0,
            verdicts={"agree": 0, "differ": 0, "unknown": 0},
            unknown_reasons={"new parameter rope_scale": 1},
            slices={"baseline": None, "candidate": None},
            seconds=0.0,
        ),
    )


def hostile() -> dict[str, Any]:
    """Every text that can come from outside is :data:`HOSTILE`."""
    bad = finding(
        5,
        signature=HOSTILE,
        message=HOSTILE,
        aspect=HOSTILE,
        target=HOSTILE,
        arch=HOSTILE,
        executor=HOSTILE,
        backends=[HOSTILE],
        reproduce=HOSTILE,
        location={"file": "../../etc/" + HOSTILE, "line": 0, "function": HOSTILE},
        explanation={"hypothesis": HOSTILE, "text": HOSTILE, "share": 0.5},
        culprit={"commit": HOSTILE, "date": HOSTILE, "subject": HOSTILE, "pr": HOSTILE},
        case={"id": HOSTILE, "target": HOSTILE, "seed": 0, "values": {HOSTILE: HOSTILE}},
        follows=HOSTILE,
        known={"red": True, "text": HOSTILE},
        shrunk={"tried": 0, "why": HOSTILE},
        measure={
            "baseline": None,
            "candidate": {"max_ulp": float("inf"), "expected": HOSTILE, "first": [HOSTILE]},
        },
        errors={
            "baseline": None,
            "candidate": {
                "unit": HOSTILE,
                "shape": [2, 2],
                "histogram": [{"label": HOSTILE, "count": 1, "wrong": 1}],
                "maps": [{"rows": HOSTILE, "cols": HOSTILE, "cells": ["09", HOSTILE]}],
                "note": HOSTILE,
            },
        },
    )
    covered = {
        "cases": 1,
        "axes": [
            {
                "name": HOSTILE,
                "default": HOSTILE,
                "parts": [{"of": HOSTILE, "values": [{"value": HOSTILE, "count": 0}]}],
            }
        ],
        "pairs": {"total": 2, "drawn": 1, "missing": [[HOSTILE] * 4]},
    }
    revision = {"revision": HOSTILE, "commit": HOSTILE, "version": HOSTILE, "date": HOSTILE}
    entry = {"commit": HOSTILE, "date": HOSTILE, "subject": HOSTILE, "verdict": HOSTILE}
    return report(
        target(
            HOSTILE,
            HOSTILE,
            executor=HOSTILE,
            findings=[bad],
            slices={"baseline": HOSTILE, "candidate": HOSTILE},
            unknown_reasons={HOSTILE: 1},
            native={"baseline": {"note": HOSTILE}, "candidate": {"note": HOSTILE}},
            coverage=covered,
            target_archs=[HOSTILE, "another"],
        ),
        started=HOSTILE,
        environment={"diffuzz": "0.1.0", HOSTILE: HOSTILE},
        baseline=revision,
        candidate=copy.deepcopy(revision),
        timeline=[{**entry, "measure": {HOSTILE: HOSTILE}}],
    )
