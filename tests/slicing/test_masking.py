"""The written text: every kept line where it was, nothing else."""

from __future__ import annotations

import inspect
import textwrap
import traceback

import pytest

A = "vllm/a.py"


def test_kept_lines_stay_and_the_rest_is_empty(cut):
    text = textwrap.dedent(
        '''\
        """Docstring of the module."""
        from __future__ import annotations
        import os, math  # comment
        from typing import (
            Any,
            cast as convert,
        )
        from vllm.platforms import current_platform

        X = "é"; Y = 2
        if current_platform.is_cuda():
            import nowhere
            Z = nowhere.z
        elif current_platform.is_rocm():  # on ROCm

            def unrelated(): ...

            def f(x: Any):
                # kept
                return math.floor(convert(int, x)) + Y  # not kept
        else:
            W = 1
        V = 3
        '''
    )
    expected = textwrap.dedent(
        """\

        from __future__ import annotations
        import math
        from typing import cast as convert



        from vllm.platforms import current_platform

        X = "é"; Y = 2
        if current_platform.is_cuda():
            pass

        elif current_platform.is_rocm():  # on ROCm

            pass

            def f(x: Any):
                # kept
                return math.floor(convert(int, x)) + Y


        """
    )
    result = cut({A: text}, f"{A}:f").files[A]
    assert result.count("\n") == text.count("\n")
    assert result.rstrip("\n").split("\n") == expected.replace(
        "\n    pass\n\n    def f", "\n\n\n    def f"
    ).rstrip("\n").split("\n")


def test_tracebacks_and_sources_show_the_revisions_own_lines(loaded):
    text = "import os\n\n\ndef g(x):\n    return x\n\n\ndef f(x):\n    raise ValueError(x)\n"
    f = loaded({A: text}, f"{A}:f")["f"]
    with pytest.raises(ValueError, match="3") as caught:
        f(3)
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert frame.filename.endswith("/vllm/a.py")
    assert (frame.lineno, frame.line) == (9, "raise ValueError(x)")
    assert inspect.getsourcelines(f) == (text.splitlines(keepends=True)[7:], 8)


def test_classes_lose_what_is_not_needed(cut):
    text = textwrap.dedent(
        '''\
        from vllm.nowhere import Base, register

        @register("x")
        class Thing(
            Base,
            metaclass=Other,
        ):
            """A thing."""
            size = 1

            @staticmethod
            def shape(n: int) -> tuple[int, ...]:
                return (n, 2)

            def other(self): return missing
        '''
    )
    lines = cut({A: text}, f"{A}:Thing.shape").files[A].split("\n")
    assert [(i, line) for i, line in enumerate(lines, 1) if line] == [
        (4, "class Thing:"),
        (11, "    @staticmethod"),
        (12, "    def shape(n: int) -> tuple[int, ...]:"),
        (13, "        return (n, 2)"),
    ]


def test_dropped_decorators_leave_no_trace(loaded):
    files = {
        A: """
        import torch
        from vllm.compilation.cuts import eager
        from functools import lru_cache

        @torch.compile(
            backend=missing_here,
        )
        @lru_cache
        @eager
        def f(x):
            @torch.compile(dynamic=True)
            def inner(y):
                return y + 1
            return inner(x)
        """
    }
    f = loaded(files, f"{A}:f")["f"]
    assert f(1) == 2
    assert f.cache_info().misses == 1


def test_annotations_of_the_slice_are_never_evaluated(loaded):
    files = {
        A: """
        from dataclasses import dataclass, field
        from typing import ClassVar
        from vllm.nowhere import Config

        @dataclass
        class Data:
            config: Config
            count: ClassVar[int] = 3
            parts: list[Config] = field(default_factory=list)

        def f(x: Config, *y: Config) -> Config:
            z: Config = x
            return Data(z), Data.count
        """
    }
    data, count = loaded(files, f"{A}:f")["f"](1)
    assert (data.config, data.parts, count) == (1, [], 3)


def test_annotations_are_real_where_a_decorator_may_read_them(loaded):
    files = {
        A: """
        from vllm.b import aggregate
        from vllm.nowhere import Config
        Size = int
        @aggregate
        class Data:
            size: Size
            def method(self, x: Config): return x
        def f():
            return Data.kinds, Data.method.__annotations__
        """,
        "vllm/b.py": """
        def aggregate(cls):
            cls.kinds = dict(cls.__annotations__)
            return cls
        """,
    }
    assert loaded(files, f"{A}:f")["f"]() == ({"size": int}, {"x": "Config"})


@pytest.mark.parametrize(
    "text",
    [
        "if True: x = 1\ndef f(): return x",
        "if True: x = 1; y = 2\nelse: x = 3\ndef f(): return x",
        "if False:\n    a = 1\nelse:\n    if True:\n        x = 1\n    b = 1\ndef f(): return x",
        "if (False or\n  False  # (\n ):\n  a = 1\nelif (\n  True):\n  x = 1\ndef f(): return x",
        "x = 0\nif False:\n    x = 2\n    # end\n\nelse :\n    x = 1\ndef f(): return x",
        "if True:\n    if False:\n        x = 2\n    elif True:\n        x = 1\ndef f(): return x",
        "if True:\n    x = '''\nif'''.count('i')\n    y = 2\ndef f(): return x",
        "ü = 'ä'; x = 1\ndef f(): return x",
        "\ufeffx = 1\ndef f(): return x",
        "x = 1 \\\n  + 0\nclass C: pass\ndef f(): return x",
        "with open(__file__): x = 1\ndef f(): return x",
        "for x in (0, 1): pass\ndef f(): return x",
        "def f(): return C.x\nclass C(object): x = 1; y = 2",
        "def f(): return C.get()\nclass C:\n  v = 1\n  @classmethod\n  def get(cls): return cls.v",
        "def f(): return C().x\nclass C:\n    x = 1",
        "class B:\n    x = 1\nclass C(B): pass\ndef f(): return C.x",
        "class C:\n    x = 0\nC.x = 1\ndef f(): return C.x",
    ],
)  # fmt: skip
def test_layouts(loaded, text):
    assert loaded({A: text}, f"{A}:f")["f"]() == 1
