"""A revision's modules, found by dotted name and parsed once."""

from __future__ import annotations

from collections import OrderedDict

from diffuzz.slicing.module import ParsedModule, Unparsable
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


class ModuleCache:
    """Parsed modules by content, least recently used ones dropped beyond a size in bytes."""

    def __init__(self, limit: int = 32 * 1024 * 1024) -> None:
        self.limit = limit
        self.size = 0
        self.parsed = 0
        self._modules: OrderedDict[str, tuple[int, ParsedModule | Unparsable]] = OrderedDict()

    def get(self, key: str) -> ParsedModule | None:
        """The module with this content id, if it has been parsed. Raises :class:`Unparsable`."""
        entry = self._modules.get(key)
        if entry is None:
            return None
        self._modules.move_to_end(key)
        return self._given(entry[1])

    def parse(self, key: str, text: str) -> ParsedModule:
        """Parse ``text``, whose content id is ``key``. Raises :class:`Unparsable`."""
        module: ParsedModule | Unparsable
        try:
            module = ParsedModule(text)
        except Unparsable as error:
            module = error
        self.parsed += 1
        self._modules[key] = (len(text), module)
        self.size += len(text)
        while self.size > self.limit and len(self._modules) > 1:
            _, (size, _) = self._modules.popitem(last=False)
            self.size -= size
        return self._given(module)

    @staticmethod
    def _given(module: ParsedModule | Unparsable) -> ParsedModule:
        if isinstance(module, Unparsable):
            raise module
        return module


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
