"""``diffuzz bisect`` next to ``git bisect run`` on the same case, range and judging script.

    python benchmarks/bisect_vs_git.py --repo DIR [--finding FILE] [--good REV] [--bad REV]

DIR is a clone of vLLM (bare or not). git's side works in a worktree of its own, from a shared
clone, and judges each step with ``diffuzz replay FINDING --revision .``, as a user would: exit 0
right, 1 wrong, 125 skip. diffuzz's side runs with an empty cache, then, with what that left, as
often as ``--again`` says (the median counts: a busy machine disturbs seconds more than minutes).
Ends with exit code 1 if the culprits differ, or if diffuzz with its cache is less than 20 times
faster.

Checked-out files are those under vllm/ and csrc/, which is all the judging script reads and spares
git most of the work. Times are wall clock, the start of every process included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The range of the gather finding: from where the case first runs after the kernel's rewrite to the
# end of the mirror; the finding is the one of the corpus.
FINDING = next((ROOT / "corpora" / "rocm_gather").glob("precision-*.yaml"), None)
BAD = "8c363ed666"
GOOD = "main"
LEAST = 20.0

JUDGE = """\
#!/bin/sh
# Counts a run, judges the worktree, and says new for a fixed one where the bad end is the older.
echo run >> {counter}
{python} -m diffuzz replay {finding} --revision . --executor cpu >> {log} 2>&1
code=$?
if [ {swap} = 1 ]; then
  case $code in 0) exit 1;; 1) exit 0;; esac
fi
exit $code
"""


@dataclass(frozen=True)
class Side:
    """What one way of bisecting cost and found."""

    name: str
    seconds: float
    checkouts: int
    runs: int
    culprit: str


def run(words: list[str], cwd: Path, env: dict[str, str]) -> tuple[float, str]:
    started = time.perf_counter()
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return seconds, done.stdout


def diffuzz_side(name: str, given: argparse.Namespace, folder: Path, env: dict[str, str]) -> Side:
    words = [
        sys.executable,
        "-m",
        "diffuzz",
        "bisect",
        given.finding,
        "--no-blame",
        "--executor",
        "cpu",
    ]
    words += ["--good", given.good, "--bad", given.bad, "--repo", given.repo]
    seconds, _ = run([*words, "--json", str(folder / "out.json")], folder, env)
    found = json.loads((folder / "out.json").read_text())
    culprit = found["culprit"]["commit"] if found["culprit"] else str(found["range"])
    return Side(name, seconds, 0, found["runs"]["run"], culprit)


def again(given: argparse.Namespace, folder: Path, env: dict[str, str]) -> Side:
    """The run of median length."""
    sides = [diffuzz_side("diffuzz, again", given, folder, env) for _ in range(given.again)]
    return sorted(sides, key=lambda side: side.seconds)[len(sides) // 2]


def git_side(given: argparse.Namespace, folder: Path, env: dict[str, str]) -> Side:
    tree = folder / "worktree"
    run(["git", "clone", "-q", "--shared", "--no-checkout", given.repo, str(tree)], folder, env)
    ends = [resolved(given.repo, end) for end in (given.good, given.bad)]
    fixed = not subprocess.run(
        ["git", "-C", given.repo, "merge-base", "--is-ancestor", ends[1], ends[0]], check=False
    ).returncode
    older, newer = (ends[1], ends[0]) if fixed else ends
    run(["git", "sparse-checkout", "set", "vllm", "csrc"], tree, env)
    run(["git", "checkout", "-q", "--detach", newer], tree, env)
    judge = folder / "judge.sh"
    counter, log = folder / "runs", folder / "replay.log"
    judge.write_text(
        JUDGE.format(
            counter=counter,
            python=sys.executable,
            finding=given.finding,
            log=log,
            swap=int(fixed),
        )
    )
    judge.chmod(0o755)
    run(["git", "bisect", "start", "--first-parent", newer, older], tree, env)
    seconds, out = run(["git", "bisect", "run", str(judge)], tree, env)
    steps = len(counter.read_text().splitlines())
    return Side("git bisect run", seconds, steps, steps, named(out))


def named(out: str) -> str:
    """The commit ``git bisect run`` ends with."""
    for line in out.splitlines():
        if line.endswith(" is the first bad commit"):
            return line.split()[0]
    return "none: " + " ".join(out.split()[-12:])


def resolved(repo: str, revision: str) -> str:
    words = ["git", "-C", repo, "rev-parse", f"{revision}^{{commit}}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare with git bisect run.")
    parser.add_argument("--repo", required=True, help="a clone of vLLM")
    parser.add_argument("--finding", default=str(FINDING), help="[default: the corpus's]")
    parser.add_argument("--good", default=GOOD)
    parser.add_argument("--bad", default=BAD)
    parser.add_argument("--again", type=int, default=3, help="runs with a filled cache")
    given = parser.parse_args()
    given.repo, given.finding = str(Path(given.repo).resolve()), str(Path(given.finding).resolve())
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        env = {**os.environ, "DIFFUZZ_CACHE": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
        sides = [
            diffuzz_side("diffuzz, empty cache", given, folder, env),
            again(given, folder, env),
            git_side(given, folder, env),
        ]
    return report(sides)


def report(sides: list[Side]) -> int:
    slow = sides[-1]
    print(f"{'':<22} {'seconds':>8} {'checkouts':>10} {'runs':>5} {'faster':>7}  culprit")
    for side in sides:
        faster = slow.seconds / side.seconds
        print(
            f"{side.name:<22} {side.seconds:>8.1f} {side.checkouts:>10} {side.runs:>5}"
            f" {faster:>6.1f}x  {side.culprit[:12]}"
        )
    if len({side.culprit for side in sides}) > 1:
        print("MISSED: the culprits differ")
        return 1
    if slow.seconds < LEAST * sides[1].seconds:
        print(f"MISSED: less than {LEAST:g} times faster")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
