"""A launcher in the place of Triton's for the length of one test."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from diffuzz.arch import get_arch
from diffuzz.executors.ttir.knobs import Knobs
from diffuzz.executors.ttir.launch import Launcher, install

Start = Callable[..., Launcher]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """``start(arch="gfx942", **knobs)`` installs a launcher; undone after the test
    (but for Triton's driver: without a GPU there is none to go back to)."""
    monkeypatch.setattr(JITFunction, "run", JITFunction.run)
    monkeypatch.setattr(Autotuner, "run", Autotuner.run)

    def begin(arch: str = "gfx942", root: str | None = None, **knobs: object) -> Launcher:
        launcher = Launcher(get_arch(arch), root, Knobs(**knobs))  # type: ignore[arg-type]
        install(launcher)
        return launcher

    return begin
