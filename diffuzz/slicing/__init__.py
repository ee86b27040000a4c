"""Taking a kernel out of a revision: entry symbols, and all they reach, as source that runs.

``slice_target`` reads files through a :class:`~diffuzz.sources.Source`, never a checkout, and gives
a :class:`Slice` with a hash that is the identity of the kernel at that revision, or
:class:`Missing` with a reason. ``load`` imports a written slice in a worker. The parts, each
importing only from those before it: :mod:`.names`, :mod:`.bindings` and :mod:`.normal` (single
statements), :mod:`.module` (a parsed file), :mod:`.tree` (a revision), :mod:`.standins`,
:mod:`.resolution` (what a name refers to), :mod:`.closure`, :mod:`.identity` and :mod:`.masking`,
:mod:`.result`, :mod:`.cut`; :mod:`.loading` and :mod:`.flags` stand alone.
"""

from diffuzz.slicing.cut import holds, slice_target
from diffuzz.slicing.loading import NotInSlice, load, unload
from diffuzz.slicing.result import EntryPoint, Missing, Parameter, Slice

__all__ = [
    "EntryPoint",
    "Missing",
    "NotInSlice",
    "Parameter",
    "Slice",
    "holds",
    "load",
    "slice_target",
    "unload",
]
