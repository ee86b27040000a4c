"""The GPU executor: faults told apart, lost contexts ended, and, where there is a GPU, the whole.

Tests marked ``gpu`` need one. Without one they are left out and say so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from diffuzz import discovery
from diffuzz.arch import get_arch
from diffuzz.crosscheck import Crosscheck, Pairing, compare, crosscheck
from diffuzz.errors import CannotTell
from diffuzz.executors import gpu
from diffuzz.executors.gpu import GpuExecutor
from diffuzz.generate import draw_cases
from diffuzz.outcome import CompileFailed, Crashed, Outcome, Raised, Returned, Unsupported
from diffuzz.planning import Slicer
from diffuzz.sources.directory import DirectorySource
from tests.conftest import Command
from tests.toy import TARGETS, tree, write_tree

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "benchmarks" / "gpu_fixtures"
HAS_GPU = torch.cuda.is_available()

needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU, reason="NOT RUN: torch sees no GPU here"),
]
without_gpu = pytest.mark.skipif(HAS_GPU, reason="about machines without a GPU")

ILLEGAL = "illegal memory access on the device"


@pytest.mark.parametrize(
    ("text", "outcome", "lost"),
    [
        (
            "CUDA error: an illegal memory access was encountered\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
            ILLEGAL,
            True,
        ),
        ("Triton Error [CUDA]: an illegal memory access was encountered", ILLEGAL, True),
        ("Triton Error [HIP]:  Code: 700, Messsage: hipErrorIllegalAddress", ILLEGAL, True),
        ("CUDA error: misaligned address", "misaligned address on the device", True),
        ("CUDA error: unspecified launch failure", "launch failure on the device", True),
        ("HIP error: unspecified launch failure", "launch failure on the device", True),
    ],
)
def test_faults_of_a_kernel_are_crashes(text: str, outcome: str, lost: bool) -> None:
    executor = GpuExecutor()
    found = executor.translate(RuntimeError(text))
    assert isinstance(found, Crashed)
    assert found.how == outcome
    assert executor.lost is lost


@pytest.mark.parametrize(
    ("text", "outcome", "lost"),
    [
        ("CUDA error: out of memory", Unsupported("out of memory"), False),
        ("HIP error: out of memory", Unsupported("out of memory"), False),
        ("CUDA error: uncorrectable ECC error encountered", Unsupported("device lost"), True),
        (
            "CUDA error: all CUDA-capable devices are busy or unavailable",
            Unsupported("device lost"),
            True,
        ),
        (
            "CUDA error: device-side assert triggered",
            Raised("AssertionError", "device-side assertion", None),
            True,
        ),
        ("PassManager::run failed", CompileFailed("PassManager::run failed"), False),
        ("CUDA error: invalid configuration argument", None, False),
        ("shapes do not match", None, False),
    ],
)
def test_the_machines_trouble_is_not_the_kernels(
    text: str, outcome: Outcome | None, lost: bool
) -> None:
    executor = GpuExecutor()
    assert executor.translate(RuntimeError(text)) == outcome
    assert executor.lost is lost


def test_an_assertion_is_placed_by_what_the_device_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    printed = (
        "/scratch/1/slice/vllm/v1/k.py:31: kernel: block: [2,0,0], thread: [0,0,0] "
        "Assertion `must be positive` failed."
    )
    code = (
        "import os\n"
        f"os.dup2(os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)\n"
        "from diffuzz.executors.gpu import GpuExecutor\n"
        "from diffuzz.outcome import Location\n"
        "executor = GpuExecutor()\n"
        f"os.write(2, {printed!r}.encode())\n"
        "found = executor.translate(RuntimeError('CUDA error: device-side assert triggered'))\n"
        "assert found.message == 'must be positive', found\n"
        "assert found.location == Location('vllm/v1/k.py', 31, 'kernel'), found\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, log.read_text()


def test_a_process_whose_context_is_lost_ends_before_the_next_case() -> None:
    code = (
        "from diffuzz.executors.gpu import GpuExecutor\n"
        "executor = GpuExecutor()\n"
        "executor.translate(RuntimeError('CUDA error: misaligned address'))\n"
        "executor.begin()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True)
    assert done.returncode == gpu.LOST_STATUS


def test_lanes_take_turns_on_the_devices_of_their_arch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with four devices of two kinds, as torch would describe it."""
    kinds = [(9, 0), (10, 0), (9, 0), (9, 0)]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(kinds))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: kinds[index])
    assert [gpu.device_of(lane, get_arch("sm90")) for lane in range(5)] == [0, 2, 3, 0, 2]
    assert gpu.device_of(7, get_arch("sm100")) == 1
    with pytest.raises(CannotTell, match="device is sm90, not gfx950"):
        gpu.device_of(0, get_arch("gfx950"))


@without_gpu
def test_without_a_gpu_every_way_in_says_so(diffuzz: Command) -> None:
    with pytest.raises(CannotTell, match="torch sees no GPU"):
        gpu.require(get_arch("sm90"))
    done = diffuzz("crosscheck", "rocm_gather", "--revision", "pypi:0.28.0")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    target = discovery.load("rocm_gather")
    assert gpu.default_archs(target, "gpu") == target.archs


