"""Bisecting a finding over a row of variants: look, search, check again in turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from diffuzz.bisect.log import Observation, ObservationLog, open_log
from diffuzz.bisect.question import Question
from diffuzz.bisect.row import Row
from diffuzz.bisection import (
    Answer,
    BadEnds,
    Culprit,
    NoDifference,
    Plan,
    Seen,
    SizePlan,
    search,
    search_size,
)
from diffuzz.finding import Direction, Judged
from diffuzz.history import Variant
from diffuzz.slicing import Missing
from diffuzz.verdicts import Judge

JUDGE_ALL = 32
# A behaviour that depends on the machine's mood shows it in this many runs of both sides.
_TURNS = 2
_ROUNDS = 3
_UNSTEADY_TURNS = 32


@dataclass(frozen=True)
class Bisected:
    """What a bisect came to. ``judged`` are all verdicts by variant index, the last ones first;
    ``sized`` says that the error's size was searched; ``turns`` counts the last check."""

    row: Row
    question: Question
    answer: Answer
    judged: dict[int, list[Judged]]
    sized: bool = False
    turns: Turns | None = None
    notes: tuple[str, ...] = ()

    @property
    def variants(self) -> tuple[Variant, ...]:
        return self.row.history.variants

    @property
    def tested(self) -> int:
        """Distinct slices that were judged."""
        return len({self.variants[i].hash for i, seen in self.judged.items() if seen} - {None})


@dataclass(frozen=True)
class Turns:
    """The last check: both sides of the change run in turns, each run in a fresh worker."""

    good: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)

    @property
    def confirms(self) -> bool:
        return self.good["bad"] == 0 and self.bad["bad"] > 0


def bisect_finding(
    row: Row, question: Question, judge: Judge, log: ObservationLog, plan: Plan | None = None
) -> Bisected:
    """Find the variant that changed the behaviour. Everything run is in ``log`` at once, so a
    call with the same log goes on where a killed one was."""
    return _Bisect(row, question, judge, log, plan or Plan(judge_all=JUDGE_ALL)).run()


def search_row(row: Row, question: Question, judge: Judge, *, fresh: bool = False) -> Bisected:
    """:func:`bisect_finding` with the log on disk that belongs to these inputs; ``fresh`` forgets
    what that says."""
    inputs = {
        **judge.identity,
        "case": question.case.id,
        "signature": question.signature,
        "direction": row.direction.value,
        "variants": [variant.key for variant in row.history.variants],
    }
    with open_log(inputs, fresh=fresh) as log:
        judge.recalled += log.recalled
        return bisect_finding(row, question, judge, log)


