"""Reproducers of toy findings, run as a user runs them: a file and an interpreter."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton

from diffuzz.errors import UsageError
from diffuzz.reproducer.bundle import bundle

from .. import toy
from ..conftest import Command

SIDES = ("right", "narrow", "asserts", "dies", "hangs", "raises", "misses a name", "needs more")
TRITON = """\
import torch
import triton
import triton.language as tl

from vllm.platforms import current_platform


@triton.jit
def _kernel(values, scale, out, total, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    loaded = tl.load(values + at, mask=at < total)
    wide = loaded.to(tl.float32) * tl.load(scale)
    tl.store(out + at, STORED, mask=at < total)


def scale_rows(values, scale, out, backend):
    total = values.numel()
    _kernel[(triton.cdiv(total, 64),)](values, scale, out, total, BLOCK=64)
"""
TRITON_VERSIONS = {
    "triton": TRITON.replace("STORED", "wide.to(out.dtype.element_ty)"),
    "triton-narrow": TRITON.replace("STORED", "wide.to(loaded.dtype)"),
    "triton-outside": TRITON.replace("STORED", "wide").replace(
        "mask=at < total)\n\n\n", "mask=at >= 0)\n\n\n"
    ),
}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    for version in SIDES:
        toy.write_tree(folder / version.replace(" ", "-"), toy.tree(version))
    for name, text in TRITON_VERSIONS.items():
        toy.write_tree(folder / name, {**toy.tree("right"), "vllm/toy/scale.py": text})
    return folder


def case_text(trees: Path, signature: str | None, baseline: str, candidate: str) -> str:
    found = "" if signature is None else f"signature: {signature}\ndirection: regression\n"
    return (
        f"target: toy_scale\n{found}baseline: path:{trees / baseline}\n"
        f"candidate: path:{trees / candidate}\nvalues: {{rows: 3, scale: 0.037}}\n"
    )


@pytest.fixture(scope="module")
def made() -> dict[tuple[str | None, ...], tuple[str, str]]:
    """Text and output of what was made already: making takes a while."""
    return {}


class Maker:
    def __init__(
        self,
        diffuzz: Command,
        trees: Path,
        folder: Path,
        made: dict[tuple[str | None, ...], tuple[str, str]],
    ) -> None:
        self._diffuzz, self._trees, self._folder, self._made = diffuzz, trees, folder, made
        self.stdout = self.stderr = ""
        self.code = 0

    def __call__(self, revision: str, signature: str | None, baseline: str, candidate: str) -> Path:
        (self._folder / "f.yaml").write_text(case_text(self._trees, signature, baseline, candidate))
        path = self._folder / f"{revision}.py"
        key = (revision, signature, baseline, candidate)
        if key in self._made:
            text, self.stdout = self._made[key]
            path.write_text(text)
            return path
        done = self._diffuzz(
            *("reproducer", "f.yaml", "--targets", toy.TARGETS, "--out", str(path)),
            *("--revision", f"path:{self._trees / revision}"),
        )
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        if done.returncode == 0:
            self._made[key] = (path.read_text(), done.stdout)
        return path


@pytest.fixture
def make(
    diffuzz: Command,
    trees: Path,
    tmp_path: Path,
    made: dict[tuple[str | None, ...], tuple[str, str]],
) -> Maker:
    return Maker(diffuzz, trees, tmp_path, made)


BARE = """\
import importlib.abc, runpy, sys


class Bare(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("diffuzz", "numpy", "hypothesis", "yaml", "git", "click", "rich"):
            raise ModuleNotFoundError(f"no {name} in a bare environment", name=name)


sys.meta_path.insert(0, Bare())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(path: Path, *words: str) -> tuple[int, str]:
    """Run as a user does. The child it starts must not find what a bare environment lacks."""
    (path.parent / "bare.py").write_text(BARE)
    text = path.read_text()
    if "BARE" not in text:  # the child is started by the file itself: put the block there too
        blocked = BARE.split("sys.argv")[0]
        first, rest = text.split("from __future__ import annotations\n", 1)
        text = f"{first}from __future__ import annotations\n# BARE\n{blocked}{rest}"
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, str(path), *words], capture_output=True, text=True, cwd=path.parent
    )
    return done.returncode, done.stdout + done.stderr


def test_a_wrong_value_on_both_sides(make: Maker) -> None:
    wrong = make("narrow", "precision:through-e4m3", "right", "narrow")
    assert make.code == 0, make.stderr
    assert "narrow: wrong" in make.stdout
    assert "right: right" in make.stdout
    assert "where diffuzz says" not in make.stdout
    code, said = run(wrong)
    assert code == 1, said
    assert "runs on: CPU: plain torch" in said
    assert "out: " in said
    assert "first at row 0, column" in said
    assert "expected" in said
    assert "actual" in said
    right = make("right", "precision:through-e4m3", "right", "narrow")
    code, said = run(right)
    assert (code, said.splitlines()[-1]) == (0, "right"), said


