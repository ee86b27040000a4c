"""Which Triton kernels of a vLLM release run on the Triton IR executor, and how right they are.

    python benchmarks/ttir_kernels.py [--vllm REVISION] [--arch ARCH] [--size PROGRAMS]

REVISION is what ``diffuzz run --baseline`` takes: ``pypi:0.28.0`` (default), ``path:DIR`` or a
git revision. Exit code 1 if a supported kernel was wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path

import torch
import ttir_loader

from diffuzz.arch import get_arch
from diffuzz.executors.triton_ir import TritonIRExecutor
from diffuzz.executors.ttir.errors import CompileError, KernelFault, Unsupported
from diffuzz.sources.revision import open_revision


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vllm", default="pypi:0.28.0")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--size", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    arch = get_arch(options.arch)
    executor = TritonIRExecutor()
    executor.prepare(arch)
    wrong = supported = 0
    with tempfile.TemporaryDirectory() as folder:
        ttir_loader.install(open_revision(options.vllm), Path(folder), arch)
        import ttir_cases
        import ttir_cases_mission
        import ttir_cases_more

        assert ttir_cases_mission
        assert ttir_cases_more
        print(f"vLLM {options.vllm}, {arch.name}, torch {torch.__version__}")
        for name, make in ttir_cases.CASES.items():
            if options.only not in name:
                continue
            executor.begin()
            torch.manual_seed(0)
            begun = time.perf_counter()
            try:
                job = make(options.size)
                job.run()
                pairs = job.judge()
            except (Unsupported, CompileError, KernelFault) as error:
                print(f"{name:42} not supported: {type(error).__name__}: {str(error)[:120]}")
                continue
            except Exception as error:
                print(f"{name:42} did not run: {type(error).__name__}: {str(error)[:120]}")
                if options.verbose:
                    traceback.print_exc()
                continue
            worst = max(p.worst() for p in pairs)
            reports = executor.reports()
            right = worst <= 1
            supported += 1
            wrong += not right
            seconds = time.perf_counter() - begun
            print(
                f"{name:42} {'right' if right else 'WRONG'}: error {worst:.2f} of the bound,"
                f" {seconds * 1e3:.0f} ms, {len(reports)} reports"
            )
            for report in reports:
                print(f"    {report.kind}: {report.message} at {report.location}")
    print(f"{supported} supported, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
