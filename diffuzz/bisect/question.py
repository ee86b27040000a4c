"""What is asked of every variant: does it show the finding's own mistake on the finding's case?"""

from __future__ import annotations

import math
from dataclasses import dataclass

from diffuzz.bisection import Seen
from diffuzz.case import Case
from diffuzz.corpus import stored_signature
from diffuzz.finding import Defect, Judged, Measure
from diffuzz.verdicts import mistake

_LESS_PRECISE = ":less-precise"
_RUN = "run"  # the aspect of a defect of the run as a whole


@dataclass(frozen=True)
class Look:
    """What one verdict answers. ``why`` says why nothing can be told."""

    seen: Seen
    why: str = ""
    defect: Defect | None = None


@dataclass(frozen=True)
class Question:
    """A case and the mistake looked for; ``signature`` as a finding or corpus file has it."""

    case: Case
    signature: str

    @property
    def mistake(self) -> str:
        """The signature as findings have it; one that is folded already stays as it is."""
        return mistake(self.signature) if self.signature.count(":") > 1 else self.signature

    @property
    def precision(self) -> bool:
        return self.signature.startswith("precision:")

    @property
    def relative(self) -> bool:
        """Whether the mistake shows only next to another revision (one is less precise than the
        other, both within their error model), so that only the error's size can be searched."""
        return self.signature.endswith(_LESS_PRECISE)

    def look(self, judged: Judged) -> Look:
        """Bad is the same mistake. Another failure tells nothing of this one, but where this one
        is how a run ends or what an executor reports, and the run came back without it."""
        if judged.unknown is not None:
            return Look(Seen.SKIP, judged.unknown)
        wanted = stored_signature(self.mistake)
        for defect in judged.defects:
            if stored_signature(mistake(defect.signature)) == wanted:
                return Look(Seen.BAD, defect=defect)
        if judged.defects and not (self._of_the_run and _came_back(judged)):
            other = judged.defects[0]
            return Look(Seen.SKIP, f"another failure: {mistake(other.signature)}", other)
        return Look(Seen.GOOD)

    @property
    def _of_the_run(self) -> bool:
        return self.signature.split(":")[1:2] == [_RUN]

    def size(self, judged: Judged) -> float | Seen:
        """The error's size for a search by size: the largest rms error in ulp of an output."""
        look = self.look(judged)
        if look.seen is Seen.SKIP:
            return Seen.SKIP
        return max((m.rms_ulp for m in judged.measures.values()), default=0.0)


def _came_back(judged: Judged) -> bool:
    from diffuzz.oracles.sanity import ran  # brings torch, which what is remembered needs not

    return ran(judged)


def worst(judged: Judged) -> Measure | None:
    """The measure of the output that is furthest from the truth."""

    def size(measure: Measure) -> float:
        return math.inf if math.isnan(measure.max_ulp) else measure.max_ulp

    return max(judged.measures.values(), key=size, default=None)
