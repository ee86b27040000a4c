"""What two judged revisions say together: defects with a direction, and the verdict."""

from __future__ import annotations

from diffuzz.finding import Defect, Direction, Judged, Kind, Verdict
from diffuzz.oracles.sanity import ABNORMAL, RUN, ran

# A precision defect whose rms error grew by more than this is a regression, not a latent bug.
MATERIALLY_WORSE = 2.0

Difference = tuple[Defect, Direction]


def compare(baseline: Judged, candidate: Judged) -> list[Difference]:
    """Give each defect its direction. Empty when either side is unknown: nothing can be said.

    A candidate's defect is ``both`` when the baseline has the same signature, is wrong on the
    same aspect in another way, or never came to show it; ``regression`` when the baseline was
    right there (or its run came back), or when both lose precision without the same explanation
    and the candidate loses materially more. A defect of the baseline alone is ``fixed`` when the
    candidate is right there, else ``both`` unless the candidate's own defect on that aspect
    already says so.
    """
    if baseline.unknown is not None or candidate.unknown is not None:
        return []
    differences = [(defect, _of_candidate(defect, baseline)) for defect in candidate.defects]
    covered = {defect.aspect for defect in candidate.defects}
    shared = {defect.signature for defect in candidate.defects}
    for defect in baseline.defects:
        if defect.signature in shared:
            continue
        if _right_on(candidate, defect):
            differences.append((defect, Direction.FIXED))
        elif defect.aspect not in covered:
            differences.append((defect, Direction.BOTH))
    return differences


def verdict(baseline: Judged, candidate: Judged, differences: list[Difference]) -> Verdict:
    """``differences`` are those of :func:`compare`, and of the agreement oracle where it ran."""
    if baseline.unknown is not None or candidate.unknown is not None:
        return Verdict.UNKNOWN
    if baseline.defects or candidate.defects or differences:
        return Verdict.DIFFER
    return Verdict.AGREE


def _of_candidate(defect: Defect, baseline: Judged) -> Direction:
    if _right_on(baseline, defect):
        return Direction.REGRESSION
    rivals = [d for d in baseline.defects if d.aspect == defect.aspect]
    if any(_lost_precision(rival, defect) for rival in rivals):
        return Direction.REGRESSION
    return Direction.BOTH


def _right_on(judged: Judged, defect: Defect) -> bool:
    """Whether a revision did right where the other has ``defect``."""
    if defect.aspect != RUN:
        return defect.aspect in judged.right
    if defect.kind in ABNORMAL:
        return ran(judged)
    return ran(judged) and not any(d.signature == defect.signature for d in judged.defects)


def _lost_precision(before: Defect, after: Defect) -> bool:
    if before.kind is not Kind.PRECISION or after.kind is not Kind.PRECISION:
        return False
    if before.measure is None or after.measure is None:
        return False
    if before.signature == after.signature and before.explanation is not None:
        return False
    return after.measure.rms_ulp > MATERIALLY_WORSE * before.measure.rms_ulp
