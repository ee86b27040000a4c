"""What a search can answer. Indices are in order of time, 0 the oldest variant."""

from __future__ import annotations

import enum
from dataclasses import dataclass, fields, replace

from diffuzz.finding import Direction


class Seen(str, enum.Enum):
    """One look at one variant. ``SKIP``: nothing could be told (it does not build, say)."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


@dataclass(frozen=True)
class Evidence:
    """All that was seen of one variant. ``size`` is the median error in a search by size."""

    index: int
    good: int = 0
    bad: int = 0
    skip: int = 0
    size: float | None = None


@dataclass(frozen=True)
class Transition:
    """A change of behaviour between two tested variants with no tested one between them.

    Where ``first - last`` is more than 1, the variants between could not be told.
    """

    last: int
    first: int
    was: Seen | float
    now: Seen | float

    def __str__(self) -> str:
        was, now = (v.value if isinstance(v, Seen) else f"{v:.4g}" for v in (self.was, self.now))
        return f"{self.last} {was} -> {self.first} {now}"


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a culprit and a range have in common."""

    direction: Direction
    confidence: float
    tested: tuple[int, ...]
    transitions: tuple[Transition, ...]
    evidence: tuple[Evidence, ...]
    notes: tuple[str, ...] = ()
    good_size: float | None = None
    bad_size: float | None = None

    @property
    def monotone(self) -> bool:
        """False when the tested history changes more than once, such as good, bad, good."""
        return len(self.transitions) <= 1

    @property
    def runs(self) -> int:
        """Observations used, skips included."""
        return sum(e.good + e.bad + e.skip for e in self.evidence)


@dataclass(frozen=True, kw_only=True)
class Culprit(Found):
    """The variant that changed the behaviour.

    ``index`` is the first variant with the new behaviour: the first bad one, or for
    ``Direction.FIXED`` the first good one. ``confidence`` is the posterior probability that it is
    this one. ``good_size`` and ``bad_size`` are error sizes on its two sides (search by size only).
    """

    index: int
    last_good: int
    first_bad: int

    @property
    def parent(self) -> int:
        """The variant just before ``index``."""
        return self.index - 1


@dataclass(frozen=True, kw_only=True)
class Range(Found):
    """The change lies after the older of ``good`` and ``bad``, up to and including the newer one.

    ``untested`` are the variants strictly between, which could not be told or were not tried;
    ``why`` says which.
    """

    good: int
    bad: int
    untested: tuple[int, ...]
    why: str

    def narrowed(self) -> Range | Culprit:
        """The culprit, when the two sides are neighbours and the good one is the older."""
        if self.untested:
            return self
        common = {f.name: getattr(self, f.name) for f in fields(Found)}
        return Culprit(**common, index=self.bad, last_good=self.good, first_bad=self.bad)


@dataclass(frozen=True)
class NoDifference:
    """There is nothing to find between the ends."""

    why: str
    evidence: tuple[Evidence, ...] = ()


@dataclass(frozen=True)
class BadEnds:
    """An end is not as claimed. ``which``: ``good``, ``bad``, or ``both`` (they are swapped).

    ``good_end`` and ``bad_end`` say what was seen there; None where it was not looked at.
    """

    which: str
    why: str
    good_end: Seen | None
    bad_end: Seen | None
    evidence: tuple[Evidence, ...] = ()

    @property
    def unknown(self) -> bool:
        """True when an end could not be told at all, which is not the same as being wrong."""
        return Seen.SKIP in (self.good_end, self.bad_end)

    @property
    def same(self) -> bool:
        """True when the behaviour is known at both ends and does not differ."""
        return not self.unknown and self.good_end is not None and self.good_end is self.bad_end


Answer = Culprit | Range | NoDifference | BadEnds


def in_time_order(answer: Answer, n: int, direction: Direction) -> Answer:
    """Translate an answer whose index 0 is the good end and ``n - 1`` the bad end."""
    if direction is Direction.REGRESSION:
        return answer
    evidence = tuple(replace(e, index=n - 1 - e.index) for e in reversed(answer.evidence))
    if isinstance(answer, (NoDifference, BadEnds)):
        return replace(answer, evidence=evidence)
    tested = tuple(n - 1 - i for i in reversed(answer.tested))
    transitions = tuple(
        Transition(n - 1 - t.first, n - 1 - t.last, t.now, t.was)
        for t in reversed(answer.transitions)
    )
    turned = replace(
        answer, direction=direction, tested=tested, transitions=transitions, evidence=evidence
    )
    if isinstance(turned, Range):
        untested = tuple(n - 1 - i for i in reversed(turned.untested))
        return replace(turned, good=n - 1 - turned.good, bad=n - 1 - turned.bad, untested=untested)
    good, bad = n - 1 - turned.last_good, n - 1 - turned.first_bad
    return replace(turned, index=good, last_good=good, first_bad=bad)
