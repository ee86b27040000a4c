"""A culprit that is a merge: which commit of the merged branch brought the change?"""

from __future__ import annotations

from diffuzz.bisect.finding import Bisected, search_row
from diffuzz.bisect.row import Row
from diffuzz.bisection import Culprit
from diffuzz.finding import Direction
from diffuzz.history import history
from diffuzz.verdicts import Judge


def inside(found: Bisected, judge: Judge, *, fresh: bool = False) -> tuple[Bisected, str] | None:
    """The search of the branch that the culprit merged, from where it began to its tip, and what
    to say of it. None where the culprit is no merge, or none of its branches shows the change by
    itself (then the merge made it)."""
    answer, repository = found.answer, found.row.repository
    if not isinstance(answer, Culprit) or repository is None:
        return None
    merge = found.variants[answer.index].commit
    if merge is None:
        return None
    first, *others = [parent.sha for parent in repository.parents(merge)] or [""]
    for tip in others:
        base = repository.merge_base(first, tip)
        ends = (base, tip) if found.row.direction is Direction.REGRESSION else (tip, base)
        past = history(repository, base, tip, judge.target, judge.arch)
        row = Row(*ends, found.row.direction, past, repository, past.notes)
        deeper = search_row(row, found.question, judge, fresh=fresh)
        if isinstance(deeper.answer, Culprit):
            return deeper, f"it came to the line of first parents with the merge {merge.sha[:10]}"
    return None
