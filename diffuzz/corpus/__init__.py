"""The corpus: cases that matter, kept as files that a person can read and edit.

A corpus is a folder with one folder a target. Its cases are replayed before generated ones
(:func:`load`); what a file says of its finding decides whether that goes red
(:func:`expectation`, :func:`find`). :mod:`.entries` is one file, :mod:`.folder` a corpus on disk,
:mod:`.upkeep` adding, merging and pruning.
"""

from diffuzz.corpus.entries import (
    Entry,
    Expectation,
    expectation,
    find,
    make_entry,
    stored_signature,
)
from diffuzz.corpus.folder import default_folders, load, load_all, own_folder, write
from diffuzz.corpus.upkeep import Dropped, add, merge, prune

__all__ = [
    "Dropped",
    "Entry",
    "Expectation",
    "add",
    "default_folders",
    "expectation",
    "find",
    "load",
    "load_all",
    "make_entry",
    "merge",
    "own_folder",
    "prune",
    "stored_signature",
    "write",
]
