"""How fast a wrong output is explained: planted faults by size.

    python benchmarks/explain_speed.py [--repeat N]

A row is a fault of the kernel in ``tests/oracles/kernels.py``: the milliseconds to explain it, how
many hypotheses were there to try (pairs count when no single one would do), how many of them that
is a second, and the name found. Times are processor time of one thread, so that a busy machine does
not tell in them.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from diffuzz.numerics.error import read_output, right_elements
from diffuzz.oracles.evidence import Evidence, gather_evidence
from diffuzz.oracles.explain import explain
from diffuzz.oracles.hypotheses import Hypotheses
from tests.oracles.kernels import Paged, gather

SIZES = {
    "small": Paged(lengths=(9, 5), rows=16, heads=2),
    "medium": Paged(lengths=(60, 200), rows=260),
    "large": Paged(lengths=(300, 1700), rows=2000, heads=8, size=64),
}
FAULTS = (
    "through float8_e4m3fn saturating",
    "truncated",
    "slot+1",
    "missing scale",
    "negated",
    "zeros",
    "shuffled",
    "head+1 missing scale",
    "slot+1 through float8_e5m2 saturating",
    "slot+1 inverted through float8_e5m2 saturating",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    repeat = parser.parse_args().repeat
    torch.set_num_threads(1)
    columns = f"{'elements':>9} {'ms':>8} {'hypotheses':>10} {'a second':>9}"
    print(f"{'fault':<47} {'size':<7} {columns}  named")
    for fault in FAULTS:
        for size, case in SIZES.items():
            print(row(fault, size, evidence(case, fault), repeat))


def evidence(case: Paged, fault: str) -> Evidence:
    output, expected = gather(case, fault), case.expected()
    values = read_output(output, expected.fmt)
    return gather_evidence(output, values, expected, ~right_elements(values, expected))


def row(fault: str, size: str, given: Evidence, repeat: int) -> str:
    named = explain(given)  # the first call fills the caches
    start = time.thread_time()
    for _ in range(repeat):
        explain(given)
    seconds = (time.thread_time() - start) / repeat
    hypotheses = Hypotheses.about(given)
    tried = len(hypotheses.with_mistakes(1))
    if named is None or "+" in named.key:
        tried += len(hypotheses.with_mistakes(2))
    numbers = (
        f"{given.truth.numel():>9,} {1e3 * seconds:>8.2f} {tried:>10} {tried / seconds:>9,.0f}"
    )
    return f"{fault:<47} {size:<7} {numbers}  {named.key if named else '-'}"


if __name__ == "__main__":
    main()
