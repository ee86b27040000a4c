"""One night: known findings, then what changed, then holes in the case space, then random cases."""

from __future__ import annotations

import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from diffuzz import corpus
from diffuzz.campaign import Job, Side
from diffuzz.case import Case
from diffuzz.errors import CannotTell, CaseError, DiffuzzError
from diffuzz.generate import draw_cases
from diffuzz.nightly import holes, known
from diffuzz.nightly.fresh import Fresh
from diffuzz.nightly.fuzzing import Fuzzer, Ran, lost_text, summary, target_data
from diffuzz.nightly.join import Data
from diffuzz.nightly.machinery import LOST_DEVICE, LOST_SHARE, device_failed, lost
from diffuzz.nightly.tonight import Settings, Tonight, case_of, open_night
from diffuzz.nightly.units import Unit, baseline, is_judged
from diffuzz.outcome import is_machinery
from diffuzz.planning import Piece
from diffuzz.slicing import Missing
from diffuzz.sources.commit import Commit

CHANGED, HOLES, RANDOM = "changed targets", "holes in the case space", "random cases"
_ROUND = 100
_LOGS = 7  # nights whose logs are kept
_FUZZ_SHARE = 0.7
_POOL = 4  # cases drawn for each one that fills holes
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Ready:
    """A unit that can be run. ``base`` is the revision judged good and its code, None where
    there is nothing to compare with."""

    unit: Unit
    job: Job
    base: tuple[Commit, Piece] | None


def run_night(settings: Settings, progress: Progress = lambda unit: None) -> Data:
    """Run the night and return what the state keeps of it. Whatever ends it early, what was done
    until then is in the state."""
    begun = time.monotonic()
    with open_night(settings) as tonight:
        night = _Night(tonight, progress)
        night.begin()
        if settings.failed and settings.device is None and settings.executor == "gpu":
            tonight.quarantined = "no device passed its probe"
        known.look_again(tonight)
        night.changed()
        known.settle(tonight)
        night.explore()
        known.settle(tonight)
        tonight.entry["seconds"] = round(time.monotonic() - begun, 1)
        tonight.entry["finished"] = True
        tonight.save()
        return tonight.entry


