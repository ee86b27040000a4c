"""Which definitions inside the culprit carry the change: each is put back to what it was in the
parent, alone and together with others, and the result is sliced and judged like any revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from diffuzz.bisect.finding import Bisected
from diffuzz.bisect.reverting import Reverting, Unit, changed_units
from diffuzz.bisection import Culprit, Seen
from diffuzz.history import Cut
from diffuzz.planning import Piece, cut
from diffuzz.slicing import Missing
from diffuzz.verdicts import Judge

MOST_UNITS = 24


def blame(found: Bisected, judge: Judge) -> dict[str, Any] | None:
    """What was reverted, what that showed and who carries the change, as data for the report.

    None where there is nothing to take apart: no culprit, or one whose parent or child has no
    code to compare with.
    """
    answer, repository = found.answer, found.row.repository
    if not isinstance(answer, Culprit) or repository is None:
        return None
    older, newer = (found.variants[i] for i in (answer.index - 1, answer.index))
    if older.reason is not None or newer.reason is not None or newer.commit is None:
        return None
    pieces = (older.cut, newer.cut)
    if isinstance(pieces[0], Missing) or isinstance(pieces[1], Missing):
        return None
    sources = (
        repository.source(repository.parents(newer.commit)[0]),
        repository.source(newer.commit),
    )
    reverting = Reverting(*sources, (pieces[0].slice, pieces[1].slice))
    native = [dict(p.closure.files) if p.closure else {} for p in (pieces[0], pieces[1])]
    units = changed_units(pieces[0].slice, pieces[1].slice, native)
    wanted = Seen.GOOD if answer.index == answer.first_bad else Seen.BAD
    return _Blame(found, judge, reverting, units, wanted).data()


class _Blame:
    def __init__(
        self,
        found: Bisected,
        judge: Judge,
        reverting: Reverting,
        units: Sequence[Unit],
        wanted: Seen,
    ) -> None:
        self.found = found
        self.judge = judge
        self.reverting = reverting
        self.units = units
        self.wanted = wanted
        self.tried: dict[tuple[Unit, ...], dict[str, Any]] = {}

    def data(self) -> dict[str, Any]:
        text, carriers = self._carriers()
        return {
            "text": text,
            "carriers": [f"{u.name} ({self.reverting.line(u)})" for u in carriers],
            "changed": [unit.name for unit in self.units],
            "tried": list(self.tried.values()),
        }

    def _carriers(self) -> tuple[str, Sequence[Unit]]:
        units, count = self.units, len(self.units)
        if not units:
            return "no definition changed, only how they are bound or what stands in for them", ()
        if count > MOST_UNITS:
            return f"{count} definitions changed, too many to take apart", ()
        alone = [unit for unit in units if self._undoes((unit,))]
        if len(alone) == 1:
            others = f" ({count} changed)" if count > 1 else ", the only one that changed,"
            return f"putting back this one definition alone{others} undoes the change", alone
        if alone:
            return "putting back any one of these alone undoes the change", alone
        if not self._undoes(tuple(units)):
            why = self.tried[tuple(units)]["why"]
            return (
                f"putting back all {count} changed definitions does not undo the change: {why}",
                (),
            )
        together = self._least(list(units))
        return "cannot separate these: put back together they undo the change", together

    def _least(self, units: list[Unit]) -> list[Unit]:
        """Leave out one after the other as long as the rest undoes the change."""
        for unit in list(units):
            rest = [other for other in units if other is not unit]
            if rest and self._undoes(tuple(rest)):
                units = rest
        return units

    def _undoes(self, units: tuple[Unit, ...]) -> bool:
        if units not in self.tried:
            seen, why = self._look(units)
            self.tried[units] = {
                "reverted": [unit.name for unit in units],
                "seen": seen.value if seen is not Seen.SKIP else "unknown",
                "why": why or seen.value,
            }
        return bool(self.tried[units]["seen"] == self.wanted.value)

    def _look(self, units: tuple[Unit, ...]) -> tuple[Seen, str]:
        try:
            piece: Cut = cut(self.reverting.without(units), self.judge.target, self.judge.arch)
        except ValueError as error:
            return Seen.SKIP, str(error)
        if isinstance(piece, Missing):
            return Seen.SKIP, piece.reason
        return self._seen(piece)

    def _seen(self, piece: Piece) -> tuple[Seen, str]:
        judged = self.judge.judge(piece, self.found.question.case)
        if not self.found.sized:
            look = self.found.question.look(judged)
            return look.seen, look.why
        size, answer = self.found.question.size(judged), self.found.answer
        assert isinstance(answer, Culprit)
        if isinstance(size, Seen) or answer.good_size is None or answer.bad_size is None:
            return Seen.SKIP, "the error has no size"
        middle = (max(answer.good_size, 1e-6) * max(answer.bad_size, 1e-6)) ** 0.5
        return (Seen.BAD if size > middle else Seen.GOOD), f"{size:.4g} ulp rms"
