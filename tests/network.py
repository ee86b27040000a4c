"""Tests that need the package index: where it is away they fail in CI, and skip loudly elsewhere.

A green run must not hide that they did not run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from diffuzz.errors import SourceUnavailable


@contextmanager
def index_needed(what: str = "real releases were") -> Iterator[None]:
    """Around what asks the index; ``what`` begins the reason, as in "the README's tour was"."""
    try:
        yield
    except SourceUnavailable as error:
        reason = f"{what} NOT tested: {error}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        warnings.warn(reason, stacklevel=1)
        pytest.skip(reason)
