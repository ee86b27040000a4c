"""Judges how a run ended, before any output is looked at: aspect ``run``."""

from __future__ import annotations

from collections.abc import Iterable

from diffuzz.finding import Defect, Judged, Kind
from diffuzz.oracles.wording import normalise, signature
from diffuzz.outcome import (
    CompileFailed,
    Crashed,
    Location,
    Outcome,
    Raised,
    Report,
    Returned,
    TimedOut,
    Unsupported,
)

RUN = "run"

# A run that ends in one of these did not come back, so its outputs were never judged.
ABNORMAL = frozenset({Kind.ASSERTION, Kind.CRASH, Kind.HANG, Kind.COMPILE})

_MEMORY_ERRORS = frozenset({"MemoryError", "OutOfMemoryError"})
_UNINITIALISED = "uninitialised"


def judge_run(outcome: Outcome) -> Judged:
    """Judge the end of a run and its sanitizer reports.

    ``run`` is among the right aspects when the run came back without a report. Running out of
    memory is the machinery's trouble, hence unknown.
    """
    if isinstance(outcome, Returned):
        defects = tuple(report_defects(outcome.reports))
        return Judged(right=frozenset() if defects else frozenset({RUN}), defects=defects)
    if isinstance(outcome, Unsupported):
        return Judged(unknown=outcome.reason)
    if isinstance(outcome, Raised):
        if outcome.type.rpartition(".")[2] in _MEMORY_ERRORS:
            return Judged(unknown="out of memory")
        return Judged(defects=(_raised(outcome),))
    if isinstance(outcome, CompileFailed):
        what = _join(_function(outcome.location), normalise(outcome.message))
        return _one(Kind.COMPILE, what, f"does not compile: {outcome.message}", outcome.location)
    if isinstance(outcome, Crashed):
        tail = _last_line(outcome.log_tail)
        message = f"the process died: {outcome.how}" + (f" ({tail})" if tail else "")
        return _one(Kind.CRASH, normalise(outcome.how), message, None)
    if isinstance(outcome, TimedOut):
        return _one(Kind.HANG, "timeout", f"still running after {outcome.seconds:g} s", None)
    raise TypeError(f"{type(outcome).__name__} is not an outcome")


def report_defects(reports: Iterable[Report]) -> list[Defect]:
    """One defect for each distinct fault, in the order first seen."""
    found: dict[str, tuple[Defect, int]] = {}
    for report in reports:
        defect = _reported(report)
        first, count = found.get(defect.signature, (defect, 0))
        found[defect.signature] = (first, count + 1)
    return [_counted(defect, count) for defect, count in found.values()]


def ran(judged: Judged) -> bool:
    """Whether the run came back, whatever its outputs and reports."""
    return judged.unknown is None and not any(
        d.aspect == RUN and d.kind in ABNORMAL for d in judged.defects
    )


def _raised(outcome: Raised) -> Defect:
    kind = Kind.ASSERTION if outcome.is_assertion else Kind.CRASH
    said = outcome.message.strip() or outcome.source_line.strip()
    place = _place(outcome.location)
    what = _join(
        _function(outcome.location),
        "" if outcome.is_assertion else outcome.type,
        normalise(said),
    )
    message = f"{outcome.type}: {said}" if said else outcome.type
    return Defect(kind, RUN, signature(kind, RUN, what), message + place, location=outcome.location)


def _reported(report: Report) -> Defect:
    kind = Kind.WRONG_RESULT if report.kind == _UNINITIALISED else _kind(report.kind)
    function = _function(report.location)
    told = report.argument or normalise(report.message)
    prefix = _UNINITIALISED if report.kind == _UNINITIALISED else ""
    what = _join(prefix, function, told)
    argument = f" ({report.argument})" if report.argument else ""
    program = f", program {report.program}" if report.program is not None else ""
    message = f"{report.kind}{argument}: {report.message}{program}{_place(report.location)}"
    return Defect(kind, RUN, signature(kind, RUN, what), message, location=report.location)


def _kind(name: str) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        raise ValueError(f"an executor reported {name!r}, which is not a kind of finding") from None


def _counted(defect: Defect, count: int) -> Defect:
    if count == 1:
        return defect
    message = f"{defect.message} (and {count - 1} more like it)"
    return Defect(defect.kind, RUN, defect.signature, message, location=defect.location)


def _one(kind: Kind, what: str, message: str, location: Location | None) -> Judged:
    text = message + _place(location)
    return Judged(defects=(Defect(kind, RUN, signature(kind, RUN, what), text, location=location),))


def _place(location: Location | None) -> str:
    return f" at {location}" if location else ""


def _function(location: Location | None) -> str:
    return location.function if location else ""


def _join(*parts: str) -> str:
    return ":".join(part for part in parts if part) or "unnamed"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
