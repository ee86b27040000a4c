"""``diffuzz timeline``: cases on every variant of a kernel, and where their verdicts change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diffuzz.case import Case
from diffuzz.finding import Judged, Measure
from diffuzz.history import History, Variant
from diffuzz.report.data import measure
from diffuzz.slicing import Missing
from diffuzz.verdicts import Judge, mistake

SCHEMA = 1
RIGHT, WRONG, UNKNOWN = "right", "wrong", "unknown"
# Errors whose sizes differ by less are taken for the same in a list of changes.
_STEP = 1.25
_FLOOR = 2.0**-6


@dataclass(frozen=True)
class Cell:
    """One case on one variant. ``what`` names the mistakes, or why nothing can be told."""

    word: str
    what: tuple[str, ...] = ()
    message: str = ""
    measure: Measure | None = None

    @property
    def max_ulp(self) -> float | None:
        return None if self.measure is None else self.measure.max_ulp


@dataclass(frozen=True)
class Change:
    """Case ``case`` says something else on variant ``to`` than on ``since``, its parent."""

    case: int
    since: int
    to: int


@dataclass(frozen=True)
class Timeline:
    """``cells[v][c]`` is case ``c`` on variant ``v``; ``names`` are what cases are called."""

    history: History
    names: tuple[str, ...]
    cases: tuple[Case, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def changes(self) -> list[Change]:
        """Every change of verdict, oldest first: another word, other mistakes, or wrong by a
        different amount."""
        found = []
        for index, variant in enumerate(self.history.variants):
            for parent in variant.parents:
                for case in range(len(self.cases)):
                    if _differ(self.cells[parent][case], self.cells[index][case]):
                        found.append(Change(case, parent, index))
        return found


def timeline(
    history: History,
    named: Sequence[tuple[str, Case]],
    judge: Judge,
    count: Callable[[], None] = lambda: None,
) -> Timeline:
    """Judge every case on every variant; equal slices are judged once. ``count`` is called after
    each verdict."""
    cells = []
    done: dict[str, tuple[Cell, ...]] = {}
    for variant in history.variants:
        if variant.key not in done:
            done[variant.key] = tuple(_cell(variant, case, judge, count) for _, case in named)
        cells.append(done[variant.key])
    return Timeline(
        history,
        tuple(name for name, _ in named),
        tuple(case for _, case in named),
        tuple(cells),
    )


def _cell(variant: Variant, case: Case, judge: Judge, count: Callable[[], None]) -> Cell:
    count()
    if variant.reason is not None:
        return Cell(UNKNOWN, (variant.reason,))
    judged = judge.recall(variant.key, case)
    if judged is None:
        piece = variant.cut
        assert not isinstance(piece, Missing)
        judged = judge.run(piece, case)
    return seen(judged)


def seen(judged: Judged) -> Cell:
    """A verdict as a cell."""
    if judged.unknown is not None:
        return Cell(UNKNOWN, (judged.unknown,))
    size = max(judged.measures.values(), key=lambda m: _size(m.max_ulp), default=None)
    if not judged.defects:
        return Cell(RIGHT, measure=size)
    mistakes = tuple(sorted({mistake(defect.signature) for defect in judged.defects}))
    return Cell(WRONG, mistakes, judged.defects[0].message, size)


def _size(value: float) -> float:
    return 2.0**100 if value != value else max(value, _FLOOR)


def _differ(one: Cell, other: Cell) -> bool:
    if (one.word, one.what) != (other.word, other.what):
        return True
    if one.word != WRONG:
        return False
    if one.max_ulp is None or other.max_ulp is None:
        return one.max_ulp != other.max_ulp
    sizes = sorted((_size(one.max_ulp), _size(other.max_ulp)))
    return sizes[1] >= sizes[0] * _STEP


def data(found: Timeline) -> dict[str, Any]:
    """The part of the JSON that the judging makes: variants, cases, transitions."""
    variants = found.history.variants
    return {
        "revisions": found.history.revisions,
        "distinct_slices": found.history.distinct,
        "notes": list(found.history.notes),
        "cases": [
            {"name": name, "id": case.id, "seed": case.seed, "values": case.to_dict()["values"]}
            for name, case in zip(found.names, found.cases, strict=True)
        ],
        "variants": [
            {
                **variant.revision_data(),
                "slice": variant.hash,
                "reason": variant.reason,
                "spans": variant.spans,
                "parents": list(variant.parents),
                "verdicts": [_cell_data(cell) for cell in found.cells[index]],
            }
            for index, variant in enumerate(variants)
        ],
        "transitions": [
            {
                **variants[change.to].revision_data(),
                "case": found.names[change.case],
                "was": _cell_data(found.cells[change.since][change.case]),
                "now": _cell_data(found.cells[change.to][change.case]),
            }
            for change in found.changes()
        ],
    }


def _cell_data(cell: Cell) -> dict[str, Any]:
    return {
        "verdict": cell.word,
        "what": list(cell.what),
        "message": cell.message,
        "measure": measure(cell.measure),
    }
