"""Errors a user can cause or meet. Each class owns its exit code; the text is worded once, here
or where it is raised, and printed by the command line as one line without a traceback."""

from __future__ import annotations


class DiffuzzError(Exception):
    """Base of all errors that end a command with one clear line."""

    exit_code = 2


class UsageError(DiffuzzError):
    """Arguments or input files that cannot be used."""


class RevisionError(DiffuzzError):
    """A revision that does not exist or cannot be read."""


class SourceUnavailable(DiffuzzError):
    """The package index, a repository or an archive cannot be reached or is corrupt."""


class CaseError(DiffuzzError):
    """A case that breaks its target's declaration; the message names the field."""


class NothingTested(DiffuzzError):
    """No case could be judged: neither a pass nor a failure."""

    exit_code = 3


class CannotTell(Exception):
    """Raised where a run cannot be carried out for a reason that is not the kernel's.

    ``reason`` is short and stable, because reasons are counted: ``new parameter NAME``,
    ``unsupported op NAME``. It becomes the verdict ``unknown``, never a finding.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