@pytest.mark.slow
def test_an_exception_names_vllms_own_line(make: Maker) -> None:
    signature = "'assertion:run:scale_rows:this toy wants a quantised query'"
    code, said = run(make("asserts", signature, "right", "asserts"))
    assert code == 1, said
    assert re.search(r"vllm/toy/scale.py:\d+ in scale_rows: assert backend.takes_quantised", said)
    assert run(make("right", signature, "right", "asserts"))[0] == 0


@pytest.mark.slow
def test_triton_kernels_run_without_a_gpu(make: Maker) -> None:
    code, said = run(make("triton-narrow", "precision:through-e4m3", "triton", "triton-narrow"))
    assert code == 1, said
    assert "compiled to Triton IR for gfx950" in said
    code, said = run(make("triton", "precision:through-e4m3", "triton", "triton-narrow"))
    assert code == 0, said


@pytest.mark.slow
def test_an_access_outside_is_shown_where_accesses_are_traced(make: Maker) -> None:
    path = make("triton-outside", "'out-of-bounds:run:_kernel:out'", "triton", "triton-outside")
    assert make.code == 0, make.stderr
    code, said = run(path)
    assert code == 1, said
    assert "run: out-of-bounds" in said
    code, said = run(path, "--device", "gpu")
    assert code == 125, said
    assert "a GPU does not do" in said or "traced" in said


@pytest.mark.slow
def test_a_process_that_dies_or_hangs_is_wrong(make: Maker) -> None:
    code, said = run(make("dies", None, "right", "dies"))
    assert code == 1
    assert "WRONG: the process died: signal 6" in said
    hanging = make("right", None, "right", "right")
    text = hanging.read_text().replace("def child(", "import time\n\n\ndef child(")
    text = text.replace(
        "    try:\n        device, said", "    time.sleep(60)\n    try:\n        device, said"
    )
    hanging.write_text(text)
    code, said = run(hanging, "--timeout", "3")
    assert code == 1
    assert "WRONG: still running after 3 s" in said


@pytest.mark.parametrize(
    ("version", "reason"),
    [("needs-more", "new parameter surprise")],
)
def test_what_cannot_be_told_exits_125(make: Maker, version: str, reason: str) -> None:
    path = make(version, None, "right", version)
    assert make.code == 0, make.stderr
    code, said = run(path)
    assert code == 125, said
    assert reason in said


@pytest.mark.slow
def test_it_can_be_unpacked_changed_and_run_again(make: Maker, tmp_path: Path) -> None:
    path = make("narrow", "precision:through-e4m3", "right", "narrow")
    assert run(path, "--unpack", str(tmp_path / "here"))[0] == 1
    source = tmp_path / "here" / "vllm_slice" / "vllm" / "toy" / "scale.py"
    text = source.read_text()
    assert ".to(values.dtype)" in text
    source.write_text(text.replace(".to(values.dtype)", ""))
    assert run(path, "--unpack", str(tmp_path / "here"))[0] == 0
    assert run(path)[0] == 1


def test_a_finding_that_shows_nowhere_gets_no_file(make: Maker) -> None:
    make("right", "precision:through-e5m2", "right", "narrow")
    assert make.code == 2
    assert "does not show on gfx950" in make.stderr
    assert len(make.stderr.splitlines()) == 1


def test_no_gpu_is_said_so(make: Maker) -> None:
    code, said = run(make("right", "precision:through-e4m3", "right", "narrow"), "--device", "gpu")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here: the refusal without one cannot be seen")
    assert code == 125
    assert "there is no GPU" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nofile.yaml",), "nofile.yaml: no such file"),
        (("f.yaml", "--out", "no/such/dir/x.py"), "no/such/dir/x.py"),
        (("f.yaml", "--arch", "sm90", "--arch", "gfx950"), "one --arch"),
    ],
)
def test_bad_words_are_one_clear_line(
    diffuzz: Command, trees: Path, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    (tmp_path / "f.yaml").write_text(case_text(trees, None, "right", "right"))
    done = diffuzz(
        *("reproducer", *words, "--targets", toy.TARGETS),
        *("--revision", f"path:{trees / 'right'}"),
    )
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("target", ["k3_decode", "rocm_gather", "toy_scale"])
def test_what_is_carried_imports_torch_and_triton_only(target: str) -> None:
    allowed = {"torch", "triton", "case_code", *sys.stdlib_module_names}
    needed = ("executors.triton_ir", "native.op_models", "numerics.error")
    for path, text in bundle(target, (toy.TARGETS,), needed).items():
        assert path.startswith("case_code/")
        for node in ast.walk(ast.parse(text)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                assert name.split(".")[0] in allowed, f"{path} imports {name}"
    assert triton.__version__


def test_a_target_with_more_imports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("import numpy\n\nTARGET = None\n")
    with pytest.raises(UsageError, match="imports numpy"):
        bundle("other", (str(tmp_path),), ())
