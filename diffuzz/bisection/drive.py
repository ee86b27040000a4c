"""Running a search: stored observations first, then the probe.

A search is a generator that yields the index to look at and is sent what was seen. It keeps no
other state, so feeding it the same observations leads to the same place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from diffuzz.bisection.answers import Answer, Seen, in_time_order
from diffuzz.finding import Direction

Observation = Seen | float
Log = list[tuple[int, Observation]]
"""What was seen, oldest first: (index in order of time, observation)."""

O = TypeVar("O", Seen, Observation)  # noqa: E741 - the usual name of an observation here
Steps = Generator[int, O, Answer]


class _Stored:
    """Stored observations, given out per variant in the order they were made.

    Going by variant and not by position keeps a log useful whatever path wrote it.
    """

    def __init__(self, log: Iterable[tuple[int, Observation]]) -> None:
        self._left: dict[int, deque[Observation]] = {}
        for index, observation in log:
            self._left.setdefault(index, deque()).append(observation)

    def take(self, index: int) -> Observation | None:
        left = self._left.get(index)
        return left.popleft() if left else None


def drive(
    steps: Steps[O],
    n: int,
    direction: Direction,
    probe: Callable[[int], O],
    log: Iterable[tuple[int, O]] = (),
    record: Callable[[int, O], None] | None = None,
) -> Answer:
    """Run ``steps`` (index 0 is the good end) over variants in order of time.

    Observations in ``log`` are used before ``probe`` is asked; ``record`` is called with each new
    one, before anything is concluded from it, so what it stores is the ``log`` to resume from.
    """
    if direction is Direction.BOTH:
        raise ValueError("a search needs a good end and a bad one: REGRESSION or FIXED")
    stored = _Stored(log)
    try:
        at = next(steps)
        while True:
            index = at if direction is Direction.REGRESSION else n - 1 - at
            seen = stored.take(index)
            if seen is None:
                seen = probe(index)
                if record is not None:
                    record(index, seen)
            at = steps.send(seen)  # type: ignore[arg-type]  # a log holds what its probe gave
    except StopIteration as end:
        answer: Answer = end.value
        return in_time_order(answer, n, direction)


class _Asked(Exception):
    def __init__(self, index: int) -> None:
        self.index = index


def next_probe(
    steps: Steps[O], n: int, direction: Direction, log: Iterable[tuple[int, O]]
) -> int | Answer:
    """What a search would look at next given ``log``, or its answer: for callers with a loop of
    their own. ``steps`` is a fresh generator (:func:`search_steps`, :func:`size_steps`)."""

    def ask(index: int) -> O:
        raise _Asked(index)

    try:
        return drive(steps, n, direction, ask, log)
    except _Asked as asked:
        return asked.index
