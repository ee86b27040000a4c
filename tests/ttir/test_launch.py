"""Launches as vLLM's launchers make them, control flow, atomics, and the compiler behind them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffuzz.arch import get_arch
from diffuzz.executors.triton_ir import TritonIRExecutor
from diffuzz.executors.ttir.errors import CompileError, Unsupported
from diffuzz.executors.ttir.locations import shown_path
from diffuzz.executors.ttir.reader import check_against, read, shapes

from . import kernels
from .conftest import Start
from .kernels import line_of


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "sm90", "sm100"])
def test_every_arch_lowers_and_runs(start: Start, arch: str) -> None:
    launcher = start(arch)
    x = torch.randn(5, 20)
    y = torch.zeros(5, 20, dtype=torch.bfloat16)
    grid = lambda meta: (x.shape[0] + 0 * meta["BLOCK"],)  # noqa: E731
    kernels.scale_rows[grid](x, y, n=20, stride=20, factor=1.5, BLOCK=32)
    assert torch.equal(y, (x * 1.5).to(torch.bfloat16))
    assert launcher.reports == []


def test_heuristics_and_autotune(start: Start) -> None:
    x, y = torch.zeros(40), torch.zeros(40)
    start()
    kernels.by_heuristic[(1,)](x, y, 40)
    assert y.tolist() == [64.0] * 40
    grid = lambda meta: (-(-40 // meta["BLOCK"]),)  # noqa: E731
    kernels.by_autotune[grid](x, y, 40)
    assert y.tolist() == [16.0] * 40
    start(autotune_config=1)
    kernels.by_autotune[grid](x, y, 40)
    assert y.tolist() == [64.0] * 40


def follow(p: int, a: int, n: int) -> int | None:
    """What the kernel ``paths`` stores for program ``p``."""
    if p % 5 == 0:
        return None
    t = a
    for i in range(p % 7, a, 2):
        if i % 3 == p % 3:
            t += i * 2
            continue
        j = i
        while j > 1:
            j = j // 2 if j % 2 == 0 else 3 * j + 1
            t += 1
    return -t if t > n and a > 10 else t


@pytest.mark.parametrize("together", [1, 7, 4096])
def test_divergent_control_flow(start: Start, together: int) -> None:
    start(max_programs=together)
    x = torch.randint(0, 20, (200,), dtype=torch.int32, generator=torch.Generator().manual_seed(2))
    y = torch.full((200,), -999, dtype=torch.int32)
    kernels.paths[(200,)](x, y, 50)
    for p in range(200):
        want = follow(p, int(x[p]), 50)
        assert int(y[p]) == (-999 if want is None else want)


@pytest.mark.parametrize("together", [3, 4096])
def test_atomics(start: Start, together: int) -> None:
    launcher = start(max_programs=together)
    counter, out = torch.zeros(1, dtype=torch.int32), torch.full((50,), -1, dtype=torch.int32)
    largest = torch.zeros(1, dtype=torch.int32)
    kernels.tickets[(50,)](counter, out, largest)
    assert counter.item() == 50
    assert sorted(out.tolist()) == list(range(50))
    assert largest.item() == 49
    slots, won = torch.zeros(3, dtype=torch.int32), torch.zeros(10, dtype=torch.int32)
    kernels.claim[(10,)](slots, won)
    assert won.tolist() == [1, 1, 1] + [0] * 7
    assert slots.tolist() == [1, 2, 3]
    assert launcher.reports == []


def test_calls_inlined_and_not(start: Start) -> None:
    start()
    x, y = torch.randn(16), torch.zeros(16)
    kernels.calls[(1,)](x, y, 16)
    assert torch.equal(y, x * 2 - (x + 2) - 3)


def test_pointers_read_from_memory(start: Start) -> None:
    launcher = start()
    rows = torch.randn(3, 16)
    table = torch.tensor([rows[k].data_ptr() for k in (2, 0, 1)])
    y = torch.zeros(3, 16)
    kernels.through_table[(3,)](table, y, 16)
    assert [r.kind for r in launcher.reports] == ["out-of-bounds"], "rows is not an argument"
    launcher.clear()
    launcher.also_reachable(rows)
    kernels.through_table[(3,)](table, y, 16)
    assert launcher.reports == []
    assert torch.equal(y, rows[[2, 0, 1]])


def test_a_refused_kernel_names_its_line(start: Start) -> None:
    start()
    with pytest.raises(CompileError, match="ot") as caught:
        kernels.bad_types[(1,)](torch.zeros(16), torch.zeros(16), 16)
    location = caught.value.location
    assert location is not None
    assert location.line == line_of("refused")
    assert location.function == "bad_types"
    assert location.file.endswith("kernels.py")


def test_an_fp8_flavour_the_arch_lacks_does_not_compile() -> None:
    executor = TritonIRExecutor()
    assert executor.name == "triton-ir"
    assert executor.device == "cpu"
    with pytest.raises(RuntimeError, match="prepare"):
        executor.begin()


@pytest.mark.parametrize("arch", ["gfx942", "sm90"])
def test_binaries(start: Start, arch: str) -> None:
    launcher = start(arch)
    kernels.masked_copy[(1,)](torch.zeros(32), torch.zeros(32), 32, 32)
    (key,) = launcher.compiled
    assert launcher.binary(key) is None


def test_a_binary_that_cannot_be_made_gives_the_compilers_message(start: Start) -> None:
    launcher = start("gfx942")
    x, y = torch.zeros(32), torch.zeros(32, dtype=torch.float8_e4m3fnuz)
    kernels.scale_rows[(1,)](x, y, 32, 32, 1.0, 32)
    (key,) = launcher.compiled
    assert launcher.binary(key) is None, "FNUZ is native to gfx942"
    hopper = start("sm90")
    message = None
    try:
        kernels.scale_rows[(1,)](x, y, 32, 32, 1.0, 32)
    except CompileError as error:
        message = error.message
    else:
        (key,) = hopper.compiled
        message = hopper.binary(key)
    assert message, "sm90 has no FNUZ"


def test_kernels_that_lower_but_do_not_compile_are_named(start: Start) -> None:
    launcher = start("sm90")
    kernels.masked_copy[(1,)](torch.zeros(32), torch.zeros(32), 32, 32)
    x = torch.zeros(32, dtype=torch.int32)
    with pytest.raises(Unsupported, match="inline_asm"):
        kernels.no_such_instruction[(1,)](x, x.clone(), 32)
    (failure,) = launcher.compile_failures()
    assert failure.message
    assert failure.location is not None
    assert failure.location.function == "no_such_instruction"
    launcher.clear()
    assert launcher.compile_failures() == []


def test_kernels_are_lowered_once(start: Start) -> None:
    launcher = start()
    for n in (32, 48, 64):
        kernels.masked_copy[(1,)](torch.zeros(64), torch.zeros(64), n, 64)
    assert len(launcher.compiled) == 1
    kernels.masked_copy[(1,)](torch.zeros(64), torch.zeros(64), 33, 64)
    assert len(launcher.compiled) == 2, "33 is not divisible by 16: specialised anew"


def test_knobs_for_masked_loads(start: Start) -> None:
    start()
    x, y = torch.ones(8), torch.zeros(16)
    kernels.half_masked[(1,)](x, y, 8, 16)
    assert y.tolist() == [1.0] * 8 + [0.0] * 8
    start(masked_load="poison")
    kernels.half_masked[(1,)](x, y, 8, 16)
    assert y[:8].tolist() == [1.0] * 8
    assert bool(y[8:].isnan().all())


def test_what_was_read_is_compared_with_what_was_compiled(start: Start) -> None:
    launcher = start()
    kernels.paths[(1,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32), 1)
    (key,) = launcher.compiled
    lowered = launcher.compiler.lower(launcher.compiled[key])
    check_against(read(lowered.text), lowered.walked)
    assert sum(shapes(read(lowered.text)).values()) == len(lowered.walked)
    without_a_store = "\n".join(t for t in lowered.text.splitlines() if "tt.store" not in t)
    with pytest.raises(Unsupported, match=r"not understood: tt\.store"):
        check_against(read(without_a_store), lowered.walked)
    with pytest.raises(Unsupported, match="unreadable"):
        read(lowered.text[: len(lowered.text) // 2])


def test_paths_are_shown_from_the_last_vllm_folder_on() -> None:
    assert shown_path("/x/vllm/slices/ab/vllm/v1/ops.py") == "vllm/v1/ops.py"
    assert shown_path("/x/vllm.py") == "/x/vllm.py"
    assert shown_path("/x/slice/vllm/a.py", "/x/slice") == "vllm/a.py"
    assert shown_path("/y/other.py", "/x/slice") == "/y/other.py"


def test_the_adapter(start: Start) -> None:
    start()
    executor = TritonIRExecutor()
    executor.prepare(get_arch("gfx950"), str(Path(__file__).parent))
    executor.begin()
    kernels.read_past[(4,)](torch.ones(100), torch.zeros(100), 100, 32)
    (report,) = executor.reports()
    assert report.location is not None
    assert report.location.file == "kernels.py"
    assert executor.compile_failures() == ()
    executor.begin()
    assert executor.reports() == ()


@pytest.mark.parametrize("arch", ["gfx942", "sm90", "sm100"])
def test_tensor_descriptors_made_in_the_kernel(start: Start, arch: str) -> None:
    launcher = start(arch)
    x = torch.randn(20, 36)
    y = torch.zeros(20, 36)
    kernels.by_descriptor[(2, 3)](x, y, 20, 36, 16, 16)
    assert torch.equal(y, x * 2)
    assert launcher.reports == []


def test_tensor_descriptors_as_arguments_are_refused(start: Start) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    start("sm90")
    descriptor = TensorDescriptor.from_tensor(torch.randn(16, 16), [16, 16])
    with pytest.raises(Unsupported):
        kernels.from_host_descriptor[(1,)](descriptor, torch.zeros(16), 16, 16)
