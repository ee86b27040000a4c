"""What slicing gives: a :class:`Slice` that can be written out and run, or :class:`Missing`."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from diffuzz.slicing.tree import module_name

MANIFEST = "slice.json"
STAND_INS = "stand_ins"


@dataclass(frozen=True)
class Parameter:
    """A parameter of an entry: ``kind`` as :class:`inspect.Parameter` names it, ``default`` as
    source text or None where there is none."""

    name: str
    kind: str
    default: str | None = None


@dataclass(frozen=True)
class EntryPoint:
    """Where an entry was found. ``parameters`` is None for what is no function; ``module`` is the
    dotted name it is imported under."""

    path: str
    symbol: str
    line: int
    module: str
    parameters: tuple[Parameter, ...] | None = None


@dataclass(frozen=True)
class Missing:
    """Why a target's code cannot be taken out of a revision, and what was looked at to know."""

    reason: str
    dependencies: frozenset[tuple[str, str | None]] = frozenset()


@dataclass(frozen=True)
class Slice:
    """A kernel at a revision: everything its entries reach, and nothing else.

    ``hash`` is its identity. ``definitions`` maps each kept definition's dotted name to a digest of
    its own; ``files`` each file's path to its text, blank where nothing is needed;
    ``dependencies`` holds ``(path, content id)`` of every file looked at, None where there was
    none: as long as these are equal, so is the slice. ``ops`` are the native operators named
    (``torch.ops._C.NAME``), ``absent`` the imports that fail and are caught by vLLM's own code,
    ``annotated`` the lines of functions whose annotations are read at run time.
    """

    target: str
    hash: str
    entries: Mapping[str, EntryPoint]
    definitions: Mapping[str, str]
    files: Mapping[str, str]
    dependencies: frozenset[tuple[str, str | None]]
    ops: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    annotated: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        """Write the runnable slice; :func:`~diffuzz.slicing.loading.load` imports it. A slice that
        was written there before is replaced, or left alone if it is the same text."""
        texts = dict(self.files)
        modules = {module_name(path): path for path in self.files}
        for name, text in self.stand_ins.items():
            modules[name] = f"{STAND_INS}/{name.replace('.', '/')}/__init__.py"
            texts[modules[name]] = text
        for parent in [p for name in modules for p in _parents(name)]:
            if parent not in modules:
                modules[parent] = f"{parent.replace('.', '/')}/__init__.py"
                texts[modules[parent]] = ""
        manifest = {
            "target": self.target,
            "hash": self.hash,
            "entries": {n: [e.module, e.symbol] for n, e in self.entries.items()},
            "modules": modules,
            "absent": list(self.absent),
            "annotated": {path: list(lines) for path, lines in self.annotated.items()},
            "texts": {path: _digest(text) for path, text in texts.items()},
        }
        _replace(directory, texts, json.dumps(manifest, indent=1, sort_keys=True) + "\n")

    def summary(self) -> list[str]:
        """Lines for people: entries, what is kept, operators, stand-ins."""
        lines = [f"slice {self.hash[:12]} of {self.target}"]
        for name, entry in self.entries.items():
            lines.append(f"  entry {name}: {entry.path}:{entry.line} {entry.symbol}")
        kept = sum(1 for text in self.files.values() for line in text.split("\n") if line.strip())
        held = sum(1 for text in self.files.values() if text.strip())
        lines.append(f"  {len(self.definitions)} definitions, {kept} lines of {held} files:")
        lines += [f"    {name} {digest[:8]}" for name, digest in self.definitions.items()]
        lines += _listed("native operators", self.ops)
        lines += _listed("stand-ins", sorted(self.stand_ins))
        lines += _listed("absent", self.absent)
        return lines


def _listed(label: str, items: Sequence[str]) -> list[str]:
    return [f"  {label}: {', '.join(items)}"] if items else []


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:i]) for i in range(1, len(parts))]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _replace(directory: Path, texts: Mapping[str, str], manifest: str) -> None:
    """Write all files, the manifest last, so that a half-written slice is never taken for one."""
    place = directory / MANIFEST
    try:
        before = place.read_text(encoding="utf-8")
        if before == manifest:
            return
        gone = set(json.loads(before)["texts"]) - set(texts)
        place.unlink()
    except FileNotFoundError:
        gone = set()
    except (ValueError, KeyError, TypeError):
        gone = set()  # something else lies there under this name; it is overwritten
    for path in gone:
        (directory / path).unlink(missing_ok=True)
    for path, text in (*texts.items(), (MANIFEST, manifest)):
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
