"""Capability flags as classes of a revision set them."""

from __future__ import annotations

import textwrap

import pytest

from diffuzz.slicing.flags import class_flags

from .conftest import MemorySource

BASE = """
class Base(Generic[T], abc.ABC):
    flag: bool = False
class Other:
    flag: bool
    size = 1
"""


def flags(text: str, **files: str) -> dict[str, str]:
    tree = {"vllm/x/base.py": BASE, "vllm/x/a.py": textwrap.dedent(text)}
    tree.update({f"vllm/x/{name}.py": textwrap.dedent(t) for name, t in files.items()})
    found = class_flags(MemorySource(tree), "flag", ["vllm/x"])
    return {
        name: str(value).replace("vllm/x/", "") for name, value in found.items() if name != "Base"
    }


INIT = "class A(Base):\n    def __init__(self):\n        "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class A(Base): pass", "False at base.py:3"),
        ("class A(Base):\n    flag = True", "True at a.py:2"),
        ("class A(m.Base[X], Y):\n    flag: bool = True", "True at a.py:2"),
        ("class A:\n    pass", None),
        ("class A(Other):\n    flag: bool", None),
        ("class A(\n    Other,\n    Base,  # x\n    metaclass=M,\n): pass", "False at base.py:3"),
        ("class A:\n    def __init__(self):\n        self.flag = True", "True at a.py:3"),
        ("class A(Base):\n    def __init__(me):\n        me.flag = True", "True at a.py:3"),
        (INIT + "self.flag: bool = True", "True at a.py:3"),
        (INIT + "self.flag = ok()", "conditional at a.py:3"),
        (INIT + "self.flag = not 1", "conditional at a.py:3"),
        (INIT + "self.flag &= True", "conditional at a.py:3"),
        (INIT + "if x: self.flag = True", "conditional at a.py:3"),
        (INIT + "if x: self.flag = False", "False at a.py:3"),
        (INIT + "self.flag = x\n        if x: self.flag = False", "conditional at a.py:4"),
        (INIT + "if x: self.flag = True\n        else: self.flag = True", "True at a.py:3"),
        (INIT + "self.flag = True\n        self.flag = False", "False at a.py:4"),
        (INIT + "with x: self.flag = True", "conditional at a.py:3"),
        (INIT + "pass\n    def later(self):\n        self.flag = True", "conditional at a.py:5"),
        ("if x:\n    class A(Base):\n        flag = True\n\n    y = 1", "True at a.py:3"),
    ],
)
def test_values(text, expected):
    assert flags(text).get("A") == expected


def test_constructors_across_files():
    parent = """
    class Parent(Base):
        def __init__(self):
            super().__init__()
            self.flag = True
    """
    child = """
    class Plain(Parent):
        pass
    class Calls(Parent):
        def __init__(self, x):
            super().__init__()
            self.x = x
    class Silent(Parent):
        def __init__(self):
            self.x = 1
    class Undoes(Parent):
        def __init__(self):
            super().__init__()
            if quantized(self):
                self.flag = False
    class BodyOnly(Parent):
        flag = False
    """
    assert flags(child, parent=parent) == {
        "Parent": "True at parent.py:5",
        "Plain": "True at parent.py:5",
        "Calls": "True at parent.py:5",
        "Silent": "False at base.py:3",
        "Undoes": "conditional at a.py:15",
        "BodyOnly": "True at parent.py:5",
    }


def test_two_classes_of_one_name():
    text = "class A(Base):\n    flag = True\nclass B(A): pass"
    other = "class A(Base):\n    flag = False\nclass C(A): pass"
    assert flags(text, b=other) == {
        "A": "True at a.py:2",
        "B": "True at a.py:2",
        "vllm/x/b.py:A": "False at b.py:2",
        "C": "False at b.py:2",
    }


def test_who_decides_is_named():
    tree = {"vllm/x/base.py": BASE, "vllm/x/a.py": "class A(Base): pass"}
    assert class_flags(MemorySource(tree), "flag", ["vllm/x/"])["A"].set_by == "Base"
