"""Which Triton kernels of a vLLM release run on the Triton IR executor, and how right they are.

    python benchmarks/ttir_kernels.py [--vllm REVISION] [--arch ARCH] [--size PROGRAMS]

REVISION is what ``diffuzz run --baseline`` takes: ``pypi:0.28.0`` (default), ``path:DIR`` or a
git revision. Exit code 1 if a supported kernel was wrong or reported a fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
import ttir_loader

from diffuzz.arch import get_arch
from diffuzz.executors.triton_ir import TritonIRExecutor
from diffuzz.executors.ttir.errors import CompileError, KernelFault, Unsupported
from diffuzz.sources.revision import open_revision


def try_case(name: str, make: Callable, size: int, executor: TritonIRExecutor) -> str:
    """Run one case, print a line, and return ``right``, ``wrong`` or why there is no result."""
    executor.begin()
    torch.manual_seed(0)
    begun = time.perf_counter()
    try:
        job = make(size)
        job.run()
        pairs = job.judge()
    except (Unsupported, CompileError, KernelFault) as error:
        print(f"{name:42} not supported: {type(error).__name__}: {str(error)[:120]}")
        return "not supported"
    except Exception as error:
        print(f"{name:42} did not run: {type(error).__name__}: {str(error)[:120]}")
        traceback.print_exc()
        return "did not run"
    worst = max(p.worst() for p in pairs)
    reports = executor.reports()
    result = "right" if worst <= 1 and not reports else "wrong"
    print(
        f"{name:42} {result}: error {worst:.2f} of the bound,"
        f" {(time.perf_counter() - begun) * 1e3:.0f} ms, {len(reports)} reports"
    )
    for report in reports:
        print(f"    {report.kind}: {report.message} at {report.location}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="pypi:0.28.0")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--only", default="", help="kernels with this in their name")
    options = parser.parse_args()
    arch = get_arch(options.arch)
    executor = TritonIRExecutor()
    executor.prepare(arch)
    with tempfile.TemporaryDirectory() as folder:
        ttir_loader.install(open_revision(options.vllm), Path(folder), arch)
        import ttir_cases

        print(f"vLLM {options.vllm}, {arch.name}, torch {torch.__version__}")
        results = [
            try_case(name, make, options.size, executor)
            for name, make in ttir_cases.all_cases().items()
            if options.only in name
        ]
    counts = {kind: results.count(kind) for kind in dict.fromkeys(results)}
    print(", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return 1 if "wrong" in results or "did not run" in results else 0


if __name__ == "__main__":
    sys.exit(main())
