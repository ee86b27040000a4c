"""Putting definitions back: text in, text out."""

from __future__ import annotations

import ast

import pytest

from diffuzz.bisect.reverting import Overlay, Unit, changed_units, put_back, spans_of
from diffuzz.slicing import Slice
from diffuzz.sources.directory import DirectorySource

from .. import toy

TEXT = """\
import os

LIMIT: int = 3
A, B = 1, 2


@decorated(
    "twice"
)
def one(x):
    return x


if os.name == "posix":

    def two():
        return 2

else:

    def two():
        return 3


class Box:
    def get(self):
        return 1
"""


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        ("LIMIT", [(3, 3)]),
        ("B", [(4, 4)]),
        ("one", [(7, 11)]),
        ("two", [(16, 17), (21, 22)]),
        ("Box.get", [(26, 27)]),
        ("nowhere", []),
    ],
)
def test_where_a_symbol_is_bound(symbol: str, lines: list[tuple[int, int]]) -> None:
    assert [(s.first, s.last) for s in spans_of(TEXT, symbol)] == lines


def test_replaced_in_place_with_its_indentation() -> None:
    text = put_back(TEXT, "two", ["def two():\n    return 20", "def two():\n    return 30"])
    assert "    def two():\n        return 20\n" in text
    assert text.replace("20", "2").replace("30", "3") == TEXT
    text = put_back(TEXT, "Box.get", ["def get(self, y):\n    return y"])
    assert "class Box:\n    def get(self, y):\n        return y\n" in text


def test_added_and_removed() -> None:
    text = put_back(TEXT, "three", ["def three():\n    return 3"])
    assert [s.last for s in spans_of(text, "three")] == [text.count("\n")]
    text = put_back(TEXT, "Box.put", ["def put(self):\n    pass"])
    assert len(spans_of(text, "Box.put")) == 1
    text = put_back(TEXT, "two", [])
    ast.parse(text)
    assert spans_of(text, "two") == []


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(ValueError, match="defined 1 times, then 2 times"):
        put_back(TEXT, "two", ["def two(): ..."])
    with pytest.raises(ValueError, match="no class Bag"):
        put_back(TEXT, "Bag.get", ["def get(self): ..."])
    assert spans_of("def broken(", "broken") == []


def piece(definitions: dict[str, str]) -> Slice:
    return Slice("toy", "0" * 64, {}, definitions, {}, frozenset())


def test_units_are_what_differs() -> None:
    before = piece({"vllm.a.same": "1", "vllm.a.new": "1", "vllm.a.moved": "1", "vllm.a.x": "1"})
    after = piece({"vllm.a.same": "1", "vllm.a.new": "2", "vllm.b.moved": "2", "vllm.a.y": "1"})
    native = ({"csrc/a.cu": "1", "csrc/b.cu": "1"}, {"csrc/a.cu": "2", "csrc/b.cu": "1"})
    assert set(changed_units(before, after, native)) == {
        Unit("vllm.a.new", "vllm.a.new"),
        Unit("vllm.a.moved", "vllm.b.moved"),
        Unit("vllm.a.x", None),
        Unit(None, "vllm.a.y"),
        Unit("csrc/a.cu", "csrc/a.cu"),
    }


def test_a_definition_that_only_moved_did_not_change() -> None:
    before, after = piece({"vllm.a.f": "1"}), piece({"vllm.b.f": "1"})
    assert changed_units(before, after, ({}, {})) == ()


def test_an_overlay_is_a_source(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = toy.write_tree(tmp_path_factory.mktemp("tree"), toy.tree("right"))
    below = DirectorySource(folder)
    texts = {"vllm/toy/scale.py": "x = 1\n", "vllm/new.py": "", "vllm/backends/all.py": None}
    over = Overlay(below, texts)
    assert over.read("vllm/toy/scale.py") == "x = 1\n"
    assert over.blob_id("vllm/toy/scale.py") != below.blob_id("vllm/toy/scale.py")
    assert over.blob_id("vllm/__init__.py") == below.blob_id("vllm/__init__.py")
    assert over.exists("vllm/new.py")
    assert not over.exists("vllm/backends/all.py")
    assert "vllm/new.py" in over.list("vllm")
    assert "vllm/backends/all.py" not in over.list("vllm")
