"""A revision's modules, found by dotted name and parsed once."""

from __future__ import annotations

from diffuzz.slicing.module import ModuleCache, ParsedModule, Unparsable
from diffuzz.sources import Source

ROOT = "vllm"
"""The package everything is followed in."""


class Unresolved(Exception):
    """A name nothing defines. The message is the reason users see."""


class NotThere(Unresolved):
    """A package, module or name that does not exist, so that importing ``what`` fails."""

    def __init__(self, what: str) -> None:
        super().__init__(f"missing {what}")
        self.what = what


class Tree:
    """A revision's modules: dotted names to files, and every look-up remembered."""

    def __init__(self, source: Source, cache: ModuleCache) -> None:
        self.source = source
        self.cache = cache
        self.looked_up: dict[str, str | None] = {}
        self._paths: dict[str, str | None] = {}
        self._parsed: dict[str, ParsedModule] = {}

    def has(self, path: str) -> bool:
        if path not in self.looked_up:
            self.looked_up[path] = self.source.blob_id(path)
        return self.looked_up[path] is not None

    def path_of(self, name: str) -> str | None:
        """The file of a dotted module name, or None."""
        if name not in self._paths:
            base = name.replace(".", "/")
            candidates = (f"{base}.py", f"{base}/__init__.py")
            self._paths[name] = next((p for p in candidates if self.has(p)), None)
        return self._paths[name]

    def module(self, path: str) -> ParsedModule:
        """The parsed file. Raises :class:`Unresolved` if it cannot be read or parsed."""
        found = self._parsed.get(path)
        if found is None:
            try:
                found = self._parsed[path] = self._load(path)
            except Unparsable as error:
                raise Unresolved(f"cannot parse {path}: {error}") from None
        return found

    def _load(self, path: str) -> ParsedModule:
        if not self.has(path):
            raise Unresolved(f"no file {path}")
        key = self.looked_up[path] or ""
        found = self.cache.get(key)
        if found is not None:
            return found
        text = self.source.read(path)
        if text is None:
            raise Unresolved(f"cannot read {path}")
        return self.cache.parse(key, text)


def module_name(path: str) -> str:
    """``vllm/a/__init__.py`` and ``vllm/a.py`` are both ``vllm.a``."""
    base = path.removesuffix(".py").removesuffix("/__init__")
    return base.replace("/", ".")
