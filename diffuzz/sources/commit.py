"""What is told about a commit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

_PULL_REQUEST = re.compile(r"\(#(\d+)\)\s*$")


@dataclass(frozen=True)
class Commit:
    """``date`` is the committer's, in UTC; ``pr`` the number GitHub put at the subject's end."""

    sha: str
    date: datetime
    subject: str
    pr: int | None

    @classmethod
    def parse(cls, sha: str, stamp: str, subject: str) -> Commit:
        pr = _PULL_REQUEST.search(subject)
        date = datetime.fromtimestamp(int(stamp), timezone.utc)
        return cls(sha, date, subject, int(pr[1]) if pr else None)
