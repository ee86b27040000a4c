"""The measurements of ``gpu_session.py`` that need a process of their own on the device."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from diffuzz import discovery, oracles
from diffuzz.arch import Arch, get_arch
from diffuzz.calling import call
from diffuzz.case import Case, make_case
from diffuzz.crosscheck import Pairing, crosscheck
from diffuzz.executors import Executor, create
from diffuzz.generate import draw_cases
from diffuzz.numerics.poison import is_poison, poison
from diffuzz.outcome import Returned
from diffuzz.planning import Slicer
from diffuzz.slicing import Missing, load
from diffuzz.sources.revision import open_revision
from diffuzz.target import Target

FIXTURES = Path("benchmarks/gpu_fixtures")
LATEST = "pypi:0.28.0"
TARGETS = ("rocm_gather", "k3_decode")


class Loaded:
    """A slice of a bundled revision, live in this process."""

    def __init__(self, options: Any, target: str, revision: str) -> None:
        self.arch: Arch = get_arch(options.arch)
        self.target: Target = discovery.load(target)
        slicer = Slicer(open_revision(f"bundle:{options.bundle}#{revision}"))
        piece = slicer.piece(self.target, self.arch)
        if isinstance(piece, Missing):
            raise SystemExit(f"{target} at {revision}: {piece.reason}")
        self.native = slicer.native(piece, self.arch, options.executor)
        self.executor: Executor = create(options.executor)
        self.executor.prepare(self.arch, self.native)
        folder = Path(tempfile.mkdtemp())
        piece.slice.write(folder)
        self.code = load(folder)

    def inputs(self, case: Case) -> dict[str, Any]:
        return self.target.inputs(case, self.arch)

    def move(self, inputs: dict[str, Any]) -> dict[str, Any]:
        device = self.executor.device
        return {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in inputs.items()}


def throughput(options: Any) -> dict[str, Any]:
    """Where a case's time goes, phase by phase in one process, and the share of kernels in it."""
    found: dict[str, Any] = {}
    for name in TARGETS:
        loaded = Loaded(options, name, LATEST)
        cases = draw_cases(loaded.target, count=min(options.examples, 200), seed=1)
        cases = [case for case in cases if _runs(loaded, case)]  # compiles every kernel
        spent: Counter[str] = Counter()
        wrong = 0
        for case in cases:
            wrong += _timed(loaded, case, spent)
        total = sum(spent.values())
        kernels = _kernel_seconds(loaded, cases) if options.executor == "gpu" else {}
        busy = sum(kernels.values())
        found[name] = {
            "cases": len(cases),
            "wrong": wrong,
            "cases_per_second_one_process": round(len(cases) / total, 1),
            "ms_a_case": {k: round(1e3 * v / len(cases), 3) for k, v in spent.items()},
            "kernel_ms_a_case": round(1e3 * busy / len(cases), 4),
            "share_of_time_in_kernels": round(busy / total, 5),
            "kernels": {
                k[:80]: round(1e3 * v, 3)
                for k, v in sorted(kernels.items(), key=lambda kv: -kv[1])[:12]
            },
            "native": loaded.native.provider,
        }
    return found


def _runs(loaded: Loaded, case: Case) -> bool:
    try:
        loaded.executor.begin()
        loaded.target.run(loaded.code, case, loaded.arch, loaded.move(loaded.inputs(case)))
        loaded.executor.reports()
    except AssertionError:
        return False
    return True


def _timed(loaded: Loaded, case: Case, spent: Counter[str]) -> bool:
    """Add what each phase of a case takes; whether its result is wrong."""
    marks = [time.perf_counter()]

    def phase(name: str) -> None:
        marks.append(time.perf_counter())
        spent[name] += marks[-1] - marks[-2]

    inputs = loaded.inputs(case)
    phase("inputs")
    moved = loaded.move(inputs)
    loaded.executor.begin()
    phase("transfer")
    outputs = loaded.target.run(loaded.code, case, loaded.arch, moved)
    loaded.executor.reports()
    phase("run")
    returned = Returned({k: v.cpu() for k, v in outputs.items()})
    phase("copy back")
    expected = loaded.target.expected(case, loaded.arch, inputs)
    phase("truth")
    judged = oracles.judge(returned, expected)
    phase("judging")
    return bool(judged.defects)


