"""Sanitized replays of cases: memory that an op has no business with is guarded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffuzz import discovery, planning
from diffuzz.arch import get_arch
from diffuzz.case import make_case
from diffuzz.executors import native_ops
from diffuzz.executors.sanitized import replay
from diffuzz.executors.worker import Setup
from diffuzz.native.guarding import guards
from tests.native.toy import FILES, KERNEL_PATH, line_of, mutated, revision

PYTHON = """
import torch


def insert(x, cache, scales, slots, gain):
    torch.ops._C.toy_insert(x, cache, scales, slots, gain)
"""
FOLDERS = (str(Path(__file__).with_name("toy_targets")),)
STORE, LOAD = line_of("row[lane * 2] ="), line_of("float2 const v =")


def covered(spans: list[tuple[int, int]], tensor: torch.Tensor) -> torch.Tensor:
    """Which bytes of the storage of a contiguous uint8 ``tensor`` the spans hold."""
    mask = torch.zeros(tensor.untyped_storage().nbytes(), dtype=torch.bool)
    for start, size in spans:
        first = start - tensor.untyped_storage().data_ptr()
        if 0 <= first < len(mask):
            mask[first : first + size] = True
    return mask.view(tensor.shape)


def test_what_lies_outside_of_views_and_slots_is_guarded():
    cache = torch.zeros(2, 5, 80, dtype=torch.uint8)
    x = torch.zeros(3, 80, dtype=torch.uint8)
    tensors = {
        "x": x[:, 16:64],
        "k_cache": cache[:, :4, :64],
        "slots": torch.tensor([5, -1, 900]),
    }
    spans = guards(tensors, {"k_cache"})
    expected = torch.ones_like(cache, dtype=torch.bool)
    expected[1, 1, :64] = False
    assert torch.equal(covered(spans, cache), expected)
    expected = torch.ones_like(x, dtype=torch.bool)
    expected[:, 16:64] = False
    assert torch.equal(covered(spans, x), expected)


def test_views_of_one_storage_do_not_guard_each_other():
    fused = torch.zeros(3, 80)
    assert guards({"q": fused[:, :64], "k": fused[:, 64:]}, set()) == []


def replayed(folder: Path, files: dict[str, str], *cases: dict[str, object]):
    """Reports of each case, on a revision of ``files``."""
    arch, target = get_arch("sm90"), discovery.load("toy_insert", FOLDERS)
    source = revision(folder, {**files, "vllm/toy_ops.py": PYTHON})
    piece = planning.cut(source, target, arch)
    plan = native_ops.plan(piece.closure, arch, sanitize=True)
    piece.slice.write(folder / "slice")
    setup = Setup(
        slice_dir=str(folder / "slice"),
        target=target.name,
        target_folders=FOLDERS,
        arch=arch.name,
        executor="cpu",
        native=plan.to_dict(),
        log=str(folder / "log"),
        memory_limit=0,
    )
    made = [make_case(target.name, target.axes, values) for values in cases]
    found = replay(setup, made)
    return [found.get(case.id, ()) for case in made]


def place(report) -> tuple[str, str, int]:
    return report.kind, report.location.file, report.location.line


@pytest.mark.slow
def test_a_right_kernel_is_clean_and_a_slot_outside_is_named(tmp_path):
    clean, skipped, outside = replayed(
        tmp_path, FILES, {"rows": 3}, {"slot": "skipped"}, {"slot": "outside"}
    )
    assert clean == skipped == ()
    assert ("out-of-bounds", KERNEL_PATH, STORE) in {place(r) for r in outside if r.location}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("slot % block_size * row", "(slot + 1) % block_size * row", STORE),
        ("token * x_stride + lane * 2", "token * x_stride + lane * 2 + 64", LOAD),
    ],
)
def test_memory_that_is_there_but_foreign_is_guarded(tmp_path, old, new, line):
    (reports,) = replayed(tmp_path, mutated(old, new), {"rows": 3})
    assert ("out-of-bounds", KERNEL_PATH, line) in {place(r) for r in reports if r.location}
    assert "use after poison" in reports[0].message
