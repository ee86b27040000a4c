"""Builds of the native tests go into one cache of their own, so that no file compiles twice."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def native_cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("DIFFUZZ_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()
