"""Targets: a kernel under test, where it lives over time, and what is right for it.

A target is one Python file in ``targets/`` that ends in ``TARGET = ...``. It states facts about
vLLM (symbols, files, parameters) and about arithmetic; it never names a commit or a version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, Union

from diffuzz.arch import Arch
from diffuzz.case import Axis, Case

if TYPE_CHECKING:
    from torch import Tensor

    from diffuzz.expected import Expected, ExpectedBits
    from diffuzz.sources import Source

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A symbol a target calls.

    ``name`` is how the target refers to it; ``paths`` where its file has been over time, newest
    first (the first that exists and defines one of ``symbols`` wins); ``symbols`` what it has been
    called, dotted for methods (``Class.method``). ``optional`` symbols may be absent, because they
    did not exist yet.
    """

    name: str
    paths: tuple[str, ...]
    symbols: tuple[str, ...]
    optional: bool = False


@dataclass(frozen=True)
class StandIns:
    """What the platform provides and the slice must not pull in.

    ``modules`` maps a module name (``vllm.platforms``) to the source text of its replacement.
    The text takes part in the slice's hash. Names a stand-in module does not define are
    unresolved, hence ``missing NAME``: a stand-in never grows by accident.
    """

    modules: Mapping[str, str] = field(default_factory=dict)


Expectation = Union["Expected", "ExpectedBits"]


class Target(Protocol):
    """What a target must state. See ``targets/rocm_gather`` for one written out.

    It may also state ``dims``: what the axes of an output are called, as ``{"key": ("token",
    "head", "column")}``, for reproducers to name the first wrong element by.
    """

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """One line: what the kernel does."""
        ...

    @property
    def axes(self) -> Sequence[Axis]: ...

    @property
    def archs(self) -> Sequence[str]:
        """Architectures it runs on in vLLM; the first is the default."""
        ...

    @property
    def entries(self) -> Sequence[Entry]: ...

    def stand_ins(self, arch: Arch) -> StandIns: ...

    def allowed(self, case: Case) -> str | None:
        """Why the contract excludes this combination of axis values, or None if it is allowed."""
        ...

    def settle(self, case: Case) -> Case:
        """A case near ``case`` that is allowed: axes that others decide take what they must.

        ``settle`` of an allowed case is that case. Generation draws every axis freely and then
        settles, so that no combination of modes is rare because its neighbours are excluded.
        """
        ...

    def inputs(self, case: Case, arch: Arch) -> Inputs:
        """Tensors and scalars of the case, on the CPU; a pure function of its arguments."""
        ...

    def run(
        self, code: Mapping[str, Any], case: Case, arch: Arch, inputs: Inputs
    ) -> dict[str, Tensor]:
        """Call the slice (``code`` maps entry names to callables) and return every output that is
        judged. Runs in the worker, inputs already on its device."""
        ...

    def expected(self, case: Case, arch: Arch, inputs: Inputs) -> dict[str, Expectation]:
        """The truth for each output, from the inputs alone. Runs where the judging runs."""
        ...

    def facts(self, source: Source) -> Mapping[str, Any]:
        """What the revision itself says about who reaches the kernel, such as backends' flags."""
        ...


TargetModule = ModuleType
