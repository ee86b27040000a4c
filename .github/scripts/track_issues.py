#!/usr/bin/env python3
"""Keep one tracking issue for each finding, from the drafts that `diffuzz nightly` wrote.

    track_issues.py STATE_DIR OWNER/REPO

An issue is recognised by the hidden mark in its body, whatever its number or title, so a lost state
files nothing twice. What is there is edited in place, and only if its text changed; a closed one is
opened again only if its finding came back. Nothing is ever closed: that is a person's decision.
Uses the GitHub CLI (`gh`), which takes its token from the environment.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from pathlib import Path

LABEL = "diffuzz"
MARK = re.compile(r"<!-- diffuzz-finding: ([A-Za-z0-9_.-]+) -->")
BACK = "- it had been fixed and came back"
MOST = "1000"


def main(state: str, repository: str) -> int:
    drafts = sorted(Path(state, "issues").glob("*.md"))
    if not drafts:
        print("no drafts")
        return 0
    there = existing(repository)
    for path in drafts:
        text = path.read_text(encoding="utf-8")
        found = MARK.search(text)
        if found is None:
            print(f"{path}: no mark in it, left alone", file=sys.stderr)
            continue
        print(track(repository, text, there.get(found[1])))
    return 0


def track(repository: str, text: str, issue: dict | None) -> str:
    """Create, edit or leave one issue; says which."""
    title, _, body = text.partition("\n")
    # A title is plain text: the draft's character references and zero-width spaces go.
    title = html.unescape(title.removeprefix("# ")).replace("\u200b", "").strip()
    body = body.strip() + "\n"
    if issue is None:
        words = ("--title", title, "--label", LABEL, "--body-file", "-")
        return "created " + gh("issue", "create", "--repo", repository, *words, given=body).strip()
    number = str(issue["number"])
    if issue["body"].replace("\r\n", "\n").strip() == body.strip():
        return f"#{number} is up to date"
    gh("issue", "edit", number, "--repo", repository, "--body-file", "-", given=body)
    if issue["state"].upper() == "CLOSED" and BACK in body and BACK not in issue["body"]:
        gh("issue", "reopen", number, "--repo", repository)
        return f"#{number} edited and opened again"
    return f"#{number} edited"


def existing(repository: str) -> dict[str, dict]:
    """Mark → issue, of all issues with the label; of two with one mark the older."""
    gh("label", "create", LABEL, "--repo", repository, "--force")
    words = ("--label", LABEL, "--state", "all", "--limit", MOST)
    out = gh("issue", "list", "--repo", repository, *words, "--json", "number,body,state")
    found: dict[str, dict] = {}
    for issue in sorted(json.loads(out), key=lambda item: item["number"]):
        mark = MARK.search(issue["body"] or "")
        if mark is not None:
            found.setdefault(mark[1], issue)
    return found


def gh(*words: str, given: str | None = None) -> str:
    done = subprocess.run(["gh", *words], input=given, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"gh {' '.join(words[:2])}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    raise SystemExit(main(*sys.argv[1:]))