def _kernel_seconds(loaded: Loaded, cases: list[Case]) -> dict[str, float]:
    """Device time of every kernel (Triton's, native, torch's own) while the cases run."""
    from torch.profiler import ProfilerActivity, profile

    moved = [loaded.move(loaded.inputs(case)) for case in cases]
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for case, inputs in zip(cases, moved, strict=True):
            loaded.target.run(loaded.code, case, loaded.arch, inputs)
        torch.cuda.synchronize()
    seconds: Counter[str] = Counter()
    for event in profiler.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            seconds[event.name] += event.time_range.elapsed_us() / 1e6
    return dict(seconds)


def compare(options: Any) -> dict[str, Any]:
    """Both targets on the CPU executor and on this session's, bit by bit."""
    slicer = Slicer(open_revision(f"bundle:{options.bundle}#{LATEST}"))
    results = []
    for name in TARGETS:
        target = discovery.load(name)
        pairing = Pairing(target, get_arch(options.arch), ("cpu", options.executor))
        cases = draw_cases(target, count=options.examples, seed=7)
        results.append(crosscheck(slicer, pairing, cases, options.jobs).to_dict())
    ok = all(r["cases"] and not any(row["one_wrong"] for row in r["rows"]) for r in results)
    return {"results": results, "ok": ok}


