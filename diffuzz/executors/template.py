"""The template process that every worker is forked from.

It imports the libraries once, so that a worker starts in milliseconds and shares their memory
with its siblings. Importing this module imports none of them.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from types import ModuleType

CONTEXT = multiprocessing.get_context("forkserver")
_PRELOAD = ["torch", "triton", "diffuzz.executors.worker", "diffuzz.executors.cpu"]
_starting = threading.Lock()


def prestart() -> None:
    """Start the template now and return at once: its imports, the longest part of the first
    worker's start, then run beside whatever else there is to do."""
    with ready():
        forkserver.ensure_running()


@contextmanager
def ready() -> Iterator[None]:
    """Hold this while starting a process from :data:`CONTEXT`.

    It keeps multiprocessing from running the user's main module again in every child: a worker
    needs none of it, and a script without a ``__main__`` guard would start over.
    """
    with _starting:
        CONTEXT.set_forkserver_preload(_PRELOAD)
        main_module = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main_module
