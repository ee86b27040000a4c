"""From ``torch.ops.NAMESPACE.NAME`` to everything of a revision that decides what the op does.

Symbols are followed, not paths: files have moved between ``csrc/`` and folders below it, and op
names stayed. The hash of the result identifies the op's behaviour on a platform, as far as the
revision's own sources decide it.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from diffuzz.native.bindings import Binding, parse_bindings
from diffuzz.native.cpp_text import active, closing, normalized, quoted_includes, strip_comments
from diffuzz.native.reasons import ClosureError
from diffuzz.sources import Source

ROOT = "csrc"
_SOURCES = (".cu", ".cpp", ".cc")
_SKIPPED_FOLDERS = (f"{ROOT}/cpu/",)  # vLLM's CPU backend: other ops of the same names


@dataclass(frozen=True)
class Op:
    """``function`` implements it (qualified as the bindings write it), in file ``source``;
    ``stable`` tells torch's stable ABI (boxed) from the plain one."""

    name: str
    namespace: str
    schema: str
    function: str
    source: str
    stable: bool


@dataclass(frozen=True)
class Closure:
    """``files`` maps path to text: each op's source file and every file of ``csrc`` that it
    includes. ``external`` are quoted includes that are not in the revision. ``hash`` is equal
    for closures that differ in comments, layout, paths or another platform's branches only.
    """

    ops: tuple[Op, ...]
    files: Mapping[str, str]
    external: tuple[str, ...]
    rocm: bool
    hash: str

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(op.source for op in self.ops))

    @property
    def schemas(self) -> dict[str, str]:
        """Op name to schema text."""
        return {op.name: op.schema for op in self.ops}

    @property
    def text_hash(self) -> str:
        """Like ``hash``, of the exact text: equal line numbers too."""
        return _digest([self.rocm, sorted(self.files.items())])


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def find_closure(source: Source, names: Iterable[str], *, rocm: bool) -> Closure:
    """Follow ops ``names`` (``NAME``, meaning ``_C::NAME``, or ``NAMESPACE::NAME``).

    Raises :class:`ClosureError` with ``missing op NAME`` if the revision does not have it on
    this platform, or ``not emulatable: ...`` if its bindings or definition cannot be followed.
    """
    tree = _Tree(source, rocm)
    ops = tuple(tree.op(name) for name in sorted(set(names)))
    files, external = tree.included(op.source for op in ops)
    identity = [
        sorted((op.namespace, op.name, " ".join(op.schema.split()), op.function) for op in ops),
        sorted(_normalized(text, rocm) for text in files.values()),
    ]
    return Closure(ops, files, tuple(sorted(external)), rocm, _digest(identity))


@lru_cache(maxsize=512)
def _normalized(text: str, rocm: bool) -> str:
    return _digest(normalized(text, rocm))


@lru_cache(maxsize=64)
def _bindings(path: str, text: str, rocm: bool) -> tuple[Binding, ...]:
    return tuple(parse_bindings(path, active(strip_comments(text), rocm)))


@lru_cache(maxsize=2048)
def _defines(text: str, function: str, rocm: bool) -> bool:
    """Whether ``text`` holds a definition (not a declaration or call) of ``function``."""
    if function not in text:
        return False
    clean = active(strip_comments(text), rocm)
    for match in re.finditer(rf"(?P<before>[\w>&*])\s+[&*]*(?:\w+::)*{function}\s*\(", clean):
        end = closing(clean, match.end() - 1)
        word = re.search(r"\w*$", clean[: match.end("before")])
        if word and word.group() in ("return", "else", "new", "case"):
            continue
        if end >= 0 and re.match(r"\s*(?:noexcept\s*|const\s*)?\{", clean[end + 1 :]):
            return True
    return False


