"""Taking a kernel out of a revision: entry symbols, and all they reach, as source that runs.

``slice_target`` reads files through a :class:`~diffuzz.sources.Source`, never a checkout, and gives
a :class:`Slice` with a hash that is the identity of the kernel at that revision, or
:class:`Missing` with a reason. ``load`` imports a written slice in a worker; ``holds`` tells
whether a slice made at one revision is also that of another. The parts, each importing only from
those before it:

- :mod:`.syntax`, :mod:`.names`, :mod:`.bindings`, :mod:`.normal`: single statements
- :mod:`.module`: a parsed file; :mod:`.tree`: a revision; :mod:`.standins`
- :mod:`.resolution`: what a name refers to; :mod:`.closure`: until nothing is left to follow
- :mod:`.identity`: the hash; :mod:`.masking`: the text; :mod:`.result`; :mod:`.cut`: all together
- :mod:`.loading` and :mod:`.flags` stand alone

What is not followed: names made up at run time (``importlib``, ``getattr`` with a computed name)
and changes that one module makes to another's objects when it is imported.
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
