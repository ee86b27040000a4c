"""From a session's comparison of single Triton operations to ``docs/trust.json`` and its table.

    python3 benchmarks/gpu_trust.py gpu_session.json      writes both
    python3 benchmarks/gpu_trust.py --digests             what the CPU executor gives here, as JSON

The digests are of results: a test holds the CPU executor to those that the device gave wherever
the two agreed bit for bit, on machines without a GPU too.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "benchmarks" / "gpu_fixtures"
TRUST = ROOT / "docs" / "trust.json"
PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- trust table: made by benchmarks/gpu_trust.py -->", "<!-- end of table -->"
# Why an operation's results differ, and how far apart two normal results may then be, in ulps of
# float32 (PTX ISA and CUDA programming guide, appendix on mathematical functions; the bound is the
# device's own plus half an ulp here). None: no bound in ulps (a sum that cancels).
# exp(x) is ex2(y) with y = x * log2(e), |y| <= 128. The product and the constant are rounded, by
# at most 2**-24 and 2**-26 of y, so the result is off by ln 2 * 128 * (2**-24 + 2**-26) of itself,
# 111 ulp where an ulp is smallest; ex2.approx adds 2, the rounding here less than 1.
WHY: dict[str, tuple[str, int | None]] = {
    "cast": ("Triton for sm90 takes e5m2's infinities and NaNs for numbers", 0),
    "ceil": ("the device flushes subnormals: their ceiling is 0", 0),
    "floor": ("the device flushes subnormals: their floor is 0", 0),
    "sin": ("libdevice, 2 ulp; the device flushes subnormals", 3),
    "cos": ("libdevice, 2 ulp", 3),
    "div": ("`div.full.f32`, 2 ulp (`div_rn` is exact)", 3),
    "exp": ("`ex2.approx.ftz` of a rounded product; subnormal results are 0", 114),
    "exp2": ("`ex2.approx.ftz`, 2 ulp; subnormal results are 0", 3),
    "log": ("libdevice, 1 ulp", 2),
    "log2": ("libdevice, 1 ulp", 2),
    "sigmoid": ("as `exp` and `div`", 117),
    "rsqrt": ("`rsqrt.approx.ftz`, 2 ulp; subnormal operands count as 0", 3),
    "sqrt": ("`sqrt.approx.ftz` (`sqrt_rn` is exact); subnormal operands count as 0", 3),
    "maximum": ("the device takes a signalling NaN for missing; here it wins", 0),
    "minimum": ("the device takes a signalling NaN for missing; here it wins", 0),
    "mul_add": ("the compiler makes one `fma` of it, rounded once", None),
    "sum": ("another order of summation", None),
}


def trust_of(session: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a session: each operation and pair of types, counted and explained."""
    found = session["trust"]
    rows = []
    for row in found["rows"]:
        op, _, src = row["output"].partition(" ")
        kept = {k: row[k] for k in ("elements", "differing", "nan_payload", "max_ulp", "at_ends")}
        why = WHY[op][0] if row["differing"] else ""
        dst = row["dtype"]
        rows.append({"op": op, "src": src, "dst": dst, **kept, "why": why, "digest": row["digest"]})
    refused = [item["case"]["values"] | {"ends": item["ends"]} for item in found["unlike"]]
    return {
        "environment": session["environment"],
        "arch": found["arch"],
        "rows": rows,
        "refused": refused,
    }


def table(trust: dict[str, Any]) -> str:
    """The table of the page: one line an operation and pair of types."""
    lines = [
        "| op | from | to | values | differing bits | at most | why |",
        "|---|---|---|--:|--:|--:|---|",
    ]
    for row in trust["rows"]:
        apart = "" if not row["differing"] else f"{row['max_ulp']} ulp"
        lines.append(
            f"| {row['op']} | {row['src']} | {row['dst']} | {row['elements']:,} "
            f"| {row['differing']:,} | {apart} | {row['why']} |"
        )
    for item in trust["refused"]:
        lines.append(
            f"| {item['op']} | {item['src']} | {item['dst']} | | | | "
            f"{item['ends'][0]} here, {item['ends'][1]} on the device |"
        )
    return "\n".join(lines)


def on_page(trust: dict[str, Any], page: str) -> str:
    """``page`` with the table between its marks renewed."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table(trust)}\n{END}{after}"


def digests(wanted: list[dict[str, Any]]) -> dict[str, str]:
    """What the CPU executor gives for these rows, by ``op src dst``."""
    from diffuzz import discovery
    from diffuzz.arch import get_arch
    from diffuzz.crosscheck import digest
    from diffuzz.executors import create
    from diffuzz.executors.native_ops import NativeOps

    sys.path.insert(0, str(FIXTURES / "right" / "vllm" / "fixtures"))
    arch = get_arch("sm90")
    executor = create("cpu")
    executor.prepare(arch, NativeOps())
    import ops

    target: Any = discovery.load("triton_ops", (str(FIXTURES / "targets"),))
    found = {}
    for case in target.every_case(arch):
        inputs = target.inputs(case, arch)
        ((name, expected),) = target.expected(case, arch, inputs).items()
        dtype = str(expected.bits.dtype)
        key = f"{name} {dtype.removeprefix('torch.')}"
        if not any(key == f"{r['op']} {r['src']} {r['dst']}" for r in wanted):
            continue
        executor.begin()
        outputs = target.run({"run_op": ops.run_op}, case, arch, inputs)
        found[key] = digest(outputs[name])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("session", type=Path, nargs="?")
    parser.add_argument("--digests", action="store_true")
    options = parser.parse_args()
    if options.digests:
        rows = json.loads(TRUST.read_text())["rows"]
        print(json.dumps(digests([row for row in rows if not row["differing"]])))
        return 0
    trust = trust_of(json.loads(options.session.read_text()))
    TRUST.write_text(json.dumps(trust, indent=1) + "\n")
    PAGE.write_text(on_page(trust, PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
