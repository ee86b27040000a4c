"""The trust table: the page shows what was measured, every difference is explained and bounded,
and the CPU executor still gives what the device gave."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_trust

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def trust() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(gpu_trust.TRUST.read_text())
    return kept


def test_the_page_shows_the_table_that_was_measured(trust: dict[str, Any]) -> None:
    page = gpu_trust.PAGE.read_text()
    assert gpu_trust.on_page(trust, page) == page


def test_every_difference_has_a_reason_and_stays_in_its_bound(trust: dict[str, Any]) -> None:
    assert len(trust["rows"]) > 80
    for row in trust["rows"]:
        assert bool(row["why"]) == bool(row["differing"]), row
        if row["differing"]:
            why, bound = gpu_trust.WHY[row["op"]]
            assert row["why"] == why
            assert bound is None or row["max_ulp"] <= bound, row


def test_small_types_were_compared_in_every_pattern(trust: dict[str, Any]) -> None:
    patterns = {"fp32": 1 << 18, "bf16": 1 << 16, "fp16": 1 << 16, "e4m3fn": 256, "e5m2": 256}
    for row in trust["rows"]:
        if row["op"] not in ("sum", "max", "min"):
            assert row["elements"] == patterns[row["src"]], row


@pytest.mark.slow
def test_the_cpu_executor_still_gives_what_the_device_gave(trust: dict[str, Any]) -> None:
    words = [sys.executable, str(ROOT / "benchmarks" / "gpu_trust.py"), "--digests"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    here = json.loads(done.stdout)
    recorded = {
        f"{row['op']} {row['src']} {row['dst']}": row["digest"]
        for row in trust["rows"]
        if not row["differing"]
    }
    assert here == recorded
