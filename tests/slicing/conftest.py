"""Trees held in memory, and slices of them loaded in this process."""

from __future__ import annotations

import hashlib
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from diffuzz.slicing import Missing, Slice, load, slice_target, unload
from diffuzz.slicing.tree import ModuleCache
from diffuzz.sources import Identity
from diffuzz.target import Entry, StandIns


class MemorySource:
    """A revision's files in a dictionary; counts what is read."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = {path: textwrap.dedent(text) for path, text in files.items()}
        self.reads: list[str] = []

    @property
    def identity(self) -> Identity:
        return Identity("memory")

    def read(self, path: str) -> str | None:
        self.reads.append(path)
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def list(self, prefix: str) -> list[str]:
        return sorted(p for p in self.files if p.startswith(prefix.rstrip("/") + "/"))

    def blob_id(self, path: str) -> str | None:
        text = self.files.get(path)
        return None if text is None else hashlib.sha1(text.encode()).hexdigest()


STAND_INS = {
    "vllm.platforms": textwrap.dedent(
        """
        class _Platform:
            def __init__(self):
                self.name = "rocm"

            def is_rocm(self):
                return True

            def is_cuda(self):
                return False

        current_platform = _Platform()
        """
    ),
    "vllm.logger": "import logging\n\ndef init_logger(name):\n    return logging.getLogger(name)\n",
}


def entries_of(*places: str) -> list[Entry]:
    """``path:symbol`` each; the entry is named like the symbol."""
    pairs = [place.split(":") for place in places]
    return [Entry(symbol, (path,), (symbol,)) for path, symbol in pairs]


Cut = Callable[..., Slice]


@pytest.fixture
def attempt() -> Callable[..., Slice | Missing]:
    """``attempt(files, "path:symbol"...)`` slices with a cache of its own."""

    def run(
        files: Mapping[str, str] | MemorySource,
        *places: str,
        stand_ins: Mapping[str, str] | None = None,
        extra: tuple[str, ...] = (),
    ) -> Slice | Missing:
        source = files if isinstance(files, MemorySource) else MemorySource(files)
        given = StandIns(STAND_INS if stand_ins is None else stand_ins)
        return slice_target(source, "t", entries_of(*places), given, extra, ModuleCache())

    return run


@pytest.fixture
def cut(attempt: Callable[..., Slice | Missing]) -> Cut:
    """Like ``attempt``, where there has to be a slice."""

    def run(*arguments: Any, **options: Any) -> Slice:
        result = attempt(*arguments, **options)
        assert isinstance(result, Slice), result
        return result

    return run


@pytest.fixture
def loaded(cut: Cut, tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Slices, writes and loads; gives the entries by name."""

    def run(*arguments: Any, **options: Any) -> dict[str, Any]:
        cut(*arguments, **options).write(tmp_path)
        return load(tmp_path)

    yield run
    unload()
