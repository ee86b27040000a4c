"""Finding a target's entries at a revision, and what a slice says about them."""

from __future__ import annotations

import pytest

from diffuzz.errors import UsageError
from diffuzz.slicing import Missing, Parameter, Slice, holds, slice_target
from diffuzz.slicing.tree import ModuleCache
from diffuzz.target import Entry, StandIns

from .conftest import MemorySource

A = "vllm/a.py"
FILES = {
    "vllm/old.py": "from vllm.a import f\n",
    A: """
    import torch
    class C(Base):
        def m(self, x, /, y, *rest, key=torch.float16, need, **more): return self.x
        @property
        def p(self): return 4
        @classmethod
        def made(cls, n): return cls.size * n
        size = 3
        @classmethod
        def new(cls): return super().new()
    def f(a, b=1): return a
    VALUE = 7
    """,
}


def sliced(*entries: Entry, files=FILES) -> Slice | Missing:
    return slice_target(MemorySource(files), "t", entries, StandIns(), cache=ModuleCache())


def test_the_first_place_that_defines_a_symbol_wins():
    entry = Entry("e", ("vllm/new.py", "vllm/old.py", A), ("g", "f"))
    result = sliced(entry)
    assert isinstance(result, Slice)
    found = result.entries["e"]
    assert (found.path, found.symbol, found.line, found.module) == (A, "f", 12, "vllm.a")
    assert ("vllm/new.py", None) in result.dependencies
    assert "vllm/old.py" in {path for path, _ in result.dependencies}
    assert "vllm/old.py" not in result.files


def test_parameters():
    result = sliced(Entry("e", (A,), ("C.m",)))
    assert isinstance(result, Slice)
    assert result.entries["e"].parameters == (
        Parameter("self", "POSITIONAL_ONLY"),
        Parameter("x", "POSITIONAL_ONLY"),
        Parameter("y", "POSITIONAL_OR_KEYWORD"),
        Parameter("rest", "VAR_POSITIONAL"),
        Parameter("key", "KEYWORD_ONLY", "torch.float16"),
        Parameter("need", "KEYWORD_ONLY"),
        Parameter("more", "VAR_KEYWORD"),
    )
    value = sliced(Entry("e", (A,), ("VALUE",)))
    assert isinstance(value, Slice)
    assert value.entries["e"].parameters is None


def test_optional_entries_may_be_absent_but_not_all_of_them():
    there = Entry("e", (A,), ("f",))
    absent = Entry("o", (A,), ("nothing",), optional=True)
    result = sliced(there, absent)
    assert isinstance(result, Slice)
    assert list(result.entries) == ["e"]
    only = sliced(absent)
    assert isinstance(only, Missing)
    assert only.reason == "none of the entries exists"


@pytest.mark.parametrize(
    ("path", "symbol", "reason"),
    [
        ("vllm/none.py", "f", "no file vllm/none.py"),
        (A, "nothing", "no symbol nothing in vllm/a.py"),
        (A, "C.nothing", "no symbol C.nothing in vllm/a.py"),
        (A, "f.m", "no symbol f.m in vllm/a.py"),
        (A, "C.new", "missing base classes of C (super is called)"),
    ],
)
def test_missing_entries(path, symbol, reason):
    result = sliced(Entry("e", (path,), (symbol,)))
    assert isinstance(result, Missing)
    assert result.reason == reason
    assert path in {p for p, _ in result.dependencies}


def test_methods_of_every_kind(loaded):
    from types import SimpleNamespace

    names = ("C.m", "C.p", "C.made", "f", "VALUE")
    got = loaded(FILES, *(f"{A}:{name}" for name in names))
    assert got["C.m"](SimpleNamespace(x=5), 1, 2, need=3) == 5
    assert got["C.p"](None) == 4
    assert got["C.made"](2) == 6
    assert (got["f"](1), got["VALUE"]) == (1, 7)


def test_a_stand_in_that_is_not_python():
    with pytest.raises(UsageError, match=r"stand-in vllm\.x: line 1: invalid syntax"):
        slice_target(MemorySource(FILES), "t", [], StandIns({"vllm.x": "def"}))


def test_a_stand_in_that_needs_what_is_not_declared(attempt):
    files = {A: "from vllm.platforms import x\ndef f(): return x"}
    stand_ins = {"vllm.platforms": "from vllm.b import x"}
    result = attempt(files, f"{A}:f", stand_ins=stand_ins)
    assert result.reason == "missing vllm.b (imported by the stand-in vllm.platforms)"


def test_files_are_parsed_once_per_content():
    cache = ModuleCache()
    files = {A: "from vllm.b import g\ndef f(): return g()", "vllm/b.py": "def g(): return 1"}
    entry = Entry("e", (A,), ("f",))
    first = slice_target(MemorySource(files), "t", [entry], StandIns(), cache=cache)
    assert cache.parsed == 2
    files["vllm/b.py"] = "def g(): return 2"
    later = MemorySource(files)
    second = slice_target(later, "t", [entry], StandIns(), cache=cache)
    assert cache.parsed == 3
    assert later.reads == ["vllm/b.py"]
    assert isinstance(first, Slice)
    assert isinstance(second, Slice)
    assert first.hash != second.hash


def test_a_slice_holds_until_something_it_looked_at_changes():
    files = {A: "from vllm.b import g\ndef f(): return g()", "vllm/b.py": "def g(): return 1"}
    result = sliced(Entry("e", ("vllm/new.py", A), ("f",)), files=files)
    assert holds(result, MemorySource({**files, "vllm/c.py": "new"}))
    assert not holds(result, MemorySource({**files, "vllm/new.py": "def f(): return 2"}))
    assert not holds(result, MemorySource({**files, "vllm/b.py": "def g(): return 2"}))
    assert not holds(result, MemorySource({A: files[A]}))
    gone = sliced(Entry("e", ("vllm/new.py",), ("f",)))
    assert holds(gone, MemorySource(files))
    assert not holds(gone, MemorySource({"vllm/new.py": ""}))


def test_the_cache_of_parsed_files_is_bounded():
    cache = ModuleCache(limit=100)
    entry = Entry("e", (A,), ("f",))
    for i in range(50):
        text = f"def f(): return {i}"
        slice_target(MemorySource({A: text}), "t", [entry], StandIns(), cache=cache)
    assert cache.size <= 100


def test_summary(cut):
    files = {A: "import torch\nX = 1\ndef f(x): return torch.ops._C.g(x, X)\n"}
    assert [line.split(" of ")[-1] for line in cut(files, f"{A}:f").summary()] == [
        "t",
        "  entry f: vllm/a.py:3 f",
        "1 files:",
        *cut(files, f"{A}:f").summary()[3:5],
        "  native operators: torch.ops._C.g",
    ]