class _Bisect:
    def __init__(
        self, row: Row, question: Question, judge: Judge, log: ObservationLog, plan: Plan
    ) -> None:
        self.row = row
        self.variants = row.history.variants
        self.question = question
        self.judge = judge
        self.log = log
        self.plan = plan
        self.used: Counter[int] = Counter()
        self.free = _without_code(row)

    def run(self) -> Bisected:
        wrong = self._aside()
        if wrong is not None:
            return Bisected(self.row, self.question, wrong, {}, notes=self.row.notes)
        for _ in range(_ROUNDS):
            answer, sized = self._search()
            turns = self._turns(answer, sized)
            if turns is None or turns.confirms:
                break
        if isinstance(answer, Culprit):
            assert self.variants[answer.index].key != self.variants[answer.parent].key
        return Bisected(
            self.row,
            self.question,
            answer,
            {i: self.log.of(v.key) for i, v in enumerate(self.variants)},
            sized,
            turns,
            self._notes(answer, turns, sized),
        )

    def _aside(self) -> BadEnds | None:
        """A claimed end that is on another branch is looked at by itself."""
        if self.row.aside is None:
            return None
        name, variant = self.row.aside
        good = name == self.row.good
        piece = variant.cut
        if isinstance(piece, Missing):
            seen, why = Seen.SKIP, piece.reason
        else:
            look = self.question.look(self.judge.judge(piece, self.question.case))
            seen, why = look.seen, look.why
        if seen is (Seen.GOOD if good else Seen.BAD) or (good and isinstance(piece, Missing)):
            return None
        which = "good" if good else "bad"
        said = f"{name} is {seen.value}" if seen is not Seen.SKIP else f"{name}: {why}"
        return BadEnds(which, said, seen if good else None, None if good else seen)

    # Searching

    def _search(self) -> tuple[Answer, bool]:
        skipped = [i for i, v in enumerate(self.variants) if v.hash is None and i not in self.free]
        self.used.clear()
        if not self.question.relative:
            answer = search(
                len(self.variants),
                lambda i: self._look(i),
                direction=self.row.direction,
                plan=self.plan,
                skipped=skipped,
            )
            if not (self.question.precision and isinstance(answer, BadEnds) and _both_bad(answer)):
                return answer, False
            sized = self._search_size(skipped)
            # Where the size says no more than the verdicts do, these are easier to read.
            return (answer, False) if isinstance(sized, (BadEnds, NoDifference)) else (sized, True)
        return self._search_size(skipped), True

    def _search_size(self, skipped: list[int]) -> Answer:
        self.used.clear()
        return search_size(
            len(self.variants),
            lambda i: self.question.size(self._next(i)),
            direction=self.row.direction,
            plan=SizePlan(judge_all=JUDGE_ALL),
            skipped=skipped + sorted(self.free),
        )

    def _look(self, index: int) -> Seen:
        if index in self.free:
            return Seen.GOOD
        return self.question.look(self._next(index)).seen

    def _next(self, index: int) -> Judged:
        """The next observation of a variant: what was seen before comes first."""
        variant = self.variants[index]
        seen = self.log.of(variant.key)
        place = self.used[index]
        self.used[index] += 1
        if place < len(seen):
            return seen[place]
        # What was remembered from elsewhere counts once: repeats are runs.
        judged = None if seen else self.judge.recall(variant.key, self.question.case)
        judged = judged or self._run(variant)
        self.log.add(Observation(variant.key, judged))
        return judged

    def _run(self, variant: Variant, *, fresh: bool = False) -> Judged:
        piece = variant.cut
        assert not isinstance(piece, Missing)
        assert piece.slice.hash == variant.key
        return self.judge.run(piece, self.question.case, fresh=fresh)

    # The last check

    def _turns(self, answer: Answer, sized: bool) -> Turns | None:
        if not isinstance(answer, Culprit) or sized:
            return None
        sides = (answer.last_good, answer.first_bad)
        turns = Turns()
        for number, side in enumerate(sides):
            name = self.variants[side].key
            for o in self.log.observations:
                if o.turn and o.variant == name:
                    (turns.good, turns.bad)[number][self.question.look(o.judged).seen.value] += 1
        wanted = _TURNS
        while min(self._told(turns.good, sides[0]), self._told(turns.bad, sides[1])) < wanted:
            for number, side in enumerate(sides):
                if side not in self.free:
                    seen = self._turn(self.variants[side])
                    (turns.good, turns.bad)[number][seen.value] += 1
            if turns.good["bad"] or turns.good["skip"] + turns.bad["skip"] > _TURNS:
                break
            if turns.bad["good"] and not turns.bad["bad"]:
                wanted = _UNSTEADY_TURNS
            elif turns.bad["bad"]:
                wanted = _TURNS
        return turns

    def _told(self, seen: Counter[str], side: int) -> int:
        return 1 << 30 if side in self.free else seen["good"] + seen["bad"]

    def _turn(self, variant: Variant) -> Seen:
        judged = self._run(variant, fresh=True)
        self.log.add(Observation(variant.key, judged, turn=True))
        return self.question.look(judged).seen

    # Words

    def _notes(self, answer: Answer, turns: Turns | None, sized: bool) -> tuple[str, ...]:
        notes = list(self.row.notes)
        if isinstance(answer, (BadEnds, NoDifference)):
            return tuple(notes)
        notes += answer.notes
        if isinstance(answer, Culprit):
            if answer.last_good in self.free:
                reason = self.variants[answer.last_good].reason
                side = "before" if answer.last_good < answer.first_bad else "after"
                notes.append(f"the code does not exist {side} this commit ({reason})")
            if turns is not None and not turns.confirms:
                notes.append("the last check, both sides in turns, does not confirm it")
        if not answer.monotone:
            notes.append(f"the behaviour changed {len(answer.transitions)} times in between")
        if sized:
            notes.append(
                "searched by the size of the error: pass and fail are the same at both ends"
            )
        return tuple(notes)


def _both_bad(answer: BadEnds) -> bool:
    return answer.same and answer.bad_end is Seen.BAD


def _without_code(row: Row) -> frozenset[int]:
    """Variants at the good end, and on from there, in which the code does not exist: what does
    not exist does not show the behaviour either."""
    indices = range(len(row.history.variants))
    found = set()
    for index in indices if row.direction is Direction.REGRESSION else reversed(indices):
        if not row.history.variants[index].absent:
            break
        found.add(index)
    return frozenset(found)


__all__ = ["Bisected", "Turns", "bisect_finding", "search_row"]
