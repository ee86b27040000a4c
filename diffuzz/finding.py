"""What judging says: verdicts, defects and findings."""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field
from typing import Any

from diffuzz.case import Case
from diffuzz.outcome import Location


class Verdict(str, enum.Enum):
    """What can be said of one case on two revisions.

    ``AGREE``: both right. ``DIFFER``: at least one is wrong, or they differ beyond what their
    error model allows. ``UNKNOWN``: could not tell; never counted as a pass.
    """

    AGREE = "agree"
    DIFFER = "differ"
    UNKNOWN = "unknown"


class Kind(str, enum.Enum):
    """The kind of a finding."""

    ASSERTION = "assertion"
    CRASH = "crash"
    HANG = "hang"
    WRONG_RESULT = "wrong-result"
    PRECISION = "precision"
    NON_FINITE = "non-finite"
    OUT_OF_BOUNDS = "out-of-bounds"
    RACE = "race"
    NONDETERMINISM = "nondeterminism"
    COMPILE = "compile"


class Direction(str, enum.Enum):
    """``REGRESSION``: baseline right, candidate wrong. ``FIXED``: the reverse. ``BOTH``: a latent
    bug, wrong in both (or wrong in one where the other could not show it)."""

    REGRESSION = "regression"
    FIXED = "fixed"
    BOTH = "both"


@dataclass(frozen=True)
class Measure:
    """How wrong an output is, in units of its own format.

    ``max_ulp`` and ``rms_ulp`` are distances from the float64 truth in ulps of the output format,
    ``max_rel`` the largest relative error, ``wrong`` and ``total`` count elements outside and
    inside the error model, ``first`` is the index of the first wrong one.
    """

    max_ulp: float = 0.0
    rms_ulp: float = 0.0
    max_rel: float = 0.0
    wrong: int = 0
    total: int = 0
    first: tuple[int, ...] | None = None
    expected: float | None = None
    actual: float | None = None


@dataclass(frozen=True)
class Explanation:
    """A hypothesis that reproduces a wrong output: ``share`` of the wrong elements, in [0, 1].

    ``certain`` is False when the case's data cannot tell it from a rival hypothesis.
    """

    hypothesis: str
    text: str
    share: float
    narrows: bool = False  # right value at too little precision or range: a precision defect
    certain: bool = True


@dataclass(frozen=True)
class Defect:
    """One thing that is wrong with one revision on one case.

    ``aspect`` is what was judged: the name of an output, or ``run`` for the run as a whole.
    ``signature`` identifies the defect across cases, seeds and line moves.
    """

    kind: Kind
    aspect: str
    signature: str
    message: str
    measure: Measure | None = None
    explanation: Explanation | None = None
    location: Location | None = None


@dataclass(frozen=True)
class Judged:
    """One revision on one case: ``unknown`` set, or the aspects that were right and the defects."""

    right: frozenset[str] = frozenset()
    defects: tuple[Defect, ...] = ()
    unknown: str | None = None
    measures: dict[str, Measure] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A defect with its direction, on the case that shows it: what a user reads and keeps.

    ``follows`` is the id of a more telling finding that (nearly) all of this one's cases show
    too, such as the out-of-bounds access behind a wrong result. ``extra`` holds what later steps
    add for reports, such as how it was shrunk.
    """

    defect: Defect
    direction: Direction
    case: Case
    arch: str
    executor: str
    baseline_measure: Measure | None = None
    candidate_measure: Measure | None = None
    reach: tuple[str, ...] = ()
    cases_hit: int = 1
    follows: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Names the finding in files and reports: derived from target, direction, signature."""
        text = f"{self.case.target}\n{self.direction.value}\n{self.defect.signature}\n{self.arch}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{self.case.target}-{self.defect.kind.value}-{digest}"
