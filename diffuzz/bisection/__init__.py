"""Which of an ordered row of variants changed the behaviour, told apart by probing some of them.

A *variant* is a number, 0 for the oldest; many commits may share one. The caller says what a
variant does (``probe``), this package says which to look at next and when enough is known. It
knows nothing of revisions, kernels or files, so a search over thousands of variants is tested in
microseconds.

* :func:`search`: the behaviour is good, bad, or cannot be told (:class:`Seen`), possibly unsteady.
* :func:`search_size`: the behaviour is an error's size, and the answer is where it changed.

Both are pure functions of what was observed: hand the stored observations of a killed search
back as ``log`` and it goes on where it was, to the same answer.
"""

from diffuzz.bisection.answers import (
    Answer,
    BadEnds,
    Culprit,
    Evidence,
    NoDifference,
    Range,
    Seen,
    Transition,
)
from diffuzz.bisection.belief import RatePrior
from diffuzz.bisection.doubt import Plan
from diffuzz.bisection.drive import Log, next_probe
from diffuzz.bisection.search import search, search_steps
from diffuzz.bisection.size import SizePlan, search_size, size_steps

__all__ = [
    "Answer",
    "BadEnds",
    "Culprit",
    "Evidence",
    "Log",
    "NoDifference",
    "Plan",
    "Range",
    "RatePrior",
    "Seen",
    "SizePlan",
    "Transition",
    "next_probe",
    "search",
    "search_size",
    "search_steps",
    "size_steps",
]
