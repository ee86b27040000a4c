"""From a launch of a JIT function to Triton IR, and on to a real binary, without a GPU.

The launch is specialised by Triton's own code (its binder, its option parsing, its attributes),
and the pipeline is stopped after the ``ttir`` stage. Works with Triton 3.6 to 3.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime import jit as _jit
from triton.runtime.jit import JITFunction, create_function_from_signature

from diffuzz.arch import Arch
from diffuzz.executors.ttir.errors import CompileError
from diffuzz.executors.ttir.locations import shown_path
from diffuzz.executors.ttir.reader import Shape
from diffuzz.outcome import Location

try:
    from triton._utils import find_paths_if, get_iterable_path
except ImportError:
    find_paths_if, get_iterable_path = _jit.find_paths_if, _jit.get_iterable_path

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Specialised:
    """A launch, specialised: ``source`` and ``options`` are what Triton's compiler takes."""

    key: Key
    function: JITFunction
    source: ASTSource
    options: Any
    bound: Mapping[str, Any]

    @property
    def runtime_names(self) -> list[str]:
        """Parameters that are still arguments of the compiled kernel, in order."""
        return [n for n, t in self.source.signature.items() if t != "constexpr"]


@dataclass(frozen=True)
class Lowered:
    """Triton IR text, and the operations the compiler itself counts in it."""

    text: str
    walked: tuple[Shape, ...]


class Compiler:
    """Specialises and lowers launches for one architecture.

    ``root`` is a folder that file names in errors are given relative to.
    """

    def __init__(self, arch: Arch, root: str | None = None) -> None:
        self.arch = arch
        self.root = root
        self.target = GPUTarget(arch.triton_backend, arch.triton_arch, arch.warp_size)
        self.backend = make_backend(self.target)
        self._binders: dict[int, tuple[JITFunction, Any]] = {}

    def bind(
        self, function: JITFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Key, Mapping[str, Any], Any, Any]:
        """Bind arguments as the runtime does: (cache key, values by name, specialisation, options
        given). Equal keys mean equal code."""
        entry = self._binders.get(id(function))
        if entry is None:
            binder = create_function_from_signature(
                function.signature, function.params, self.backend
            )
            entry = self._binders[id(function)] = (function, binder)
        bound, specialisation, options = entry[1](
            *args, **{"debug": bool(function.debug), **kwargs}
        )
        key = (id(function), str(specialisation), str(options))
        return key, bound, specialisation, options

    def specialise(
        self, function: JITFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Specialised:
        """What Triton's runtime would compile for this launch."""
        key, bound, specialisation, given = self.bind(function, args, kwargs)
        options = self.backend.parse_options(given)
        names = [p.name for p in function.params]
        for name in given:
            if name not in options.__dict__ and name not in names:
                raise KeyError(f"Keyword argument {name} was specified but unrecognised")
        kinds = [entry[0] for entry in specialisation]
        values = list(bound.values())
        constants = {
            path: get_iterable_path(values, path)
            for path in find_paths_if(kinds, lambda _, kind: kind == "constexpr")
        }
        marks = ["" if e[0] == "constexpr" else e[1] for e in specialisation]
        attributes = {
            path: self.backend.parse_attr(get_iterable_path(marks, path))
            for path in find_paths_if(marks, lambda _, mark: isinstance(mark, str))
        }
        source = ASTSource(function, dict(zip(names, kinds, strict=True)), constants, attributes)
        return Specialised(key, function, source, options, bound)

    def lower(self, launch: Specialised) -> Lowered:
        """Triton IR of a specialised launch. :class:`CompileError` if the front end refuses it."""
        context = ir.context()
        ir.load_dialects(context)
        self.backend.load_dialects(context)
        options = launch.options
        try:
            module = launch.source.make_ir(
                self.target,
                options,
                self.backend.get_codegen_implementation(options),
                self.backend.get_module_map(),
                context,
            )
            stages: dict[str, Any] = {}
            self.backend.add_stages(stages, options, launch.source.language)
            module = stages["ttir"](module, dict(options.__dict__, target=self.target))
            if "tt.make_tensor_descriptor" in str(module):
                module = _descriptors_to_pointers(module)
        except CompilationError as error:
            raise self.refused(error, launch.function) from error
        except RuntimeError as error:
            raise CompileError(str(error)) from error
        walked: list[Shape] = []
        module.walk(
            lambda op: walked.append((op.get_name(), op.get_num_operands(), op.get_num_results()))
        )
        return Lowered(str(module), tuple(walked))

    def binary(self, launch: Specialised) -> str | None:
        """Compile on to machine code. None if that works, else the compiler's message."""
        from triton.compiler import compile as triton_compile

        try:
            triton_compile(launch.source, target=self.target, options=launch.options.__dict__)
        except Exception as error:
            return _message(error)
        return None

    def definition(self, function: JITFunction) -> Location:
        """Where a kernel is defined."""
        path = shown_path(function.fn.__code__.co_filename, self.root)
        return Location(path, _first_line(function), function.fn.__name__)

    def refused(self, error: CompilationError, function: JITFunction) -> CompileError:
        """The innermost of Triton's nested errors, with the line in the kernel's file."""
        chain: list[CompilationError] = []
        step: BaseException | None = error
        while step is not None:
            if isinstance(step, CompilationError):
                chain.append(step)
            last, step = step, step.__cause__
        innermost = chain[-1]
        message = innermost.error_message or (str(last) if last is not innermost else "")
        own = next((e for e in reversed(chain) if self._line(e, function)), None)
        location = self._line(own, function) if own is not None else None
        return CompileError(message or str(innermost).strip().splitlines()[-1], location)

    def _line(self, error: CompilationError, function: JITFunction) -> Location | None:
        node = getattr(error, "node", None)
        if error.src is None or node is None:
            return None
        for candidate in _reachable(function):
            if candidate.src == error.src:
                code = candidate.fn.__code__
                if "/triton/language/" in code.co_filename:
                    return None
                line = _first_line(candidate) + node.lineno - 1
                path = shown_path(code.co_filename, self.root)
                return Location(path, line, candidate.fn.__name__)
        return None


def _reachable(function: JITFunction) -> list[JITFunction]:
    """``function`` and every JIT function its globals reach."""
    found, todo = [], [function]
    seen = {id(function)}
    while todo:
        current = todo.pop()
        found.append(current)
        for value in current.fn.__globals__.values():
            if isinstance(value, JITFunction) and id(value) not in seen:
                seen.add(id(value))
                todo.append(value)
    return found


def _first_line(function: JITFunction) -> int:
    """Line of the ``def``: Triton's source text starts there, the function's may be decorated."""
    for offset, text in enumerate(function.raw_src):
        if text.lstrip().startswith("def "):
            return int(function.starting_line_number) + offset
    return int(function.starting_line_number)


def _descriptors_to_pointers(module: Any) -> Any:
    """Rewrite tensor descriptors as plain pointers, as Triton itself does where the hardware has
    no descriptors; the meaning is the same."""
    from triton._C.libtriton import passes

    pipeline = ir.pass_manager(module.context)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(pipeline)
    passes.common.add_canonicalizer(pipeline)
    passes.common.add_cse(pipeline)
    pipeline.run(module, "diffuzz_descriptors")
    return module


def _message(error: Exception) -> str:
    text = str(error).strip()
    return text or type(error).__name__
