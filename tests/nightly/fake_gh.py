#!/usr/bin/env python3
"""Stands in for the GitHub CLI: issues in a JSON file beside it, every call in a log."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
STORE, LOG = HERE / "issues.json", HERE / "calls.log"


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def main(words: list[str]) -> None:
    with LOG.open("a") as log:
        log.write(" ".join(words) + "\n")
    issues = json.loads(STORE.read_text()) if STORE.exists() else []
    if words[:2] == ["issue", "list"]:
        print(json.dumps(issues))
    elif words[:2] == ["issue", "create"]:
        body = sys.stdin.read()
        number = len(issues) + 1
        title = option(words, "--title")
        issues.append({"number": number, "title": title, "body": body, "state": "OPEN"})
        print(f"https://example.invalid/issues/{number}")
    elif words[:2] == ["issue", "edit"]:
        issues[int(words[2]) - 1]["body"] = sys.stdin.read()
    elif words[:2] == ["issue", "reopen"]:
        issues[int(words[2]) - 1]["state"] = "OPEN"
    elif words[:2] != ["label", "create"]:
        raise SystemExit(f"unexpected: {words}")
    STORE.write_text(json.dumps(issues))


main(sys.argv[1:])