def trust(options: Any) -> dict[str, Any]:
    """Single Triton operations on both executors: every pattern of the small types."""
    folders = (str(FIXTURES / "targets"),)
    target: Any = discovery.load("triton_ops", folders)
    arch = get_arch(options.arch)
    slicer = Slicer(open_revision(f"bundle:{options.bundle}#path:{FIXTURES}/right"))
    cases = target.every_case(arch)
    if options.executor == "cpu":
        cases = cases[:: max(1, len(cases) // 8)]
    pairing = Pairing(target, arch, ("cpu", options.executor), folders)
    found = crosscheck(slicer, pairing, cases, options.jobs).to_dict()
    return {**found, "ok": found["cases"] == len(cases)}


def big(options: Any) -> dict[str, Any]:
    loaded = Loaded(options, options.target, options.revision)
    started = time.perf_counter()
    try:
        if options.target == "k3_decode":
            found = _big_insert(loaded)
        else:
            found = _big_gather(loaded, options.tokens)
    except RuntimeError as error:
        outcome = loaded.executor.translate(error)
        if outcome is None:
            raise
        found = {"tokens": options.tokens, "fault": str(outcome)}
    return {**found, "seconds": round(time.perf_counter() - started, 2)}


def _big_gather(loaded: Loaded, tokens: int) -> dict[str, Any]:
    """Tokens out of two caches of 6.5 GB, offsets far beyond 2**31 elements."""
    blocks, page, heads, size = 200_000, 16, 8, 128
    shape = (blocks, page, heads, size)
    generator = torch.Generator(device="cuda").manual_seed(1)
    caches = [
        torch.randint(
            -(2**15), 2**15, shape, dtype=torch.int16, device="cuda", generator=generator
        ).view(torch.bfloat16)
        for _ in range(2)
    ]
    needed = -(-tokens // page)
    order = torch.randperm(blocks, device="cuda", generator=generator)[:needed]
    # The last blocks are certainly among those read.
    order[:4] = torch.arange(blocks - 4, blocks, device="cuda")
    table = order.to(torch.int32).reshape(1, -1)
    outputs = [
        poison(torch.empty((tokens, heads, size), dtype=torch.bfloat16, device="cuda"))
        for _ in range(2)
    ]
    one = torch.ones((), device="cuda")
    known = {
        "key_cache": caches[0],
        "value_cache": caches[1],
        "key": outputs[0],
        "value": outputs[1],
        "block_tables": table,
        "k_scales": one,
        "v_scales": one,
        "cu_seqlens_kv": torch.tensor([0, tokens], dtype=torch.int32, device="cuda"),
        "token_to_batch": torch.zeros(tokens, dtype=torch.int32, device="cuda"),
        "seq_starts": torch.zeros(1, dtype=torch.int32, device="cuda"),
        "dequant": False,
        "kv_cache_layout": "NHD",
        "total_tokens": tokens,
    }
    call(loaded.code["gather"], known)
    loaded.executor.reports()
    wrong, first = 0, None
    for cache, output in zip(caches, outputs, strict=True):
        for start in range(0, tokens, 1 << 17):
            at = torch.arange(start, min(start + (1 << 17), tokens), device="cuda")
            truth = cache[order[at // page], at % page].view(torch.int16)
            unequal = (output[at].view(torch.int16) != truth).flatten(1).any(dim=1)
            count = int(unequal.sum())
            if count and first is None:
                first = start + int(unequal.nonzero()[0])
            wrong += count
    return {
        "cache_gb": round(2 * caches[0].numel() * 2 / 1e9, 2),
        "tokens": tokens,
        "largest_cache_offset": caches[0].numel(),
        "largest_output_offset": outputs[0].numel(),
        "grid": [tokens, heads],
        "wrong_tokens": wrong,
        "first_wrong_token": first,
    }


def _big_insert(loaded: Loaded) -> dict[str, Any]:
    """Tokens inserted at the end of a cache of several GB: the same bits as in a small one."""
    found: dict[str, Any] = {}
    for dtype, entry in (("auto", 576), ("fp8", 576), ("fp8_ds_mla", 656)):
        values = {
            "kv_cache_dtype": dtype,
            "tokens": 33,
            "num_heads": 16,
            "block_size": 64,
            "slots": "permuted",
            "rope": True,
            "supports_quant_query_input": True,
        }
        case = make_case("k3_decode", loaded.target.axes, values, 5)
        inputs = loaded.move(loaded.inputs(case))
        blocks = (1 << 31) // (64 * entry) + 4_000
        far = (blocks - inputs["num_blocks"]) * 64
        moved = {**inputs, "slots": inputs["slots"] + far, "num_blocks": blocks}
        small = loaded.target.run(loaded.code, case, loaded.arch, inputs)
        large = loaded.target.run(loaded.code, case, loaded.arch, moved)
        loaded.executor.reports()
        same = {
            name: bool(torch.equal(_raw(small[name]), _raw(large[name])))
            for name in small
            if name != "cache_rest"
        }
        rest = large["cache_rest"]
        clean = all(
            bool(
                is_poison(
                    rest[i : i + (1 << 18)].view(torch.uint8)
                    if rest.element_size() == 1
                    else rest[i : i + (1 << 18)].view(torch.bfloat16)
                ).all()
            )
            for i in range(0, len(rest), 1 << 18)
        )
        found[dtype] = {
            "cache_gb": round(blocks * 64 * entry * (2 if dtype == "auto" else 1) / 1e9, 2),
            "largest_offset": blocks * 64 * entry,
            "same_as_small": same,
            "rest_untouched": clean,
        }
    return found


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def main() -> int:
    measures = {"throughput": throughput, "crosscheck": compare, "trust": trust, "big": big}
    parser = argparse.ArgumentParser()
    parser.add_argument("measure", choices=list(measures))
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--executor", required=True)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--target", default="")
    parser.add_argument("--revision", default="")
    parser.add_argument("--tokens", type=int, default=1 << 20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.out.write_text(json.dumps(measures[options.measure](options), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
