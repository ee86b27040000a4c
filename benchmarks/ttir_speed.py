"""How fast the Triton IR executor is, against Triton's own interpreter on the same cases.

    python benchmarks/ttir_speed.py [--vllm REVISION] [--arch ARCH] [--kernel NAME]

For each kernel and grid size: a cold launch (compiling included), a warm launch, the cost of one
program and the peak of memory a launch adds. Times are processor time of one thread, so that a busy
machine does not tell in them; inputs are float16 and OCP fp8, because the interpreter can run
neither these kernels in bfloat16 nor FNUZ fp8.

The interpreter runs in a process of its own (it is chosen by an environment variable). Where a
launch would take it more than BUDGET_S it is not run: its time is then what a program cost at the
largest grid that was, times the programs, and marked ``~``.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import ttir_loader

from diffuzz.arch import get_arch
from diffuzz.sources.revision import open_revision

KERNELS = {
    "gather (cp_mha_gather_cache)": [10, 100, 1000, 3000, 10_000, 100_000],
    "cache write (reshape_and_cache_shuffle)": [10, 100, 1000, 3000, 10_000, 100_000],
    "merge_attn_states": [10, 100, 1000, 3000, 10_000, 100_000],
    "per_token_group_quant_fp8": [10, 100, 1000, 3000, 10_000],
    "decode_attention, both stages (MHA)": [32, 100, 1000, 3000, 10_000],
    "decode_attention, both stages (GQA)": [32, 100, 1000, 3000],
    "unified_attention": [10, 100, 1000, 3000],
}
BUDGET_S = 12.0  # for one launch under the interpreter


def first_launch(call: Callable[[], Any]) -> tuple[float, float]:
    """Seconds ``call`` takes, and MiB the process grows by at most meanwhile (0 where the kernel
    does not tell)."""
    status, peak = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not peak.exists():
        return timed(call), 0.0
    ctypes.CDLL(None).malloc_trim(0)  # so that memory freed before is not reused unseen
    peak.write_text("5")  # resets the peak to the present size
    before = _status(status, "VmRSS")
    seconds = timed(call)
    return seconds, _status(status, "VmHWM") - before


def _status(file: Path, field: str) -> float:
    lines = file.read_text().splitlines()
    return next(float(t.split()[1]) / 1024 for t in lines if t.startswith(field))


def timed(call: Callable[[], Any]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def load(options: argparse.Namespace, folder: str) -> Any:
    arch = get_arch(options.arch)
    ttir_loader.install(open_revision(options.vllm), Path(folder), arch)
    import ttir_cases

    ttir_cases.HALF = torch.float16
    return ttir_cases.all_cases()


def measure(options: argparse.Namespace) -> None:
    """Child: time one kernel at each size; prints a JSON line per size."""
    if not options.interpret:
        from diffuzz.executors.triton_ir import TritonIRExecutor

        TritonIRExecutor().prepare(get_arch(options.arch))
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        cases = load(options, folder)
        if not options.interpret:
            cases["merge_attn_states"](1).run()  # imports and first-use costs of the process
        expected = 0.0
        for size in KERNELS[options.kernel]:
            job = cases[options.kernel](size)
            if options.interpret and expected * job.programs > BUDGET_S:
                continue
            cold, memory = first_launch(job.run)
            repeats = 1 if options.interpret or cold > 2 else 5
            warm = min(timed(job.run) for _ in range(repeats)) if cold < 20 else cold
            expected = warm / job.programs
            row = {"programs": job.programs, "cold": cold, "warm": warm, "memory": memory}
            print(json.dumps(row), flush=True)


def child(options: argparse.Namespace, kernel: str, interpret: bool) -> list[dict[str, float]]:
    command = [
        sys.executable,
        __file__,
        "--child",
        "--kernel",
        kernel,
        "--vllm",
        options.vllm,
        "--arch",
        options.arch,
    ]
    environment = {**os.environ}
    environment.pop("TRITON_INTERPRET", None)
    if interpret:
        command.append("--interpret")
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [json.loads(t) for t in done.stdout.splitlines() if t.startswith("{")]
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        print(f"    {'interpreter' if interpret else 'executor'} stopped: {lines[-1][:150]}")
    return rows


def table(kernel: str, ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    print(f"\n{kernel}")
    print("  programs      cold ms   warm ms  us/program     run MiB   interpreter ms     faster")
    known = {int(r["programs"]): r["warm"] for r in theirs}
    each = theirs[-1]["warm"] / theirs[-1]["programs"] if theirs else None
    for row in ours:
        programs = int(row["programs"])
        line = (
            f"  {programs:8}   {row['cold'] * 1e3:9.1f} {row['warm'] * 1e3:9.2f}"
            f"   {row['warm'] / programs * 1e6:9.2f}  {row['memory']:9.0f}"
        )
        other = known.get(programs)
        if other is None and each is not None:
            line += f"   ~{each * programs * 1e3:13.0f}   ~{each * programs / row['warm']:8.0f}x"
        elif other is not None:
            line += f"    {other * 1e3:13.1f}    {other / row['warm']:8.0f}x"
        print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="pypi:0.28.0")
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--kernel", default="")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--interpret", action="store_true")
    options = parser.parse_args()
    if options.child:
        measure(options)
        return 0
    print(f"vLLM {options.vllm}, {options.arch}, torch {torch.__version__}, one thread")
    print("~ marks the interpreter's time extrapolated from its largest measured grid")
    for kernel in KERNELS:
        if options.kernel in kernel:
            ours = child(options, kernel, interpret=False)
            table(kernel, ours, child(options, kernel, interpret=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
