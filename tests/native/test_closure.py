"""From op names to files, by symbol."""

from __future__ import annotations

import pytest

from diffuzz.native.closure import ClosureError, find_closure
from tests.native.toy import FILES, KERNEL, KERNEL_PATH, closure_of, mutated, revision


def test_an_op_is_followed_to_its_source_and_includes(tmp_path):
    closure = closure_of(tmp_path)
    (op,) = closure.ops
    assert (op.source, op.function, op.stable) == (KERNEL_PATH, "toy::toy_insert", True)
    assert op.schema.startswith("toy_insert(Tensor x, Tensor! cache,")
    assert op.schema.endswith("float gain) -> ()")
    assert list(closure.files) == ["csrc/lanes.cuh", "csrc/ops.h", KERNEL_PATH]
    assert closure.external == ()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_op", "missing op no_such_op"),
        ("commented_out", "missing op commented_out"),
        ("declared_only", "not emulatable: declared_only has no named implementation"),
        ("nvidia_only", "not emulatable: no definition of nvidia_only"),
        ("_other::toy_insert", "missing op toy_insert"),
    ],
)
def test_what_cannot_be_followed_has_a_reason(tmp_path, name, reason):
    with pytest.raises(ClosureError) as raised:
        find_closure(revision(tmp_path), [name], rocm=False)
    assert raised.value.reason == reason


def test_an_op_of_another_platform_is_missing(tmp_path):
    with pytest.raises(ClosureError, match="missing op nvidia_only"):
        find_closure(revision(tmp_path), ["nvidia_only"], rocm=True)


def test_the_hash_ignores_comments_layout_paths_and_the_other_platform(tmp_path):
    base = closure_of(tmp_path / "a")
    commented = {**FILES, KERNEL_PATH: "// a note\n\n" + KERNEL.replace("  int", "    int")}
    moved = {p.replace("csrc/toy/", "csrc/libtorch_stable/"): t for p, t in FILES.items()}
    rocm_only = mutated("__shfl_xor(v, step, 32)", "__shfl_xor(v, step)", "csrc/lanes.cuh")
    for number, files in enumerate((commented, moved, rocm_only)):
        changed = closure_of(tmp_path / str(number), files)
        assert changed.hash == base.hash
        assert changed.text_hash != base.text_hash
    assert (
        closure_of(tmp_path / "c", rocm_only, rocm=True).hash
        != closure_of(tmp_path / "d", rocm=True).hash
    )


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        (KERNEL_PATH, "lane * 2 + 1", "lane * 2"),
        ("csrc/lanes.cuh", "step = 16", "step = 8"),
        ("csrc/torch_bindings.cpp", "float gain)", "float gain, bool fast=False)"),
    ],
)
def test_the_hash_covers_kernel_includes_and_schema(tmp_path, path, old, new):
    changed = {**FILES, path: FILES[path].replace(old, new)}
    assert closure_of(tmp_path / "a", changed).hash != closure_of(tmp_path / "b").hash


def test_older_bindings_are_understood(tmp_path):
    bindings = """
    TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
      ops.def("toy_insert(Tensor x) -> ()");
      ops.impl("toy_insert", torch::kCUDA, &toy_insert);
    }
    TORCH_LIBRARY_EXPAND(CONCAT(TORCH_EXTENSION_NAME, _cache_ops), cache) {
      cache.def("swap(Tensor a) -> ()");
      cache.impl("swap", torch::kCPU, &swap_on_cpu);
      cache.impl("swap", torch::kCUDA, &swap);
    }
    """
    kernels = "void toy_insert(torch::Tensor& x) {}\\nvoid swap(torch::Tensor& a) { f(a); }"
    source = revision(
        tmp_path, {"csrc/torch_bindings.cpp": bindings, "csrc/old.cu": kernels.replace("\\n", "\n")}
    )
    closure = find_closure(source, ["toy_insert", "_C_cache_ops::swap"], rocm=False)
    assert [(op.name, op.function, op.stable) for op in closure.ops] == [
        ("swap", "swap", False),
        ("toy_insert", "toy_insert", False),
    ]


def test_two_definitions_are_told_apart_by_platform_or_refused(tmp_path):
    twin = {**FILES, "csrc/toy/insert_kernel_rocm.cu": KERNEL}
    assert closure_of(tmp_path / "a", twin).sources == (KERNEL_PATH,)
    assert closure_of(tmp_path / "b", twin, rocm=True).sources == (
        "csrc/toy/insert_kernel_rocm.cu",
    )
    twins = {**FILES, "csrc/toy/insert_again.cu": KERNEL}
    with pytest.raises(ClosureError, match="toy_insert is defined in 2 files"):
        closure_of(tmp_path / "c", twins)


def test_an_include_that_leads_nowhere_is_told(tmp_path):
    files = mutated("#include <cfloat>", '#include "cutlass/cutlass.h"')
    assert closure_of(tmp_path, files).external == ("cutlass/cutlass.h",)
