"""Names are followed across modules until nothing is left, and nothing else is kept."""

from __future__ import annotations

import pytest

A = "vllm/a.py"


def kept(result) -> set[str]:
    return {name.removeprefix("vllm.") for name in result.definitions}


def test_globals_functions_and_classes_in_one_module(loaded, cut):
    files = {
        A: """
        BASE = 3
        FACTOR = BASE * 2
        UNRELATED = undefined_name

        class Box:
            def __init__(self, value):
                self.value = value * FACTOR

        def unrelated():
            return also_undefined

        def f(x):
            return Box(x).value
        """
    }
    assert kept(cut(files, f"{A}:f")) == {"a.BASE", "a.FACTOR", "a.Box", "a.f"}
    assert loaded(files, f"{A}:f")["f"](7) == 42


@pytest.mark.parametrize(
    ("statement", "call"),
    [
        ("from vllm.b import g", "g()"),
        ("from vllm.b import g as h", "h()"),
        ("import vllm.b as c", "c.g()"),
        ("import vllm.b", "vllm.b.g()"),
        ("from vllm import b", "b.g()"),
        ("from . import b", "b.g()"),
        ("from .b import g", "g()"),
        ("from vllm.b import *", "g()"),
        ("from vllm.pack import g", "g()"),
        ("from vllm import pack as p", "p.inner.g()"),
        ("from vllm.pack.inner import (\n    g,\n    other,\n)", "g()"),
        ("import vllm.pack.inner, vllm.b", "vllm.pack.inner.g()"),
    ],
)
@pytest.mark.parametrize("local", [False, True])
def test_imports(loaded, statement, call, local):
    inside = statement if local and "*" not in statement else ""  # Python forbids a local star
    head = "" if inside else f"{statement}\n"
    body = "".join(f"    {line}\n" for line in inside.split("\n") if line)
    files = {
        "vllm/__init__.py": "import no_such_package\n",
        A: f"{head}\ndef f():\n{body}    return {call}\n",
        "vllm/b.py": "import nowhere\nfrom vllm.pack import g\n",
        "vllm/pack/__init__.py": "from .inner import g\nfrom . import inner\n",
        "vllm/pack/inner.py": "import nowhere\ndef g():\n    return 'g'\ndef other(): ...\n",
    }
    assert loaded(files, f"{A}:f")["f"]() == "g"


def test_import_of_a_name_two_modules_give_each_other_ends(attempt):
    files = {A: "from vllm.b import x\ndef f(): return x\n", "vllm/b.py": "from vllm.a import x\n"}
    assert attempt(files, f"{A}:f").reason == "missing x"


def test_definitions_that_need_each_other(loaded):
    files = {
        A: """
        from vllm.b import odd
        def even(n): return True if n == 0 else odd(n - 1)
        """,
        "vllm/b.py": """
        def odd(n):
            from vllm.a import even
            return False if n == 0 else even(n - 1)
        """,
    }
    assert loaded(files, f"{A}:even")["even"](10) is True


def test_every_binding_of_a_name_is_kept(loaded):
    files = {
        A: """
        from vllm.platforms import current_platform
        LIMITS = {"a": 1}
        LIMITS["b"] = 2
        LIMITS.update(c=3)
        LIMITS |= {"d": 4}
        OTHER = {}
        OTHER.update(x=missing_here)
        if current_platform.is_cuda():
            def size(): return "cuda"
        elif current_platform.is_rocm():
            def size(): return "rocm"
        else:
            size = None
        def f():
            return size(), LIMITS
        """
    }
    expected = ("rocm", {"a": 1, "b": 2, "c": 3, "d": 4})
    assert loaded(files, f"{A}:f")["f"]() == expected


def test_definition_under_a_condition_needs_what_the_condition_needs(attempt):
    files = {A: "if is_big():\n    def f(): return 1\n"}
    assert attempt(files, f"{A}:f").reason == "missing is_big"


def test_empty_branches_and_type_checking(loaded):
    files = {
        A: """
        from typing import TYPE_CHECKING
        from vllm.platforms import current_platform
        if TYPE_CHECKING:
            from vllm.nowhere import Config
        else:
            Config = object
        if current_platform.is_cuda():
            import nowhere
        elif current_platform.is_rocm():
            from math import floor as lower
        else:
            import elsewhere
        def f(x: Config) -> "Other":
            if TYPE_CHECKING:
                from vllm.nowhere import Thing
            y: Thing = lower(x)
            return y, Config
        """
    }
    assert loaded(files, f"{A}:f")["f"](1.5) == (1, object)


