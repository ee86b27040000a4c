"""Cutting Triton IR text into tokens. Bracketed types are one token each."""

from __future__ import annotations

import re

from diffuzz.executors.ttir.errors import Unsupported

Token = tuple[str, str]

_TOKEN = re.compile(
    r"""
     (?P<space>\s+|//[^\n]*)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<value>%[\w$.\-]+(?:\#\d+)?)
    |(?P<block>\^[\w$.\-]+)
    |(?P<symbol>@(?:"[^"]*"|[\w$.\-]+))
    |(?P<alias>\#[\w$.\-]+)
    |(?P<arrow>->)
    |(?P<number>-?0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)
    |(?P<word>!?[A-Za-z_][\w$.]*)
    |(?P<mark>[(){}\[\],=:*<>?+/|-])
    """,
    re.VERBOSE,
)


def _end_of_brackets(text: str, start: int) -> int:
    """Index after the ``>`` that closes the ``<`` at ``start``; strings and ``->`` are skipped."""
    depth, at = 0, start
    while True:
        char = text[at]
        if char == '"':
            at = text.index('"', at + 1)
        elif char == "<":
            depth += 1
        elif char == ">" and text[at - 1] != "-":
            depth -= 1
            if not depth:
                return at + 1
        at += 1


def tokenize(text: str) -> list[Token]:
    """Tokens as ``(kind, text)``, ended by one of kind ``end``. ``type`` is a word with its
    bracketed parameters (``tensor<4xf32>``, ``dense<0>``, ``array<i32: 1>``)."""
    tokens: list[Token] = []
    at, size = 0, len(text)
    match_at = _TOKEN.match
    while at < size:
        match = match_at(text, at)
        if match is None:
            raise Unsupported(f"unreadable Triton IR near {text[at : at + 40]!r}")
        kind, at = match.lastgroup, match.end()
        if kind == "space":
            continue
        if kind == "word" and at < size and text[at] == "<":
            start, at = match.start(), _end_of_brackets(text, at)
            tokens.append(("type", text[start:at]))
        else:
            tokens.append((kind or "", match.group()))
    tokens.append(("end", ""))
    return tokens