@without_gpu
def test_the_session_says_of_each_section_why_it_cannot_run() -> None:
    words = [sys.executable, str(ROOT / "benchmarks" / "gpu_session.py")]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert "findings: not run: torch sees no GPU here" in lines
    assert all("not run" in line for line in lines)


def returned(*values: float, dtype: torch.dtype = torch.bfloat16) -> Returned:
    return Returned({"out": torch.tensor(values, dtype=dtype)})


@pytest.fixture
def toy() -> tuple[Crosscheck, Pairing]:
    target = discovery.load("toy_scale", (TARGETS,))
    pairing = Pairing(target, get_arch("gfx950"), ("cpu", "cpu"), (TARGETS,))
    return Crosscheck("toy_scale", "gfx950", ("cpu", "cpu")), pairing


def test_crosscheck_of_equal_executors_finds_no_difference(
    toy: tuple[Crosscheck, Pairing], tmp_path: Path
) -> None:
    slicer = Slicer(DirectorySource(write_tree(tmp_path, tree("right"))))
    cases = draw_cases(toy[1].target, count=12, seed=2)
    found = crosscheck(slicer, toy[1], cases, 2).to_dict()
    (row,) = found["rows"]
    assert (found["cases"], row["cases"], row["differing"], found["unlike"]) == (12, 12, 0, [])
    assert row["elements"] == sum(case["rows"] for case in cases) * 32


def test_crosscheck_counts_bits_and_shows_the_first(toy: tuple[Crosscheck, Pairing]) -> None:
    found, pairing = toy
    (case,) = draw_cases(pairing.target, count=1, seed=0)
    size = torch.Size((1, 32))
    ours = torch.zeros(size, dtype=torch.bfloat16)
    theirs = ours.clone()
    ours[0, 7], theirs[0, 7] = 2.0, -2.015625
    theirs[0, 3] = -0.0
    pair = (Returned({"out": ours}), Returned({"out": theirs}))
    compare(found, pairing.target, pairing.arch, case, pair)
    (row,) = found.rows.values()
    assert (row.elements, row.differing, row.cases_differing) == (32, 2, 1)
    assert row.first is not None
    assert (row.first["index"], row.first["bits"]) == (3, ["0x0", "0x8000"])
    assert (row.both_right, row.one_wrong, row.both_wrong) == (0, 0, 1)
    assert (row.max_ulp, row.at_ends) == (0x8001, 1)
    json.dumps(found.to_dict(), allow_nan=False)


def test_crosscheck_tells_nan_payloads_from_values(toy: tuple[Crosscheck, Pairing]) -> None:
    found, pairing = toy
    (case,) = draw_cases(pairing.target, count=1, seed=0)
    pair = [
        Returned({"out": torch.tensor([code, 0x3F80], dtype=torch.int16).view(torch.bfloat16)})
        for code in (0x7FC0, 0x7FE5)
    ]
    compare(found, pairing.target, pairing.arch, case, (pair[0], pair[1]))
    (row,) = found.rows.values()
    assert (row.differing, row.nan_payload, row.cases_differing) == (0, 1, 0)


def test_crosscheck_counts_runs_that_end_alike_and_otherwise(
    toy: tuple[Crosscheck, Pairing],
) -> None:
    found, pairing = toy
    (case,) = draw_cases(pairing.target, count=1, seed=0)
    raised = Raised("AssertionError", "no", None)
    for pair in ((raised, raised), (raised, returned(1.0)), (returned(1.0), returned(1.0, 2.0))):
        compare(found, pairing.target, pairing.arch, case, pair)
    assert found.ends == {"AssertionError: no": 1, "AssertionError: no | returned": 1}
    assert [item["ends"] for item in found.unlike] == [
        ["AssertionError: no", "returned"],
        ["out: bfloat16[1]", "out: bfloat16[2]"],
    ]


class TestOnTheGpu:
    """Whole campaigns on the device: what ``benchmarks/gpu_session.py`` does at length."""

    pytestmark = needs_gpu

    def run(self, diffuzz: Command, *words: str) -> dict[str, object]:
        done = diffuzz(
            *("run", "gpu_faults", "--targets", str(FIXTURES / "targets"), "--jobs", "2"),
            *("--case-timeout", "10s", "--out", "out", "--json", "out.json", *words),
        )
        assert done.returncode in (0, 1), done.stderr
        report: dict[str, object] = json.loads(Path("out.json").read_text())
        return report

    def test_right_kernels_are_right(self, diffuzz: Command) -> None:
        right = f"path:{FIXTURES / 'right'}"
        report = self.run(diffuzz, "--baseline", right, "--candidate", right, "--examples", "30")
        (target,) = report["targets"]  # type: ignore[misc]
        assert target["verdicts"] == {"agree": 30, "differ": 0, "unknown": 0}

    def test_faults_are_found_and_the_campaign_goes_on(self, diffuzz: Command) -> None:
        report = self.run(
            diffuzz,
            *("--baseline", f"path:{FIXTURES / 'right'}", "--examples", "32"),
            *("--candidate", f"path:{FIXTURES / 'faulty'}"),
        )
        (target,) = report["targets"]  # type: ignore[misc]
        assert {f["kind"] for f in target["findings"]} == {"assertion", "crash", "hang"}
        assert target["verdicts"]["agree"] == 8
        assert target["verdicts"]["unknown"] == 0