def test_scopes(loaded):
    """Names bound in a function are not taken for globals, and the reverse."""
    files = {
        A: """
        import math
        from functools import reduce as fold
        counter = 0
        items = [1, 2]
        def f(n, *rest, key=items, **more):
            global counter
            counter += 1
            total = [i * n for i in key if (last := i)]
            def inner():
                nonlocal n
                n += 1
                return n
            match rest:
                case [first, *others]:
                    total.append(first)
                case _:
                    pass
            try:
                raise ValueError
            except ValueError as error:
                total.append(type(error).__name__)
            with open(__file__) as handle:
                handle.readline()
            g = lambda z=math.pi: z
            return total, inner(), last, counter, fold(lambda a, b: a + b, key), round(g())
        """
    }
    result = loaded(files, f"{A}:f")["f"](3, 9)
    assert result == ([3, 6, 9, "ValueError"], 4, 2, 1, 3, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def f(): return helper()", "missing helper"),
        ("import flashinfer\ndef f(): return flashinfer.x", "missing flashinfer"),
        ("from aiter.ops import x\ndef f(): return x", "missing aiter.ops"),
        ("def f():\n    import aiter\n    return 1", "missing aiter"),
        ("from vllm.b import g\ndef f(): return g", "missing vllm.b.g"),
        ("from vllm.c import g\ndef f(): return g", "missing vllm.c"),
        ("import vllm.b as b\ndef f(): return b", "missing vllm.b (the module is used as a value)"),
        ("from torch import *\ndef f(): return zeros(1)", "missing zeros"),
        ("def f(:", "cannot parse vllm/a.py: line 1: invalid syntax"),
        ("def g(): ...", "no symbol f in vllm/a.py"),
        ("import torch\ndef f(x): return torch.ops.vllm.g(x)", "missing torch.ops.vllm.g"),
        ("from vllm.platforms import current_platform as c\ndef f(): return c.is_tpu()",
         "missing vllm.platforms.current_platform.is_tpu"),
        ("import vllm.platforms\ndef f(): return vllm.platforms.x", "missing vllm.platforms.x"),
    ],
)  # fmt: skip
def test_missing(attempt, text, reason):
    result = attempt({A: text, "vllm/b.py": "x = 1\n"}, f"{A}:f")
    assert result.reason == reason
    assert (A, None) not in result.dependencies
    assert A in {path for path, _ in result.dependencies}


def test_a_name_that_failed_once_fails_again(attempt):
    """``hasattr`` may fail; a plain use of the same name later must not get away with it."""
    text = "import vllm.b as b\ndef f(): return b.g if hasattr(b, 'g') else None\n"
    assert attempt({A: text, "vllm/b.py": ""}, f"{A}:f").reason == "missing vllm.b.g"


def test_hasattr_and_getattr(loaded):
    files = {
        A: """
        import vllm.b as b
        def f(): return hasattr(b, "nothing"), getattr(b, "g")(), getattr(b, "h", None)
        """,
        "vllm/b.py": "def g(): return 5\n",
    }
    assert loaded(files, f"{A}:f")["f"]() == (False, 5, None)


def test_imports_that_may_fail(loaded, cut):
    files = {
        A: """
        try:
            from flashinfer import fast
            HAS_FAST = True
        except ImportError:
            fast = None
            HAS_FAST = False
        from contextlib import suppress
        with suppress(ImportError):
            import aiter
        def f():
            try:
                import aiter
            except ImportError:
                return fast, HAS_FAST
        """
    }
    result = cut(files, f"{A}:f")
    assert result.absent == ("aiter", "flashinfer")
    assert loaded(files, f"{A}:f")["f"]() == (None, False)


def test_import_that_may_fail_is_no_definition(attempt):
    files = {A: "try:\n    import aiter\nexcept ImportError:\n    pass\ndef f(): return aiter.x\n"}
    assert attempt(files, f"{A}:f").reason == "missing aiter"


def test_incomplete_stand_in_is_not_taken_for_a_failing_import(attempt):
    text = "try:\n    from vllm.platforms import x\nexcept ImportError:\n    x = None\n"
    files = {A: text + "def f(): return x\n"}
    assert attempt(files, f"{A}:f").reason == "missing vllm.platforms.x"


def test_operators_native_and_python(loaded, cut):
    files = {
        A: """
        import torch
        from typing import Optional as Maybe
        @torch.library.custom_op("vllm::diffuzz_double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        @double.register_fake
        def _(x): return torch.empty_like(x)
        def f(x):
            if hasattr(torch.ops, "_C") and hasattr(torch.ops._C, "fast"):
                return torch.ops._C.fast.default(x)
            return torch.ops.vllm.diffuzz_double(x), triple(x)
        def _triple(x: torch.Tensor, by: Maybe[int] = None) -> torch.Tensor:
            return x * 3
        from vllm.b import direct_register_custom_op
        try:
            direct_register_custom_op(op_name="diffuzz_triple", op_func=_triple)
            triple = torch.ops.vllm.diffuzz_triple
        except AttributeError:
            triple = None
        """,
        "vllm/b.py": """
        from torch.library import Library, infer_schema
        library = Library("vllm", "FRAGMENT")
        def direct_register_custom_op(op_name, op_func):
            library.define(op_name + infer_schema(op_func, mutates_args=()))
            library.impl(op_name, op_func, dispatch_key="CPU")
        """,
    }
    assert cut(files, f"{A}:f").ops == ("torch.ops._C.fast",)
    import torch

    double, triple = loaded(files, f"{A}:f")["f"](torch.ones(2))
    assert (double.tolist(), triple.tolist()) == ([2, 2], [3, 3])
