"""SARIF 2.1.0 (OASIS, errata 01): findings at vLLM's file and line, for code scanning.

One rule for each kind of finding. The direction decides the level (regression: error, in both:
warning, fixed: note) and the ``baselineState`` (new, unchanged, absent). What could not be told is
a notification of the run, so that it is not lost.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from diffuzz.finding import Kind
from diffuzz.report.wording import clean, facts, is_known, notes, ordered, plural, revision

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {"regression": "error", "both": "warning", "fixed": "note"}
_STATES = {"regression": "new", "both": "unchanged", "fixed": "absent"}
_RULES = {
    Kind.ASSERTION: "A check in vLLM's own code refuses an input that it should take.",
    Kind.CRASH: "The process died while it ran the kernel.",
    Kind.HANG: "The kernel did not end within its time limit.",
    Kind.WRONG_RESULT: "The output is further from the float64 truth than its arithmetic costs.",
    Kind.PRECISION: "The output is the right value at too little precision or range.",
    Kind.NON_FINITE: "The output is NaN or infinite where the truth is not, or the reverse.",
    Kind.OUT_OF_BOUNDS: "The kernel reads or writes outside of a tensor.",
    Kind.RACE: "Programs of one launch touch the same element without order.",
    Kind.NONDETERMINISM: "The same input gives different outputs.",
    Kind.COMPILE: "The compiler refuses the kernel for this architecture.",
}


def sarif(report: dict[str, Any]) -> str:
    """The log as JSON text."""
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _run(report: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind.value for kind in Kind]
    return {
        "tool": {
            "driver": {
                "name": "diffuzz",
                "semanticVersion": clean(report["environment"]["diffuzz"]),
                "rules": [_rule(kind) for kind in Kind],
            }
        },
        "automationDetails": {"id": f"diffuzz/{_hash(*_scope(report))}/"},
        "invocations": [_invocation(report)],
        "originalUriBaseIds": {
            "SRCROOT": {"description": {"text": "vLLM's source at the revision"}}
        },
        "results": [_result(item, kinds) for item in ordered(report["findings"])],
        "properties": {
            "baseline": revision(report["baseline"]),
            "candidate": revision(report["candidate"]),
            "seed": report["seed"],
        },
    }


def _scope(report: dict[str, Any]) -> list[str]:
    """What was tested, whatever came of it: runs of equal scope are comparable."""
    return sorted({f"{item['name']} {item['arch']}" for item in report["targets"]})


def _rule(kind: Kind) -> dict[str, Any]:
    return {
        "id": kind.value,
        "name": "".join(part.capitalize() for part in kind.value.split("-")),
        "shortDescription": {"text": _RULES[kind]},
        "fullDescription": {"text": _RULES[kind]},
        "help": {
            "text": "Run the reproduce command of the finding; it exits with 1 while the kernel "
            "is wrong and with 0 once it is right."
        },
        "defaultConfiguration": {"level": "error"},
        "properties": {"tags": ["correctness"]},
    }


def _invocation(report: dict[str, Any]) -> dict[str, Any]:
    judged = sum(
        item["verdicts"]["agree"] + item["verdicts"]["differ"] for item in report["targets"]
    )
    invocation: dict[str, Any] = {
        "executionSuccessful": judged > 0,
        "toolExecutionNotifications": [
            _notification(item, reason, count)
            for item in report["targets"]
            for reason, count in item["unknown_reasons"].items()
        ]
        + [_note(item, note) for item, note in notes(report)],
    }
    started = _utc(report["started"])
    if started is not None:
        invocation["startTimeUtc"] = started
    return invocation


def _utc(text: str) -> str | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _notification(item: dict[str, Any], reason: str, count: int) -> dict[str, Any]:
    what = plural(count, "case") if item["cases"] else "not tested"
    text = clean(f"could not tell: {item['name']} on {item['arch']}: {what}: {reason}")
    return {"level": "warning", "message": {"text": text}}


def _note(item: dict[str, Any], note: str) -> dict[str, Any]:
    text = clean(f"{item['name']} on {item['arch']}: {note}")
    return {"level": "note", "message": {"text": text}}


def _suppressions(finding: dict[str, Any]) -> list[dict[str, Any]]:
    """A finding that the corpus has as known is shown, but asks nobody to act."""
    if not is_known(finding):
        return []
    return [{"kind": "external", "justification": clean(finding["known"]["text"])}]


def _result(finding: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
    direction, kind = finding["direction"], finding["kind"]
    signature = clean(finding["signature"])
    head = f"{finding['target']} on {finding['arch']}: {finding['message']}"
    lines = [clean(head, 2000), *(f"{label}: {text}" for label, text in facts(finding))]
    identity = _hash(finding["target"], finding["arch"], finding["signature"])
    return {
        "ruleId": kind,
        "ruleIndex": kinds.index(kind),
        "kind": "fail",
        "level": _LEVELS[direction],
        "baselineState": _STATES[direction],
        "message": {"text": "\n".join(lines)},
        "suppressions": _suppressions(finding),
        "locations": _locations(finding["location"]),
        "occurrenceCount": max(1, finding["cases_hit"]),
        # The second is the name under which GitHub tracks a result while lines move.
        "partialFingerprints": {
            "diffuzzSignature/v1": signature,
            "primaryLocationLineHash": f"{identity}:1",
        },
        "properties": {
            "id": clean(finding["id"]),
            "direction": direction,
            "target": clean(finding["target"]),
            "arch": clean(finding["arch"]),
            "executor": clean(finding["executor"]),
            "case": _cleaned(finding["case"]),
            "measure": _cleaned(finding["measure"]),
        },
    }


def _locations(place: dict[str, Any] | None) -> list[dict[str, Any]]:
    uri = "" if place is None else _uri(place["file"])
    if place is None or not uri:
        return []
    found: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": uri, "uriBaseId": "SRCROOT"},
            "region": {"startLine": max(1, place["line"])},
        }
    }
    if place.get("function"):
        found["logicalLocations"] = [{"name": clean(place["function"]), "kind": "function"}]
    return [found]


def _uri(path: str) -> str:
    """A relative URI reference: never absolute, never out of the source tree."""
    parts = [part for part in clean(path).replace("\\", "/").split("/") if part not in ("", ".")]
    return "/".join(quote(part, safe="") for part in parts if part != "..")


def _cleaned(item: Any) -> Any:
    if isinstance(item, dict):
        return {clean(key): _cleaned(part) for key, part in item.items()}
    if isinstance(item, list):
        return [_cleaned(part) for part in item]
    if isinstance(item, float) and (item != item or abs(item) == float("inf")):
        return str(item)
    return clean(item) if isinstance(item, str) else item


def _hash(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]
