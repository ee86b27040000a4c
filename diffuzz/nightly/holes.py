"""Holes in the case space: pairs of values that no case has had together so far.

Numbers count by their range between boundaries, lists by length and items, as in a report's
coverage. A pair is kept as a digest: there are thousands, and only whether one is new matters.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import combinations

from diffuzz.case import Axis, Case
from diffuzz.report.pictures import coverage


def pairs(case: Case, axes: Sequence[Axis]) -> set[str]:
    """Digests of all pairs of values of two axes that the case has."""
    found = []
    for axis in coverage([case], axes)["axes"]:
        for part in axis["parts"]:
            found += [
                (axis["name"], f"{axis['name']}.{part['of']}={row['value']}")
                for row in part["values"]
                if row["count"]
            ]
    return {
        hashlib.sha256(f"{one[1]}&{other[1]}".encode()).hexdigest()[:8]
        for one, other in combinations(found, 2)
        if one[0] != other[0]
    }


def covered(cases: Iterable[Case], axes: Sequence[Axis]) -> set[str]:
    """The pairs that some of the cases has."""
    found: set[str] = set()
    for case in cases:
        found |= pairs(case, axes)
    return found


def fill(
    pool: Sequence[Case], axes: Sequence[Axis], known: Iterable[str], count: int
) -> list[Case]:
    """Up to ``count`` cases of ``pool``, each the one with most pairs that are new by then; cases
    that bring nothing new are left out."""
    done = set(known)
    left = [(case, pairs(case, axes)) for case in pool]
    chosen: list[Case] = []
    while left and len(chosen) < count:
        best = max(range(len(left)), key=lambda index: len(left[index][1] - done))
        case, brings = left.pop(best)
        if not brings - done:
            break
        done |= brings
        chosen.append(case)
    return chosen
