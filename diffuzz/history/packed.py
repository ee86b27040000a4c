"""Walking through the revisions of a bundle, in the order they were packed."""

from __future__ import annotations

from dataclasses import replace

from diffuzz.arch import Arch
from diffuzz.errors import SourceUnavailable, UsageError
from diffuzz.history.variants import Cutter, History, Variant
from diffuzz.sources import Source
from diffuzz.sources.bundle import PREFIX, BundleSource, open_bundled
from diffuzz.target import Target

_UNASKED = "not in the bundle"


class _Compared:
    """A bundled revision that is compared with slices of others: a file the bundle was not asked
    for is unlike any other. Slicing itself still gets the error."""

    def __init__(self, source: BundleSource) -> None:
        self._source = source
        self.identity = source.identity
        self.read = source.read
        self.exists = source.exists
        self.list = source.list

    def blob_id(self, path: str) -> str | None:
        try:
            return self._source.blob_id(path)
        except SourceUnavailable:
            return _UNASKED


def packed_history(since: str, until: str, target: Target, arch: Arch) -> History:
    """The variants from ``since`` to ``until``, both ``bundle:FILE#REV`` of one bundle.

    Raises :class:`UsageError` where they are of two bundles or in the other order.
    """
    file, other = (text.removeprefix(PREFIX).partition("#")[0] for text in (since, until))
    if file != other:
        raise UsageError("--from and --to must be of one bundle")
    first, last = open_bundled(since), open_bundled(until)
    names = first.bundle.revisions
    begin, end = names.index(first.packed_as), names.index(last.packed_as)
    if begin > end:
        raise UsageError(f"{until} was packed before {since}; packing order is the order of time")
    cutter = Cutter(target, arch)
    found: list[Variant] = []
    for name in names[begin : end + 1]:
        shown = f"{PREFIX}{file}#{name}"
        source: Source = _Compared(first.bundle.source(name, shown))
        piece = cutter.at(source)
        if found and found[-1].key == piece.key:
            found[-1] = replace(found[-1], until=shown, spans=found[-1].spans + 1)
        else:
            parents = (len(found) - 1,) if found else ()
            found.append(Variant(piece, cutter, source, shown, None, shown, 1, parents))
    cutter.save()
    return History(tuple(found), end - begin + 1, end - begin + 1, cutter.sliced)
