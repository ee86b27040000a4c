"""The mission, on real vLLM releases from the package index: found blind, in the right direction.

These read four source archives (cached). Where the index cannot be reached they fail in CI and are
skipped with a loud reason elsewhere: a green run must not hide that they did not run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from diffuzz.sources.revision import open_revision

from .conftest import Command
from .network import index_needed

pytestmark = pytest.mark.network


@pytest.fixture(scope="module", autouse=True)
def releases() -> None:
    with index_needed():
        for version in ("0.19.1", "0.20.0", "0.27.1", "0.28.0"):
            open_revision(f"pypi:{version}", None)


def run(
    diffuzz: Command, folder: Path, target: str, baseline: str, candidate: str, *more: str
) -> Any:
    # Blind: the corpus that comes with diffuzz knows these bugs.
    (folder / "empty").mkdir(exist_ok=True)
    done = diffuzz(
        *("run", target, "--baseline", f"pypi:{baseline}", "--candidate", f"pypi:{candidate}"),
        *("--json", "out.json", "--out", "run", "--corpus", "empty", *more),
    )
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads((folder / "out.json").read_text())


def only(report: Any, direction: str) -> Any:
    found = [f for f in report["findings"] if f["direction"] == direction]
    assert len(found) == len({f["signature"] for f in found}), "one finding a defect and arch"
    return found


def test_the_gather_precision_loss(diffuzz: Command, tmp_path: Path) -> None:
    words = ("--arch", "gfx942", "--examples", "100")
    code, report = run(diffuzz, tmp_path, "rocm_gather", "0.20.0", "0.19.1", *words)
    assert code == 1
    (finding,) = only(report, "regression")
    assert finding["kind"] == "precision"
    assert "through e4m3fn" in finding["explanation"]["text"]
    assert finding["location"]["file"] == "vllm/v1/attention/backends/rocm_aiter_fa.py"

    code, report = run(diffuzz, tmp_path, "rocm_gather", "0.19.1", "0.20.0", *words)
    assert code == 0
    assert only(report, "regression") == []
    assert [f["kind"] for f in only(report, "fixed")] == ["precision"]


def test_the_k3_assertion(diffuzz: Command, tmp_path: Path) -> None:
    words = ("--arch", "sm90", "--examples", "40")
    code, report = run(diffuzz, tmp_path, "k3_decode", "0.28.0", "0.27.1", *words)
    assert code == 1
    (finding,) = only(report, "regression")
    assert finding["kind"] == "assertion"
    source = open_revision("pypi:0.27.1", None).read("vllm/models/kimi_k3/nvidia/mla.py")
    assert source is not None
    quoted = finding["message"].split("AssertionError: ")[1][:40]
    assert quoted in " ".join(source.split('"')).replace("  ", " ") or quoted[:25] in source
    assert "supports_quant_query_input=False" in finding["message"]
    assert any(name.startswith("TritonMLAImpl") for name in finding["backends"])

    code, report = run(diffuzz, tmp_path, "k3_decode", "0.27.1", "0.28.0", *words)
    assert code == 0
    assert [f["kind"] for f in only(report, "fixed")] == ["assertion"]


@pytest.mark.parametrize(
    ("target", "version"), [("rocm_gather", "0.20.0"), ("k3_decode", "0.28.0")]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_release_against_itself_has_no_direction(
    diffuzz: Command, tmp_path: Path, target: str, version: str, seed: int
) -> None:
    words = ("--examples", "20", "--seed", str(seed))
    code, report = run(diffuzz, tmp_path, target, version, version, *words)
    assert code == 0
    assert {f["direction"] for f in report["findings"]} <= {"both"}


def test_a_release_without_the_code_is_unknown(diffuzz: Command, tmp_path: Path) -> None:
    code, report = run(diffuzz, tmp_path, "k3_decode", "0.19.1", "0.20.0")
    assert code == 3
    for target in report["targets"]:
        assert target["cases"] == 0
        (reason,) = target["unknown_reasons"]
        assert "pypi:0.19.1" in reason