class _Night:
    def __init__(self, tonight: Tonight, progress: Progress) -> None:
        self.tonight = tonight
        self.progress = progress
        self.ready: list[Ready] = []

    def begin(self) -> None:
        """Say what the night starts from, and which earlier one never ended."""
        tonight = self.tonight
        _drop_old_logs(tonight.settings.state / "nights", tonight.night)
        for note in tonight.state.notes:
            tonight.note(note)
        nights = tonight.state.data["nights"]
        earlier = [name for name in sorted(nights) if name < tonight.night]
        for name in earlier[-1:]:
            for shard, entry in sorted(nights[name].items()):
                if not entry["finished"]:
                    tonight.note(f"night {name}, shard {shard}, did not end; what it did counts")
        for unit in tonight.units:
            if unit.hash is not None:
                tonight.state.unit(unit.key)["seen"][unit.hash] = {
                    "commit": tonight.head.sha,
                    "date": tonight.head.date.isoformat(),
                    "night": tonight.night,
                }
        tonight.save()

    def changed(self) -> None:
        """Run the units whose code at the head was not judged yet."""
        same = 0
        for unit in self.tonight.units:
            if isinstance(unit.piece, Missing):
                self._say(CHANGED, unit, f"cannot be tested: {unit.piece.reason}", False)
                continue
            stopped = self.tonight.stopped()
            state = self.tonight.state.unit(unit.key)
            judged = is_judged(state, unit.piece.slice.hash, self.tonight.shard, unit.judge)
            if not judged and stopped is not None:
                self._say(CHANGED, unit, f"not run: {stopped}", False)
                continue
            same += judged
            ready = self._prepare(unit, judged)
            if ready is None:
                continue
            self.ready.append(ready)
            if not judged:
                with self._contained(CHANGED, unit):
                    self._changed(ready)
        if same:
            self.tonight.account(CHANGED, "", f"{same} unchanged since they were judged")

    def _prepare(self, unit: Unit, judged: bool) -> Ready | None:
        """The job of a unit; one that cannot be run says why, and once for each slice."""
        tonight, settings = self.tonight, self.tonight.settings
        assert isinstance(unit.piece, Piece)
        slicer = tonight.slicers.at(tonight.head)
        base = self._base(unit)
        if judged and settings.explore == 0:
            return None
        piece = unit.piece if base is None else base[1]
        try:
            new = Side(unit.piece.slice, slicer.native(unit.piece, unit.arch, unit.executor))
            old = new
            if base is not None and piece.slice.hash != unit.hash:
                before = tonight.slicers.at(base[0])
                old = Side(piece.slice, before.native(piece, unit.arch, unit.executor))
            facts = slicer.facts(unit.target)
            facts_before = facts if base is None else tonight.slicers.at(base[0]).facts(unit.target)
        except CannotTell as error:
            self._say(CHANGED, unit, f"cannot be tested: {error.reason}", False)
            failed = device_failed({error.reason: LOST_DEVICE})
            if failed is not None:
                known.quarantine(tonight, failed)
            if not is_machinery(error.reason):
                self._judged(unit, 0, done=True, untestable=error.reason)
            return None
        job = Job(
            *(unit.target, unit.arch, unit.executor, old, new, (facts_before, facts)),
            settings.target_folders,
        )
        return Ready(unit, job, base)

    def _base(self, unit: Unit) -> tuple[Commit, Piece] | None:
        tonight = self.tonight
        found = baseline(
            tonight.state.unit(unit.key),
            list(tonight.of_unit(unit.key).values()),
            tonight.repository,
            tonight.head,
            tonight.settings.good,
            tonight.night,
        )
        if found is None:
            return None
        if found.note:
            tonight.note(f"{unit.key}: {found.note}")
        try:
            piece = tonight.slicers.at(found.commit).piece(unit.target, unit.arch)
        except DiffuzzError as error:
            tonight.note(f"{unit.key}: baseline {found.commit.sha[:10]}: {error}")
            return None
        if isinstance(piece, Missing):
            tonight.note(f"{unit.key}: baseline {found.commit.sha[:10]}: {piece.reason}")
            return None
        return found.commit, piece

    def _changed(self, ready: Ready) -> None:
        unit, tonight = ready.unit, self.tonight
        entries = self._entries(unit)
        first = {case.id: case for case in self._kept(unit, entries)}
        count = tonight.settings.examples
        drawn = draw_cases(unit.target, count=count, seed=tonight.seed)
        first.update({case.id: case for case in drawn})
        ran, taken = self._run(ready, list(first.values()), CHANGED, entries)
        reasons = ran.result.unknown_reasons
        gone = lost(reasons)
        conclusive = gone <= LOST_SHARE * max(1, ran.result.cases) and ran.complete
        untestable = None
        if ran.result.cases and sum(reasons.values()) == ran.result.cases and not gone:
            untestable = Counter(reasons).most_common(1)[0][0]
        self._judged(unit, len(ran.told), done=conclusive and taken, untestable=untestable)
        tonight.save()

    def _run(
        self, ready: Ready, cases: list[Case], what: str, entries: list[corpus.Entry]
    ) -> tuple[Ran, bool]:
        """Run cases and take in what they show; whether all of that could be settled."""
        tonight, unit = self.tonight, ready.unit
        with Fuzzer(
            ready.job,
            tonight.folder,
            lanes=tonight.settings.lanes,
            time_limit=tonight.settings.time_limit,
        ) as fuzzer:
            # Some of the time is for what the cases find.
            until = time.monotonic() + _FUZZ_SHARE * tonight.left()
            ran = fuzzer.run(cases, until, lambda: self.progress(unit.key))
            self._quarantine(ran)
            fresh = Fresh(tonight, unit, fuzzer, ready.base, entries, ran.result)
            taken = True
            for finding in ran.result.findings:
                taken = fresh.take(finding) and taken
        tonight.entry["targets"].append(target_data(ran.result, cases, what=what))
        state = tonight.state.unit(unit.key)
        known_pairs = holes.covered(ran.told, unit.target.axes)
        state["covered"] = sorted({*state["covered"], *known_pairs})
        self._say(what, unit, summary(ran, len(cases)), ran.complete and not lost_text(ran))
        return ran, taken

    def _quarantine(self, ran: Ran) -> None:
        failed = device_failed(ran.result.unknown_reasons)
        if failed is not None:
            known.quarantine(self.tonight, failed)

    def explore(self) -> None:
        """Cases that nobody had so far, on code that was judged: holes first, then any."""
        if self.tonight.settings.explore == 0:
            return
        begun: dict[str, int] = {}
        for number, ready in enumerate(self.ready):
            stopped = self.tonight.stopped()
            if stopped is not None:
                self._say(HOLES, ready.unit, f"not run: {stopped}", False)
                continue
            with self._contained(HOLES, ready.unit):
                begun[ready.unit.key] = self._holes(ready, len(self.ready) - number)
        while begun and self.tonight.stopped() is None:
            ready = min(
                (r for r in self.ready if r.unit.key in begun), key=lambda r: begun[r.unit.key]
            )
            ran = 0
            with self._contained(RANDOM, ready.unit):
                ran = self._random(ready, begun[ready.unit.key])
            if ran == 0:
                del begun[ready.unit.key]
            else:
                begun[ready.unit.key] += ran

    def _holes(self, ready: Ready, share: int) -> int:
        """Returns how many cases were run."""
        unit, tonight = ready.unit, self.tonight
        count = min(tonight.settings.explore or _ROUND, _ROUND)
        pool = draw_cases(unit.target, count=_POOL * count, seed=(tonight.seed + 1) % 2**32)
        covered = tonight.state.unit(unit.key)["covered"]
        cases = holes.fill(pool, unit.target.axes, covered, count)
        if not cases:
            self._say(HOLES, unit, f"none found by {len(pool)} drawn cases", True)
            return 0
        whole = tonight.until
        tonight.until = min(whole, time.monotonic() + tonight.left() / share)
        try:
            ran, _ = self._run(ready, cases, HOLES, self._entries(unit))
        finally:
            tonight.until = whole
        tonight.save()
        return ran.result.cases

    def _random(self, ready: Ready, begun: int) -> int:
        unit, tonight = ready.unit, self.tonight
        limit = tonight.settings.explore
        count = _ROUND if limit is None else min(_ROUND, limit - begun)
        if count <= 0:
            return 0
        seed = (tonight.seed + 2 + begun) % 2**32
        cases = draw_cases(unit.target, count=count, seed=seed)
        ran, _ = self._run(ready, cases, RANDOM, self._entries(unit))
        tonight.save()
        return ran.result.cases

    @contextmanager
    def _contained(self, what: str, unit: Unit) -> Iterator[None]:
        """A mistake of diffuzz's own on one unit ends that unit's work, not the night. It is said
        and kept in full, and the code stays unjudged."""
        try:
            yield
        except DiffuzzError as error:
            self._say(what, unit, str(error), False)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self._say(what, unit, f"diffuzz itself failed: {text}", False)
            path = self.tonight.folder / "failures.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                file.write(f"{what}, {unit.key}\n{traceback.format_exc()}\n")
            self.tonight.entry["failed"] = True
            self.tonight.save()

    # What is run first

    def _entries(self, unit: Unit) -> list[corpus.Entry]:
        own = self.tonight.settings.state / "corpus"
        folders = (*self.tonight.settings.corpora, own)
        return [entry for folder in folders for entry in corpus.load(folder, unit.target)]

    def _kept(self, unit: Unit, entries: Iterable[corpus.Entry]) -> list[Case]:
        """This shard's part of the corpus, and the cases of the target's known findings."""
        cases = [entry.case(unit.target.axes) for entry in entries]
        for finding in self.tonight.state.data["findings"].values():
            if finding["record"]["target"] == unit.target.name:
                try:
                    cases.append(case_of(finding["record"], unit.target))
                except CaseError:
                    continue  # said where the finding itself is looked at
        return [case for case in cases if self.tonight.shard.owns(case.id)]

    def _judged(self, unit: Unit, cases: int, *, done: bool, untestable: str | None) -> None:
        tonight = self.tonight
        judged = tonight.state.unit(unit.key)["judged"]
        judged.setdefault(str(unit.hash), {})[str(tonight.shard)] = {
            "night": tonight.night,
            "commit": tonight.head.sha,
            "date": tonight.head.date.isoformat(),
            "cases": cases,
            "done": done,
            "untestable": untestable,
            "judge": unit.judge,
        }

    def _say(self, what: str, unit: Unit, text: str, done: bool) -> None:
        self.tonight.account(what, unit.key, text, done=done)


def _drop_old_logs(folder: Path, night: str) -> None:
    """Requests and logs of all but the newest nights before this one."""
    old = sorted(p for p in folder.glob("*") if p.name < night) if folder.is_dir() else []
    for path in old[:-_LOGS]:
        shutil.rmtree(path, ignore_errors=True)


__all__ = ["Settings", "run_night"]
