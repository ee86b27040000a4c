"""docs/executors.md says what is true, and every operation is tested."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diffuzz.executors.ttir.ops import STEPS

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "executors.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_page_lists_exactly_the_operations_there_are() -> None:
    table = [line for line in section("Operations").splitlines() if line.startswith("|")]
    listed = {name for line in table for name in re.findall(r"`([a-z]+\.[\w.]+)`", line)}
    assert listed == set(STEPS)


def test_every_operation_is_named_in_a_test() -> None:
    texts = "".join(p.read_text(encoding="utf-8") for p in HERE.glob("test_*.py"))
    compiled = {  # reached through kernels of our own, or by names put together
        "tt.load",
        "tt.store",
        "tt.addptr",
        "tt.splat",
        "tt.make_range",
        "tt.call",
        "tt.assert",
        "scf.if",
        "scf.for",
        "scf.while",
        "tt.atomic_rmw",
        "tt.atomic_cas",
        "tt.reduce",
        "tt.scan",
    }
    missing = {name for name in STEPS if name not in texts} - compiled
    assert missing == set()


def probe(interpret: bool) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(HERE.parents[1])
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, str(HERE / "interpreter_probe.py")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_the_comparison_with_the_interpreter_is_true() -> None:
    rows = re.findall(
        r"^\| `([\w-]+)` [^|]*\| ([^|]*) \| ([^|]*) \|$",
        section("Triton's own interpreter, for comparison"),
        re.MULTILINE,
    )
    ours, theirs = probe(False), probe(True)
    assert {name for name, *_ in rows} == set(ours)
    for name, here, there in rows:
        if name == "bounds":
            assert (ours[name], theirs[name]) == ("reported", "silent")
            continue
        assert ours[name] == "exact", (name, here)
        works = there.startswith(("exact", "wraps"))
        if there == "cannot run":
            assert theirs[name] == "cannot run", name
        else:
            assert theirs[name] == ("exact" if works else "wrong"), (name, there)
