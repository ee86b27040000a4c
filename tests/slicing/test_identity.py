"""The hash follows what the code does, not where it stands or how it is written."""

from __future__ import annotations

import pytest

A = "vllm/a.py"
B = "vllm/b.py"

KERNEL = '''
from functools import partial
from vllm.b import scale, unused
from vllm.platforms import current_platform
import vllm.b as other

LIMIT = 448

if current_platform.is_rocm():
    def kernel(x: int, low=-LIMIT):
        """Clamp."""
        y: int = scale(x)
        return max(low, min(y, LIMIT))
'''
HELPERS = "def scale(x, by=2): return x * by\ndef unused(): return 1\n"


def hashed(cut, kernel=KERNEL, helpers=HELPERS, entry=f"{A}:kernel", **options) -> str:
    path = entry.split(":")[0]
    files = {path: kernel, B: helpers, "vllm/c.py": HELPERS}
    return cut(files, entry, **options).hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 448", "# a comment\nLIMIT = 448  # another"),
        ("LIMIT = 448", "LIMIT: int = 448"),
        ("LIMIT = 448", "LIMIT = (448)\n\n"),
        ("LIMIT = 448", "LIMIT = 0x1C0"),
        ("LIMIT = 448", "NEW = LIMIT_OF = 3\nLIMIT = 448\ndef more(): return gone"),
        ('"""Clamp."""', '"""Clamp it."""'),
        ('        """Clamp."""\n', ""),
        ("x: int, low=-LIMIT", "x: 'Tensor | None', low: float = -LIMIT"),
        ("y: int = scale(x)", "y = scale(\n            x,\n        )"),
        ("scale, unused", "scale"),
        ("from vllm.b import scale, unused", "from .b import scale"),
        ("from vllm.b import scale, unused", "from vllm.b import *"),
        ("from vllm.b import scale, unused", "from vllm.c import scale"),
        ("y: int = scale(x)", "assert True\n        y = scale(x)".replace("assert True", "pass")),
        ("    def kernel", "    @compiled(mode='max')\n    def kernel"),
    ],
)
def test_does_not_count(cut, old, new):
    changed = KERNEL.replace(old, new)
    assert changed != KERNEL
    if "@compiled" in new:
        changed = "from torch import compile as compiled\n" + changed
    assert hashed(cut, changed) == hashed(cut)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 448", "LIMIT = 240"),
        ("LIMIT = 448", "LIMIT = 448.0"),
        ("LIMIT = 448", "LIMIT = 448\nLIMIT = 448"),
        ("LIMIT = 448", "LIMIT = 448\nLIMIT += 1"),
        ("low=-LIMIT", "low=LIMIT"),
        ("max(low", "max(-1, low"),
        ("is_rocm", "is_cuda"),
        ("if current_platform.is_rocm():", "if not current_platform.is_rocm():"),
        ("if current_platform.is_rocm():", "if current_platform.is_cuda():\n    pass\nelse:"),
        ("y: int = scale(x)", "y = scale(x=x)"),
        ("from vllm.b import scale, unused", "from vllm.b import unused as scale"),
        ("from vllm.b import scale, unused", "from math import exp as scale"),
        ("    def kernel", "    @partial\n    def kernel"),
    ],
)
def test_counts(cut, old, new):
    changed = KERNEL.replace(old, new)
    assert changed != KERNEL
    assert hashed(cut, changed) != hashed(cut)


def test_a_moved_file_keeps_its_hash_and_a_moved_helper_too(cut):
    moved = hashed(cut, entry="vllm/deep/er/b.py:kernel")
    assert moved == hashed(cut)
    files = {A: KERNEL.replace("vllm.b", "vllm.x.y"), "vllm/x/y.py": HELPERS}
    assert cut(files, f"{A}:kernel").hash == hashed(cut)
    assert hashed(cut, KERNEL.replace("def kernel", "def renamed"), entry=f"{A}:renamed") != moved


def test_helpers_count_and_their_neighbours_do_not(cut):
    assert hashed(cut, helpers=HELPERS.replace("by=2", "by=3")) != hashed(cut)
    assert hashed(cut, helpers=HELPERS.replace("return 1", "return 2")) == hashed(cut)


def test_an_alias_counts_by_what_it_names(cut):
    plain = {A: "import torch\nDT = torch.float16\ndef f(): return DT"}
    spelled = {A: "from torch import float16 as half\nDT = half\ndef f(): return DT"}
    other = {A: "import torch\nDT = torch.bfloat16\ndef f(): return DT"}
    assert cut(plain, f"{A}:f").hash != cut(other, f"{A}:f").hash
    # The name is spelled differently, so the hash may differ: but never fall together with other.
    assert cut(spelled, f"{A}:f").hash != cut(other, f"{A}:f").hash
    local = {A: "def f():\n    import torch as t\n    return t.float16"}
    aliased = {A: "def f():\n    import numpy as t\n    return t.float16"}
    assert cut(local, f"{A}:f").hash != cut(aliased, f"{A}:f").hash


def test_stand_ins_count_if_they_are_reached(cut):
    from .conftest import STAND_INS

    other = {**STAND_INS, "vllm.platforms": STAND_INS["vllm.platforms"] + "\nX = 1\n"}
    assert hashed(cut, stand_ins=other) != hashed(cut)
    unreached = {**STAND_INS, "aiter": "x = 1"}
    assert hashed(cut, stand_ins=unreached) == hashed(cut)
    importing = "import aiter\n" + STAND_INS["vllm.platforms"]
    texts = [{"vllm.platforms": importing, "aiter": f"x = {i}"} for i in (1, 2)]
    assert len({hashed(cut, stand_ins=t) for t in texts}) == 2


def test_extra_identities_count_in_any_order(cut):
    assert hashed(cut, extra=("a", "b")) == hashed(cut, extra=("b", "a")) != hashed(cut)


def test_kernel_annotations_count_because_triton_reads_them(cut):
    head = "import triton\nimport triton.language as tl\n@triton.jit\n"
    texts = [
        head + f"def k(x, N{note}):\n    return" for note in ("", ": tl.constexpr", ": tl.int32")
    ]
    assert len({cut({A: text}, f"{A}:k").hash for text in texts}) == 3


def test_fields_count_but_not_their_types(cut):
    head = "from dataclasses import dataclass\nfrom typing import ClassVar\n@dataclass\nclass D:\n"

    def field(line: str) -> str:
        return cut({A: head + f"    {line}\n"}, f"{A}:D").hash

    assert field("x: int = 1") == field("x: Unknown = 1") != field("x: ClassVar[int] = 1")
    assert field("x: int = 1") != field("x: int = 2")
    assert field("x: int = 1") != field("x = 1")


def test_definitions_blame_the_one_that_changed(cut):
    before = cut({A: KERNEL, B: HELPERS}, f"{A}:kernel").definitions
    after = cut({A: KERNEL, B: HELPERS.replace("by=2", "by=3")}, f"{A}:kernel").definitions
    assert set(before) == {"vllm.a.LIMIT", "vllm.a.kernel", "vllm.b.scale"}
    assert {name for name in before if before[name] != after[name]} == {"vllm.b.scale"}


def test_known_hash(cut):
    """The same on every Python version and machine, today and in a year: results are kept under
    it. A change here makes all kept results stale, so it must be meant."""
    assert (
        hashed(cut, stand_ins={"vllm.platforms": "current_platform = 0"})[:16] == "22b144468324561b"
    )