class _Tree:
    """One revision's ``csrc`` as one platform sees it."""

    def __init__(self, source: Source, rocm: bool) -> None:
        self.source, self.rocm = source, rocm
        self.paths = [p for p in source.list(ROOT) if not p.startswith(_SKIPPED_FOLDERS)]
        self.known = set(self.paths)
        self.text: dict[str, str] = {}

    def read(self, path: str) -> str:
        if path not in self.text:
            self.text[path] = self.source.read(path) or ""
        return self.text[path]

    def _binding_files(self) -> Iterator[str]:
        """Files that may bind ops, the usual places first; the others only if need be."""
        sources = [p for p in self.paths if p.endswith(_SOURCES)]
        usual = [p for p in sources if posixpath.basename(p) == "torch_bindings.cpp"]
        yield from usual
        yield from (p for p in sources if p not in usual and "TORCH_LIBRARY" in self.read(p))

    def op(self, name: str) -> Op:
        namespace, _, bare = name.rpartition("::")
        namespace = namespace or "_C"
        schema: Binding | None = None
        implementation: Binding | None = None
        for path in self._binding_files():
            for b in _bindings(path, self.read(path), self.rocm):
                if (b.op, b.namespace) != (bare, namespace) or not b.on_device:
                    continue
                schema = schema or (b if b.schema else None)
                implementation = implementation or (b if b.function or not b.schema else None)
            if schema and implementation:
                break
        if schema is None and implementation is None:
            raise ClosureError(f"missing op {bare}")
        if schema is None or schema.schema is None:
            raise ClosureError(f"not emulatable: {bare} has no written schema")
        if implementation is None or implementation.function is None:
            raise ClosureError(f"not emulatable: {bare} has no named implementation")
        function = implementation.function
        path = self._definition(bare, function)
        return Op(bare, namespace, schema.schema, function, path, implementation.stable)

    def _definition(self, op: str, function: str) -> str:
        """The file that defines ``function``: likely names first, then all of ``csrc``."""
        bare = function.split("::")[-1]
        words = {w for w in re.split(r"[_\W]+", bare) if len(w) > 3}
        sources = [p for p in self.paths if p.endswith(_SOURCES)]

        def likely(path: str) -> bool:
            return bool(words & set(re.split(r"[_\W]+", posixpath.basename(path))))

        for candidates in (
            [p for p in sources if likely(p)],
            [p for p in sources if not likely(p)],
        ):
            found = [p for p in candidates if _defines(self.read(p), bare, self.rocm)]
            if len(found) > 1:
                found = [p for p in found if ("rocm" in p or "/amd/" in p) == self.rocm] or found
            if len(found) > 1:
                raise ClosureError(f"not emulatable: {bare} is defined in {len(found)} files")
            if found:
                return found[0]
        raise ClosureError(f"not emulatable: no definition of {bare}")

    def included(self, roots: Iterable[str]) -> tuple[dict[str, str], set[str]]:
        """Files reached from ``roots`` by quoted includes, and the names that lead elsewhere."""
        files: dict[str, str] = {}
        external: set[str] = set()
        pending = list(roots)
        while pending:
            path = pending.pop()
            if path in files:
                continue
            files[path] = self.read(path)
            for name in quoted_includes(active(strip_comments(files[path]), self.rocm)):
                resolved = resolve_include(path, name, self.known)
                if resolved:
                    pending.append(resolved)
                else:
                    external.add(name)
        return dict(sorted(files.items())), external


def resolve_include(including: str, name: str, known: set[str]) -> str | None:
    """Path that ``#include "name"`` in file ``including`` means, or None.

    Looks beside the file, then in :data:`INCLUDE_DIRS`, as a compiler given those would.
    """
    for folder in (posixpath.dirname(including), *INCLUDE_DIRS):
        path = posixpath.normpath(posixpath.join(folder, name))
        if path in known:
            return path
    return None


INCLUDE_DIRS = (ROOT, f"{ROOT}/libtorch_stable")
"""What vLLM's build adds to the include path, in order."""
