"""What a session on a GPU machine measures, from a bundle: no git history, no network.

    python3 benchmarks/gpu_session.py --make-bundle            (here, with network)
    python3 benchmarks/gpu_session.py [--only SECTION]...      (there)

Each section is a process of its own with a time limit, and its results are added to
``gpu_session.json`` and ``gpu_session.txt`` in ``--out`` (default ``$OUT``) as soon as they are
there. ``--dry-run`` runs on the CPU what can be run there, with few cases. Exit code 3: a section
could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FIXTURES = "benchmarks/gpu_fixtures"
RELEASES = ("pypi:0.19.1", "pypi:0.20.0", "pypi:0.27.1", "pypi:0.28.0")
TREES = (f"path:{FIXTURES}/right", f"path:{FIXTURES}/faulty")
# Target, a release that has the fault, the first that has it no more.
MISSIONS = (
    ("rocm_gather", "pypi:0.19.1", "pypi:0.20.0"),
    ("k3_decode", "pypi:0.27.1", "pypi:0.28.0"),
)
EXIT_NOT_RUN = 3


@dataclass(frozen=True)
class Plan:
    """What this session may use."""

    bundle: Path
    out: Path
    executor: str
    arch: str
    examples: int
    memory_examples: int
    check_examples: int
    jobs: int
    dry: bool

    def revision(self, name: str) -> str:
        return f"bundle:{self.bundle}#{name}"


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path.rstrip(os.pathsep), "NO_COLOR": "1"}


def run_command(plan: Plan, words: list[str], limit: float, out: str = "") -> dict[str, Any]:
    """A diffuzz command in a process of its own: exit code, seconds, the end of what it said, and
    its resident memory over time with the number of cases begun, once a second."""
    log = plan.out / "command.log"
    started, samples = time.monotonic(), []
    with open(log, "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "diffuzz", *words],
            cwd=ROOT,
            env=environment(),
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        while process.poll() is None and time.monotonic() - started < limit:
            time.sleep(0.5 if time.monotonic() - started < 20 else 1.0)
            samples.append([_cases_begun(out), _resident(process.pid)])
        if process.poll() is None:
            process.kill()
        process.wait()
    return {
        "command": " ".join(words),
        "exit_code": process.returncode,
        "seconds": round(time.monotonic() - started, 1),
        "said": log.read_text(errors="replace")[-6000:],
        "memory": [sample for sample in samples if sample[1]],
    }


def _cases_begun(out: str) -> int:
    return sum(1 for _ in Path(out, "cases").glob("*/*.json")) if out else 0


def _resident(pid: int) -> float:
    """Resident memory of a process in MB, 0 once it is gone."""
    try:
        return round(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6, 1)
    except (OSError, IndexError):
        return 0.0


def fuzz(
    plan: Plan, target: str, before: str, after: str, examples: int, limit: float, *more: str
) -> dict[str, Any]:
    """``diffuzz run`` on two packed revisions, its report cut down to what matters here."""
    out = plan.out / "runs" / f"{target}-{examples}-{len(list(plan.out.glob('runs/*')))}"
    words = ["run", target, "--baseline", plan.revision(before)]
    words += ["--candidate", plan.revision(after), "--arch", plan.arch]
    words += ["--executor", plan.executor, "--examples", str(examples), "--jobs", str(plan.jobs)]
    words += ["--out", str(out), "--json", str(out / "session.json"), *more]
    out.mkdir(parents=True)
    found = run_command(plan, words, limit, str(out))
    report = out / "session.json"
    if not report.is_file():
        return found
    item = json.loads(report.read_text())["targets"][0]
    found |= {
        k: item.get(k)
        for k in ("cases", "verdicts", "unknown_reasons", "slices", "native", "timing")
    }
    found["cases_per_second"] = round(item["cases"] / found["seconds"], 1)
    found["findings"] = [
        {k: f.get(k) for k in ("id", "kind", "direction", "signature", "message", "cases_hit")}
        | {"file": str(out / "findings" / f"{f['id']}.yaml"), "case": f["case"]}
        for f in item["findings"]
    ]
    return found


def section_findings(plan: Plan) -> dict[str, Any]:
    """Both mission findings, by direction, and replayed on either side; none in fixed code."""
    results: dict[str, Any] = {}
    for target, bad, fixed in MISSIONS:
        found = fuzz(plan, target, bad, fixed, plan.examples, 230)
        fixes = [f for f in found.get("findings", []) if f["direction"] == "fixed"]
        for finding in fixes[:1]:
            for name, revision in (("bad", bad), ("fixed", fixed)):
                words = ["replay", finding["file"], "--revision", plan.revision(revision)]
                words += ["--executor", plan.executor]
                finding[f"replay_{name}"] = run_command(plan, words, 100)["exit_code"]
        found["found"] = bool(fixes)
        results[target] = found
        again = fuzz(plan, target, fixed, fixed, max(plan.examples // 10, 10), 100)
        results[f"{target}, fixed against itself"] = again
    results["ok"] = all(
        results[t]["found"]
        and any(
            f.get("replay_bad") == 1 and f.get("replay_fixed") == 0 for f in results[t]["findings"]
        )
        and not [
            f
            for f in results[f"{t}, fixed against itself"].get("findings", [])
            if f["kind"] in ("assertion", "precision")
        ]
        for t, _, _ in MISSIONS
    )
    return results


def section_faults(plan: Plan) -> dict[str, Any]:
    """Our own illegal access, endless loop and device assertion: the campaign goes on."""
    more = ["--targets", f"{FIXTURES}/targets", "--case-timeout", "10s", "--fail-on", "never"]
    found = fuzz(plan, "gpu_faults", *TREES, 32, 300, *more)
    kinds = {f["kind"] for f in found.get("findings", [])}
    wanted = {"assertion", "hang", "out-of-bounds" if plan.dry else "crash"}
    right = found.get("verdicts", {}).get("agree", 0)
    found["ok"] = wanted <= kinds and right > 0 and all(f["case"] for f in found["findings"])
    return found


def section_memory(plan: Plan) -> dict[str, Any]:
    """The parent's memory over many cases: the last quarter against the second."""
    revision = RELEASES[-1]
    found = fuzz(plan, "rocm_gather", revision, revision, plan.memory_examples, 280)
    begun = found.get("cases") or 1
    quarters: list[list[float]] = [[], [], [], []]
    for cases, resident in found["memory"]:
        if cases:
            quarters[min(3, 4 * cases // begun)].append(resident)
    found["resident_mb_by_quarter"] = [round(sum(q) / len(q), 1) if q else None for q in quarters]
    second, last = quarters[1], quarters[3]
    grown = sum(last) / len(last) - sum(second) / len(second) if second and last else None
    found["grown_mb"] = grown and round(grown, 1)
    found["memory"] = found["memory"][:: max(1, len(found["memory"]) // 40)]
    found["ok"] = grown is not None and grown < 64
    return found


def child(plan: Plan, name: str, limit: float, *more: str) -> dict[str, Any]:
    """A measurement of :mod:`gpu_measure` in a process of its own."""
    result = plan.out / f"child-{name}.json"
    result.unlink(missing_ok=True)
    words = [sys.executable, str(HERE / "gpu_measure.py"), name, "--bundle", str(plan.bundle)]
    words += ["--executor", plan.executor, "--arch", plan.arch, "--out", str(result)]
    words += ["--examples", str(plan.check_examples), "--jobs", str(plan.jobs), *more]
    started = time.monotonic()
    try:
        done = subprocess.run(
            words, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=limit
        )
        said, code = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        said, code = f"more than {limit:g} s; {(error.stderr or b'')[-1500:]!r}", 124
    found: dict[str, Any] = {"exit_code": code, "seconds": round(time.monotonic() - started, 1)}
    if result.is_file():
        found |= json.loads(result.read_text())
        result.unlink()
    if code:
        found["said"] = said[-3000:]
    found["ok"] = code == 0 and found.get("ok", True)
    return found


def section_crosscheck(plan: Plan) -> dict[str, Any]:
    return child(plan, "crosscheck", 240)


def section_trust(plan: Plan) -> dict[str, Any]:
    return child(plan, "trust", 150)


def section_throughput(plan: Plan) -> dict[str, Any]:
    return child(plan, "throughput", 150)


def section_big(plan: Plan) -> dict[str, Any]:
    """Caches of several GB, offsets beyond 2**31: one process a revision, for one may crash."""
    if plan.dry:
        return {"not_run": "needs tens of GB on a GPU"}
    found: dict[str, Any] = {}
    for release in RELEASES:
        words = ["--target", "rocm_gather", "--revision", release]
        found[f"gather {release}"] = child(plan, "big", 120, *words)
    # More tokens than a backend's workspace ever holds: an observation, not a requirement.
    words = ["--target", "rocm_gather", "--revision", RELEASES[-1], "--tokens", "2200000"]
    workspace = child(plan, "big", 120, *words)
    insert = child(plan, "big", 120, "--target", "k3_decode", "--revision", RELEASES[-1])
    right = all(item.get("wrong_tokens") == 0 for item in found.values())
    same = all(
        item["rest_untouched"] and all(item["same_as_small"].values())
        for item in insert.values()
        if isinstance(item, dict)
    )
    found |= {"workspace beyond 2**31": workspace, "insert": insert}
    return {**found, "ok": right and same and insert["exit_code"] == 0}


def section_doctor(plan: Plan) -> dict[str, Any]:
    found = run_command(plan, ["doctor", "--json"], 200)
    try:
        found |= json.loads(found["said"][found["said"].index("{") :])
    except ValueError:
        found["ok"] = False
    return found


SECTIONS: dict[str, Callable[[Plan], dict[str, Any]]] = {
    "doctor": section_doctor,
    "findings": section_findings,
    "faults": section_faults,
    "crosscheck": section_crosscheck,
    "trust": section_trust,
    "throughput": section_throughput,
    "big": section_big,
    "memory": section_memory,
}


def make_bundle(bundle: Path) -> int:
    bundle.parent.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "diffuzz", "bundle", "--out", str(bundle)]
    words += ["--targets", f"{FIXTURES}/targets"]
    for revision in (*RELEASES, *TREES):
        words += ["--revision", revision]
    return subprocess.run(words, cwd=ROOT, env=environment()).returncode


def device() -> tuple[str | None, dict[str, Any]]:
    """The GPU's arch, None without one, and what the report says of the machine; asked in a
    process of its own, so that this one holds nothing on the device."""
    code = (
        "import json, sys, torch, triton; from diffuzz.executors.gpu import present_arch\n"
        "a = present_arch()\n"
        "print(json.dumps([a, {'python': sys.version.split()[0], 'torch': torch.__version__,"
        " 'triton': triton.__version__, 'hip': torch.version.hip, 'cuda': torch.version.cuda,"
        " 'device': torch.cuda.get_device_name() if a else None}]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    if done.returncode:
        return None, {"error": done.stderr[-1500:]}
    arch, about = json.loads(done.stdout)
    return arch, about


def text_of(results: dict[str, Any]) -> str:
    """The results for reading: long texts and samples left out."""

    def short(value: Any) -> Any:
        if isinstance(value, dict):
            hidden = ("said", "memory", "command", "case", "native", "slices")
            return {
                k: short(v)
                for k, v in value.items()
                if k not in hidden or (k == "said" and value.get("exit_code") not in (0, 1))
            }
        return [short(v) for v in value] if isinstance(value, list) else value

    return json.dumps(short(results), indent=1) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path(".diffuzz/gpu.bundle"))
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".diffuzz/gpu")))
    parser.add_argument("--only", action="append", choices=list(SECTIONS))
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--make-bundle", action="store_true")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--memory-examples", type=int, default=5000)
    parser.add_argument("--check-examples", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2))
    chosen = parser.parse_args()
    if chosen.make_bundle:
        return make_bundle(chosen.bundle.resolve())
    arch, about = device()
    if arch is None and not chosen.dry_run:
        for name in chosen.only or SECTIONS:
            print(f"{name}: not run: {about.get('error', 'torch sees no GPU here')}")
        return EXIT_NOT_RUN
    chosen.out.mkdir(parents=True, exist_ok=True)
    dry = chosen.dry_run
    plan = Plan(
        bundle=chosen.bundle.resolve(),
        out=chosen.out.resolve(),
        executor="cpu" if dry else "gpu",
        arch="sm90" if dry else str(arch),
        examples=20 if dry else chosen.examples,
        memory_examples=40 if dry else chosen.memory_examples,
        check_examples=10 if dry else chosen.check_examples,
        jobs=chosen.jobs,
        dry=dry,
    )
    kept = plan.out / "gpu_session.json"
    results = json.loads(kept.read_text()) if kept.is_file() else {}
    results["environment"] = about
    for name in chosen.only or SECTIONS:
        started = time.monotonic()
        results[name] = SECTIONS[name](plan)
        results[name]["section_seconds"] = round(time.monotonic() - started, 1)
        said = results[name].get("not_run") or ("ok" if results[name].get("ok") else "NOT OK")
        print(f"{name}: {said} ({results[name]['section_seconds']} s)", flush=True)
        kept.write_text(json.dumps(results, indent=1) + "\n")
        (plan.out / "gpu_session.txt").write_text(text_of(results))
    not_run = [name for name in chosen.only or SECTIONS if results[name].get("not_run")]
    for name in not_run:
        print(f"{name}: not run: {results[name]['not_run']}")
    return EXIT_NOT_RUN if not_run else 0


if __name__ == "__main__":
    sys.exit(main())
