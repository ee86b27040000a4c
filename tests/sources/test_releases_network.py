"""Real releases of vLLM, through the package index this machine's pip uses."""

from __future__ import annotations

from datetime import timezone

import pytest
from packaging.version import Version

from diffuzz.sources.archive import Releases
from diffuzz.sources.tree import blob_id
from tests.network import index_needed

pytestmark = pytest.mark.network


@pytest.fixture
def releases() -> Releases:
    """Fails in CI when the index is away: there, a test that did not run is no test."""
    made = Releases()
    with index_needed():
        made.available_versions()
    return made


def test_a_real_release(releases: Releases) -> None:
    assert Version("0.20.0") in releases.available_versions()
    source = releases.source(Version("0.20.0"))
    files = source.list("")
    assert len(files) > 2000
    for path in (
        "vllm/__init__.py",
        "vllm/platforms/__init__.py",
        "vllm/v1/attention/backends/rocm_aiter_fa.py",
        "csrc/torch_bindings.cpp",
        "csrc/cache_kernels.cu",
    ):
        text = source.read(path)
        assert text, path
        assert source.blob_id(path) == blob_id(text.encode())
        assert path in files
    assert not any(path.startswith("tests/") for path in files)
    identity = source.identity
    assert identity.version == "0.20.0"
    assert identity.date is not None
    assert identity.date.tzinfo == timezone.utc
    assert identity.date.year == 2026
