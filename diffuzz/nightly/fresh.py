"""New findings: confirmed in fresh processes, shrunk, and given a place in the state."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import date

from diffuzz import corpus
from diffuzz.bisect.question import Question
from diffuzz.casefile import read_case_file
from diffuzz.errors import DiffuzzError
from diffuzz.finding import Direction, Finding
from diffuzz.folding import JobResult
from diffuzz.history import code_begins
from diffuzz.nightly import asking
from diffuzz.nightly.fuzzing import Fuzzer, accepted, signature
from diffuzz.nightly.join import Data
from diffuzz.nightly.looking import Sight, look
from diffuzz.nightly.status import FIXED, last_told, status
from diffuzz.nightly.tonight import Tonight, simplicity
from diffuzz.nightly.units import Unit
from diffuzz.planning import Piece
from diffuzz.report import data
from diffuzz.report.files import write_finding
from diffuzz.sources.commit import Commit
from diffuzz.verdicts import Judge

WHAT = "new findings"
# A failure of this rate shows again in the runs spent on one that did not at once.
_RATE = 0.1
# What a draft says of the run that found it.
_KEPT = ("name", "arch", "cases", "native")
_SHRINK = 300.0  # seconds at most for one finding


def finding_id(unit: Unit, finding: Finding) -> str:
    """The finding's name over all nights: target, arch, executor and mistake, no direction."""
    text = f"{unit.key}\n{signature(finding)}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{unit.target.name}-{finding.defect.kind.value}-{digest}"


class Fresh:
    """Takes in the findings of one unit's batch. ``base`` is what it was compared with."""

    def __init__(
        self,
        tonight: Tonight,
        unit: Unit,
        fuzzer: Fuzzer,
        base: tuple[Commit, Piece] | None,
        entries: list[corpus.Entry],
        result: JobResult,
    ) -> None:
        assert isinstance(unit.piece, Piece)
        self.tonight = tonight
        self.unit = unit
        self.piece = unit.piece
        self.fuzzer = fuzzer
        self.base = base
        self.entries = entries
        self.result = result
        self._names: dict[str, str] = {}

    def take(self, finding: Finding) -> bool:
        """Whether what there is to know of the finding is known now."""
        key = finding_id(self.unit, finding)
        self._names[finding.id] = key
        known = self.tonight.state.finding(key)
        if finding.direction is Direction.FIXED:
            if known is None:
                message = finding.defect.message
                self.tonight.note(
                    f"{self.unit.key}: no longer wrong as the baseline was: {message}"
                )
            return True
        if known is not None and status(known).word != FIXED:
            return True  # it is looked at as a known one
        stopped = self.tonight.stopped()
        if stopped is not None:
            self._say(key, f"not confirmed: {stopped}", done=False)
            return False
        return self._confirm(key, finding)

    def _confirm(self, key: str, finding: Finding) -> bool:
        sight = self._look(self.piece, finding)
        if sight.word == "right":
            sight = look(self._judge(), self.piece, self._question(finding), _RATE)
        if sight.word == "unknown":
            self._say(key, f"not confirmed: {sight.why}", done=False)
            return False
        if sight.word == "right":
            self.tonight.note(
                f"{self.unit.key}: {finding.defect.message} was seen once and in none of"
                f" {sight.runs} fresh runs: not filed"
            )
            return True
        if finding.direction is Direction.REGRESSION and self.base is not None:
            before = self._look(self.base[1], finding)
            if before.word == "unknown":
                self._say(key, f"not confirmed at the baseline: {before.why}", done=False)
                return False
            if before.word != "right":
                finding = replace(finding, direction=Direction.BOTH)
        self._keep(key, finding, sight)
        return True

    def _keep(self, key: str, finding: Finding, sight: Sight) -> None:
        smaller = self.fuzzer.shrink(finding, min(_SHRINK, self.tonight.left() / 2))
        if smaller.case != finding.case:
            again = self._look(self.piece, smaller)
            if again.word in ("shown", "flaky"):
                finding, sight = smaller, again
        tonight = self.tonight
        report = self.fuzzer.reported(finding)
        report["id"] = key
        record: Data = {
            "unit": self.unit.key,
            "target": self.unit.target.name,
            "signature": signature(finding),
            "direction": finding.direction.value,
            "accepted": accepted(self.entries, finding, date.today()),
            "follows": self._names.get(finding.follows or ""),
            "since": tonight.night,
            "order": simplicity(finding.case, self.unit.target),
            "baseline": None if self.base is None else self.base[0].sha,
            "candidate": tonight.head.sha,
            "report": report,
            "run": {
                "environment": self.tonight.entry["environment"],
                "target": {k: v for k, v in data.target(self.result, []).items() if k in _KEPT},
            },
        }
        asks = self._asks(key, finding)
        tonight.state.add_finding(key, record)
        tonight.add_look(key, self.unit, sight.word, bad=sight.bad, runs=sight.runs, asks=asks)
        tonight.entry["new"].append(key)
        self._say(key, f"{finding.direction.value}: {sight.bad} of {sight.runs} fresh runs fail")
        self._to_corpus(key, record)
        tonight.save()

    def _asks(self, key: str, finding: Finding) -> str | None:
        """Where a bisect starts: at the last good revision; for a latent finding, where the code
        begins."""
        head = self.tonight.head.sha
        known = self.tonight.state.finding(key)
        told = last_told(known) if known is not None else None
        if told is not None and told["word"] == "right" and told["commit"] != head:
            return asking.key("regression", told["commit"], head)
        if finding.direction is Direction.REGRESSION and self.base is not None:
            return asking.key("regression", self.base[0].sha, head)
        try:
            begins = code_begins(self.tonight.repository, head, self.unit.target).sha
        except DiffuzzError:
            return None
        return asking.key("regression", begins, head) if begins != head else None

    def _to_corpus(self, key: str, record: Data) -> None:
        """The finding as a file that other commands take, and its case for every later night."""
        folder = self.tonight.settings.state
        path = folder / "findings" / f"{key}.yaml"
        candidate = record["candidate"]
        write_finding(path, record["report"], record["baseline"] or candidate, candidate)
        corpus.add(folder / "corpus", read_case_file(path), self.unit.target)

    def _look(self, piece: Piece, finding: Finding) -> Sight:
        return look(self._judge(), piece, self._question(finding))

    def _judge(self) -> Judge:
        return self.tonight.judge(self.unit)

    def _question(self, finding: Finding) -> Question:
        return Question(finding.case, signature(finding))

    def _say(self, key: str, text: str, *, done: bool = True) -> None:
        self.tonight.account(WHAT, self.unit.key, f"{key}: {text}", done=done)
