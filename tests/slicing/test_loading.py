"""A written slice runs by itself, and only by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from diffuzz.errors import SourceUnavailable
from diffuzz.slicing import NotInSlice, load, unload

A = "vllm/a.py"


def test_stand_ins_are_part_of_what_is_written(loaded, tmp_path):
    files = {
        A: """
        from vllm.platforms import current_platform
        import aiter.ops.shuffle as shuffle
        def f():
            from aiter import version
            return current_platform.name, shuffle.apply(2), version
        """
    }
    stand_ins = {
        "vllm.platforms": "class P:\n    name = 'p'\ncurrent_platform = P()\n",
        "aiter": "version = 9\n",
        "aiter.ops.shuffle": "def apply(x): return -x\n",
    }
    assert loaded(files, f"{A}:f", stand_ins=stand_ins)["f"]() == ("p", -2, 9)
    assert (tmp_path / "stand_ins/aiter/ops/shuffle/__init__.py").exists()
    moved = tmp_path.with_name("moved")
    tmp_path.rename(moved)
    assert load(moved)["f"]() == ("p", -2, 9)


def test_what_is_imported_behind_the_slices_back_is_not_there(loaded):
    files = {
        A: "import importlib\ndef f(): return importlib.import_module('vllm.b')",
        "vllm/b.py": "",
    }
    with pytest.raises(NotInSlice, match=r"missing vllm\.b \(imported while running\)"):
        loaded(files, f"{A}:f")["f"]()


def test_loading_again_forgets_the_first(cut, tmp_path):
    results = []
    for value in (1, 2):
        cut(
            {A: f"from vllm.b import g\ndef f(): return g({value})", "vllm/b.py": "g = int"},
            f"{A}:f",
        ).write(tmp_path / str(value))
        results.append(load(tmp_path / str(value))["f"]())
    assert results == [1, 2]
    unload()
    assert not any(name.partition(".")[0] == "vllm" for name in sys.modules)


def test_writing_over_another_slice(cut, tmp_path):
    cut(
        {A: "from vllm.b import g\ndef f(): return g()", "vllm/b.py": "def g(): return 1"}, f"{A}:f"
    ).write(tmp_path)
    second = cut({A: "def f(): return 2"}, f"{A}:f")
    second.write(tmp_path)
    assert not (tmp_path / "vllm/b.py").exists()
    assert load(tmp_path)["f"]() == 2
    unload()
    stamp = (tmp_path / A).stat().st_mtime_ns
    second.write(tmp_path)
    assert (tmp_path / A).stat().st_mtime_ns == stamp


def test_a_folder_without_a_slice(tmp_path):
    with pytest.raises(SourceUnavailable, match="no slice in"):
        load(tmp_path)


KERNEL = """
from vllm.platforms import current_platform
UNRELATED = missing
if current_platform.is_rocm():
    from vllm.triton_utils import tl, triton
    STEP = tl.constexpr(3)

    @triton.jit
    def add(a, b):
        return a + b * STEP

    @triton.jit
    def kernel(x_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n, other=0.0)
        tl.store(x_ptr + at, add(x, at.to(tl.float32)), mask=at < n)

    def launch(x):
        kernel[(triton.cdiv(x.numel(), 4),)](x, x.numel(), BLOCK=4)
"""

TRITON_UTILS = {
    "vllm/triton_utils/__init__.py": """
        from typing import TYPE_CHECKING
        from vllm.triton_utils.importing import HAS_TRITON, Placeholder
        if TYPE_CHECKING or HAS_TRITON:
            import triton
            import triton.language as tl
        else:
            triton = Placeholder()
            tl = Placeholder()
        """,
    "vllm/triton_utils/importing.py": """
        from importlib.util import find_spec
        HAS_TRITON = find_spec("triton") is not None
        class Placeholder: ...
        """,
}


def test_triton_finds_the_source_of_sliced_kernels(cut, tmp_path):
    """Compiled here for an AMD chip, in a process of its own: Triton reads the source files."""
    cut({A: KERNEL, **TRITON_UTILS}, f"{A}:launch", f"{A}:kernel").write(tmp_path)
    script = """
import sys
from pathlib import Path
from diffuzz.slicing import load
import triton
from triton.backends.compiler import GPUTarget
kernel = load(Path(sys.argv[1]))["kernel"]
source = triton.compiler.ASTSource(
    kernel, {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {(2,): 4}
)
text = str(triton.compile(source, target=GPUTarget("hip", "gfx942", 64)).asm["ttir"])
print("tt.store" in text, 'vllm/a.py":14' in text)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "TRITON_CACHE_DIR": str(tmp_path / "c")},
        check=False,
    )
    assert done.stdout.split() == ["True", "True"], done.stderr
