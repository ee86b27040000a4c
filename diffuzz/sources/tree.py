"""What the three kinds of source have in common, so that they answer alike for the same tree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

ROOTS = ("vllm", "csrc")
"""The folders a source shows. Release archives are cut down to them, so nothing else is visible
in the other kinds either."""

Progress = Callable[[str, int, "int | None"], None]
"""Told what is being fetched, how much of it is there, and how much there will be if known."""


def covered(path: str) -> bool:
    """Whether ``path`` is a plain relative path under one of :data:`ROOTS`."""
    parts = path.split("/")
    return (
        parts[0] in ROOTS
        and not any(part in ("", ".", "..") for part in parts)
        and not any(char in path for char in "\n\0\\")
    )


def folder_roots(prefix: str) -> tuple[str, ...]:
    """The folders to walk for everything under ``prefix`` (``""`` is the whole tree)."""
    prefix = prefix.rstrip("/")
    if not prefix:
        return ROOTS
    return (prefix,) if covered(prefix) else ()


def blob_id(content: bytes) -> str:
    """Git's id of a file with this content, in a repository with sha1 objects."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def decode(content: bytes) -> str:
    """Text of a source file. Bytes that are not UTF-8 become U+FFFD: none of vLLM's code has any,
    and one in a comment must not end a campaign."""
    return content.decode("utf-8", errors="replace")


def is_text(content: bytes) -> bool:
    """Git's own rule: a file with a NUL byte near its start is binary."""
    return b"\0" not in content[:8000]
