"""Judging one slice on one case, and remembering it.

A verdict is kept under everything it depends on: the slice's hash, the case, the arch, the
executor, and a digest of the code that judges (diffuzz itself, the target, torch and Triton). The
store is shared by all runs and commands and safe to delete. What machinery trouble made untellable
is never stored.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from diffuzz.arch import Arch
from diffuzz.cache import atomic_write, cache_dir
from diffuzz.case import Case
from diffuzz.errors import CannotTell
from diffuzz.finding import Defect, Explanation, Judged, Kind, Measure
from diffuzz.outcome import Location, is_machinery
from diffuzz.target import Target

# Torch is imported when something is run: what is remembered is told without it, at once.
if TYPE_CHECKING:
    from diffuzz.campaign import Runner
    from diffuzz.planning import Piece

_LIVE = 4  # workers kept waiting, one a slice
_PREPARED = 16  # cases whose inputs and truth are kept
# Everything in the package but what only presents, searches or stores.
_NOT_JUDGING = {"cli", "report", "bisection", "bisect", "history", "timeline", "verdicts"}
_NOT_JUDGING |= {"minimise", "corpus", "casefile", "shrink", "reproducer", "bundle", "nightly"}


class _Prepared:
    """A target that works out a case's inputs and truth once, however often the case is judged."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._inputs: dict[str, Any] = {}
        self._expected: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def inputs(self, case: Case, arch: Arch) -> Any:
        return _kept(self._inputs, case, lambda: self._target.inputs(case, arch))

    def expected(self, case: Case, arch: Arch, inputs: Any) -> Any:
        return _kept(self._expected, case, lambda: self._target.expected(case, arch, inputs))


def _kept(store: dict[str, Any], case: Case, make: Callable[[], Any]) -> Any:
    if case.id not in store:
        while len(store) >= _PREPARED:
            del store[next(iter(store))]
        store[case.id] = make()
    return store[case.id]


class Judge:
    """Judges slices of one target on one arch. ``runs`` counts what was run, ``recalled`` what
    was remembered."""

    def __init__(
        self,
        target: Target,
        arch: Arch,
        executor: str,
        target_folders: tuple[str, ...] = (),
        *,
        time_limit: float = 120.0,
        remember: bool = True,
    ) -> None:
        self.target = target
        self.arch = arch
        self.executor = executor
        self.time_limit = time_limit
        self.runs = 0
        self.recalled = 0
        self._folders = target_folders
        self._remember = remember
        self._stack = ExitStack()
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._live: OrderedDict[str, Runner] = OrderedDict()
        self._prepared = cast(Target, _Prepared(target))

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for runner in self._live.values():
            runner.__exit__(None, None, None)
        self._stack.close()

    @property
    def identity(self) -> dict[str, str]:
        """What a verdict depends on besides the slice and the case."""
        return {
            "target": self.target.name,
            "arch": self.arch.name,
            "executor": self.executor,
            "judged by": f"{tool_digest()} {target_digest(self.target)}",
        }

    def recall(self, slice_hash: str, case: Case) -> Judged | None:
        """The stored verdict, if there is one that can be read."""
        if not self._remember:
            return None
        try:
            found = from_data(json.loads(self._path(slice_hash, case).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError):
            return None  # never stored, deleted, or damaged: it is run again
        self.recalled += 1
        return found

    def judge(self, piece: Piece, case: Case) -> Judged:
        """As remembered, else run."""
        return self.recall(piece.slice.hash, case) or self.run(piece, case)

    def run(self, piece: Piece, case: Case, *, fresh: bool = False) -> Judged:
        """Run ``case``; ``fresh`` does so in a worker that ran nothing before."""
        key = piece.slice.hash
        if fresh and key in self._live:
            self._live.pop(key).__exit__(None, None, None)
        try:
            judged = self._runner(piece).run(case).candidate
        except CannotTell as error:
            judged = Judged(unknown=error.reason)
        self.runs += 1
        if judged.unknown is None or not is_machinery(judged.unknown):
            self._store(key, case, judged)
        return judged

    def _runner(self, piece: Piece) -> Runner:
        key = piece.slice.hash
        if key not in self._live:
            import torch

            from diffuzz.campaign import Job, Runner, Side
            from diffuzz.executors import native_ops

            # Tensors are small: threads of torch's own would only take turns with the workers.
            torch.set_num_threads(1)
            on: Any = self.executor
            native = native_ops.plan(piece.closure, self.arch, executor=on)
            side = Side(piece.slice, native)
            job = Job(self._prepared, self.arch, self.executor, side, side, ({}, {}), self._folders)
            while len(self._live) >= _LIVE:
                self._live.popitem(last=False)[1].__exit__(None, None, None)
            self._live[key] = Runner(job, self._scratch, lanes=1, time_limit=self.time_limit)
        self._live.move_to_end(key)
        return self._live[key]

    def _path(self, slice_hash: str, case: Case) -> Path:
        name = digest({**self.identity, "slice": slice_hash, "case": case.id})
        return cache_dir("verdicts", name[:2]) / f"{name}.json"

    def _store(self, slice_hash: str, case: Case, judged: Judged) -> None:
        if self._remember:
            path = self._path(slice_hash, case)
            if not path.exists():  # the first look counts; repeats belong to who asked for them
                atomic_write(path, json.dumps(to_data(judged)).encode())


def digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def tool_digest() -> str:
    """Digest of the code that makes verdicts, and of the libraries it stands on."""
    package = Path(__file__).resolve().parent
    files = [
        path
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0].removesuffix(".py") not in _NOT_JUDGING
    ]
    said = [[str(p.relative_to(package)), _file_digest(p)] for p in files]
    return digest([said, version("torch"), version("triton")])


def target_digest(target: Target) -> str:
    """Digest of the target's own file, or of all files of its folder."""
    path = Path(str(sys.modules[type(target).__module__].__file__))
    folder = path.parent if (path.parent / "__init__.py").exists() else None
    files = sorted(folder.rglob("*.py")) if folder else [path]
    return digest([[p.name, _file_digest(p)] for p in files])


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def to_data(judged: Judged) -> dict[str, Any]:
    """As plain data, for :func:`from_data`."""
    return {
        "right": sorted(judged.right),
        "unknown": judged.unknown,
        "defects": [{**asdict(d), "kind": d.kind.value} for d in judged.defects],
        "mistakes": {d.signature: mistake(d.signature) for d in judged.defects},
        "measures": {name: asdict(m) for name, m in judged.measures.items()},
    }


_mistakes: dict[str, str] = {}


def mistake(signature: str) -> str:
    """:func:`diffuzz.folding.mistake`, remembered with the verdicts."""
    if signature not in _mistakes:
        from diffuzz import folding

        _mistakes[signature] = folding.mistake(signature)
    return _mistakes[signature]


def from_data(data: Mapping[str, Any]) -> Judged:
    _mistakes.update(data["mistakes"])
    return Judged(
        right=frozenset(data["right"]),
        defects=tuple(_defect(d) for d in data["defects"]),
        unknown=data["unknown"],
        measures={name: _measure(m) for name, m in data["measures"].items()},
    )


def _measure(data: Mapping[str, Any]) -> Measure:
    first = data["first"]
    return Measure(**{**data, "first": None if first is None else tuple(first)})


def _defect(data: Mapping[str, Any]) -> Defect:
    measure, explanation, location = data["measure"], data["explanation"], data["location"]
    return Defect(
        **{
            **data,
            "kind": Kind(data["kind"]),
            "measure": measure and _measure(measure),
            "explanation": explanation and Explanation(**explanation),
            "location": location and Location(**location),
        }
    )
