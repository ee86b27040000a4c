"""Builds of the native tests go into one cache of their own, so that no file compiles twice."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="package", autouse=True)
def outer_cache(tmp_path_factory):
    """The cache of the session, which the tests' own one hides."""
    outer = os.environ.get("DIFFUZZ_CACHE")
    patch = pytest.MonkeyPatch()
    patch.setenv("DIFFUZZ_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield outer
    patch.undo()
