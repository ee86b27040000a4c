"""Known findings, looked at again: still there, gone, gone and come back, or not to be seen."""

from __future__ import annotations

from diffuzz.bisect.question import Question
from diffuzz.errors import CaseError
from diffuzz.nightly import asking
from diffuzz.nightly.join import Data
from diffuzz.nightly.looking import Sight, look
from diffuzz.nightly.machinery import LOST_DEVICE, device_failed
from diffuzz.nightly.status import FIXED, FLAKY, OTHER_FAILURE, Status, last_told, status
from diffuzz.nightly.tonight import Tonight, case_of
from diffuzz.nightly.units import Unit
from diffuzz.slicing import Missing

WHAT = "known findings"
# A bisect is not begun with less than this left, in seconds.
_BISECT = 5.0


def look_again(tonight: Tonight) -> None:
    """Look at every known finding of this shard whose code is not as when it was last told."""
    unchanged = elsewhere = 0
    by_key = {unit.key: unit for unit in tonight.units}
    for key in sorted(tonight.state.data["findings"]):
        finding = tonight.state.data["findings"][key]
        unit = by_key.get(finding["record"]["unit"])
        if unit is None:
            chosen = tonight.settings.targets
            elsewhere += not chosen or finding["record"]["target"] in chosen
            continue
        if not tonight.shard.owns(key):
            continue
        if _is_told(finding, unit):
            unchanged += 1
            continue
        stopped = tonight.stopped()
        if stopped is not None:
            if tonight.quarantined is not None:
                tonight.add_look(key, unit, "unknown", why=stopped)
            tonight.account(WHAT, unit.key, f"{key}: not looked at: {stopped}", done=False)
            continue
        _look_again(tonight, unit, key, finding)
        tonight.save()
    if elsewhere:
        tonight.account(
            WHAT, "", f"{elsewhere} on targets or archs that are not run here", done=False
        )
    if unchanged:
        tonight.account(WHAT, "", f"{unchanged} on the same code as before: nothing to run")


def _is_told(finding: Data, unit: Unit) -> bool:
    told = last_told(finding)
    last = finding["looks"][-1]
    if last["word"] == "unknown" and last["why"].startswith(OTHER_FAILURE):
        told = last  # as long as the code is the same, it stays hidden
    elif told is None or status(finding).unseen is not None:
        return False
    return (told["slice"], told["judge"]) == (unit.hash, unit.judge)


def _look_again(tonight: Tonight, unit: Unit, key: str, finding: Data) -> None:
    before = status(finding)
    sight = _sight(tonight, unit, finding, before)
    told = last_told(finding)
    why = sight.why
    gone = sight.word == "right" and before.word != FIXED
    if gone and told is not None and told["slice"] == unit.hash:
        why = "the code is the same, diffuzz itself judges it otherwise now"
    after = tonight.add_look(
        key,
        unit,
        sight.word,
        why=why,
        bad=sight.bad,
        runs=sight.runs,
        asks=_asks(tonight, unit, finding, before, sight),
    )
    failed = device_failed({sight.why: LOST_DEVICE}) if sight.word == "unknown" else None
    if failed is not None:
        quarantine(tonight, failed)
    said = f": {sight.bad} of {sight.runs} runs fail" if sight.runs else ""
    said += f" ({why})" if why else ""
    change = "" if after.text == before.text else f" (was {before.text})"
    tonight.account(
        WHAT, unit.key, f"{key}: {after.text}{change}{said}", done=sight.word != "unknown"
    )


def _sight(tonight: Tonight, unit: Unit, finding: Data, before: Status) -> Sight:
    if isinstance(unit.piece, Missing):
        return Sight("unknown", unit.piece.reason)
    try:
        case = case_of(finding["record"], unit.target)
    except CaseError as error:
        return Sight("unknown", f"its case is none of the target any more: {error}")
    told = last_told(finding)
    rate = None
    if before.word == FLAKY and told is not None and told["runs"]:
        rate = told["bad"] / told["runs"]
    question = Question(case, finding["record"]["signature"])
    return look(tonight.judge(unit), unit.piece, question, rate)


def _asks(tonight: Tonight, unit: Unit, finding: Data, before: Status, sight: Sight) -> str | None:
    """What a bisect is to find: nothing, unless the finding went or came back."""
    told = last_told(finding)
    if told is None or sight.word == "unknown":
        return None
    head, last = tonight.head.sha, told["commit"]
    if sight.word == "right":
        gone = before.word != FIXED and last != head and told["slice"] != unit.hash
        if gone:
            return asking.key("fixed", head, last)
        kept: str | None = before.look["asks"] if before.word == FIXED else None
        return kept
    if before.word == FIXED and last != head:
        return asking.key("regression", last, head)
    asks: str | None = before.look["asks"]
    return asks


def settle(tonight: Tonight) -> None:
    """Bisect what is waiting for it: new findings, fixed ones, and those an earlier night had no
    time for (or was killed before)."""
    by_key = {unit.key: unit for unit in tonight.units}
    for key in sorted(tonight.state.data["findings"]):
        # Saving joins the state with the disk's, so it is read anew each time.
        finding = tonight.state.data["findings"][key]
        unit = by_key.get(finding["record"]["unit"])
        asks = status(finding).look["asks"]
        if unit is None or asks is None or asks in finding["answers"]:
            continue
        if not (tonight.shard.owns(key) or key in tonight.entry["new"]):
            continue
        if tonight.stopped() is not None or tonight.left() < _BISECT:
            tonight.account("bisect", unit.key, f"{key}: left for the next night", done=False)
            continue
        _settle(tonight, unit, key, finding, asks)
        tonight.save()


def _settle(tonight: Tonight, unit: Unit, key: str, finding: Data, asks: str) -> None:
    record = finding["record"]
    try:
        question = Question(case_of(record, unit.target), record["signature"])
    except CaseError as error:
        tonight.account("bisect", unit.key, f"{key}: {error}", done=False)
        return
    good, _, bad = asks.partition(":")[2].partition("..")
    answer = asking.ask(
        tonight.judge(unit), question, tonight.settings.repo, good, bad, tonight.rows
    )
    finding["answers"][asks] = answer
    if answer["certain"]:
        commit = answer["culprit"]
        text = f"{commit['commit'][:10]} {commit['subject']}"
    else:
        text = f"no commit is named: {asking.reason(answer)}"
    tonight.account("bisect", unit.key, f"{key}: {text}")


def quarantine(tonight: Tonight, why: str) -> None:
    """Take the device out of the night: nothing more runs on it, and it is named."""
    if tonight.settings.executor != "gpu" or tonight.quarantined is not None:
        return
    device = tonight.entry["devices"]["used"] or "the device"
    tonight.quarantined = f"{device} is quarantined for the night: {why}"
    tonight.entry["devices"]["quarantined"].append({"device": device, "why": why})
    tonight.save()
