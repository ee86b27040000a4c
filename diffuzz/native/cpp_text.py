"""Reading C++ text just well enough: comments, platform conditionals, calls and literals.

Nothing here is compiled; it serves finding things in a revision's files and telling whether two
of them mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LEXEME = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"
      | "(?:\\.|[^"\\\n])*"
      | (?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'""",
    re.S | re.X,
)
_STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
_ROCM_MACROS = frozenset({"USE_ROCM", "__HIPCC__", "__HIP_PLATFORM_AMD__"})
_CLOSING = {"(": ")", "{": "}", "[": "]"}


def strip_comments(text: str) -> str:
    """``text`` with comments blanked; line numbers stay."""

    def blank(match: re.Match[str]) -> str:
        if match.group("comment") is None:
            return match.group()
        return "\n" * match.group().count("\n") or " "

    return _LEXEME.sub(blank, text)


def _tokens(condition: str) -> Iterator[str]:
    """``&&``, ``||``, ``!``, parentheses, ``defined X`` and everything else in one piece each."""
    pattern = r"&&|\|\||!(?!=)|defined\s*\(\s*\w+\s*\)|defined\s+\w+|[()]|(?:[^&|!()]|!=|&(?!&))+"
    for match in re.finditer(pattern, condition):
        if match.group().strip():
            yield match.group().strip()


def evaluate(condition: str, rocm: bool) -> bool | None:
    """Value of a preprocessor condition as far as the platform decides it, else None."""
    tokens = [*_tokens(condition), ""]
    position = 0

    def either() -> bool | None:
        nonlocal position
        value = both()
        while tokens[position] == "||":
            position += 1
            right = both()
            value = True if True in (value, right) else None if None in (value, right) else False
        return value

    def both() -> bool | None:
        nonlocal position
        value = atom()
        while tokens[position] == "&&":
            position += 1
            right = atom()
            value = False if False in (value, right) else None if None in (value, right) else True
        return value

    def atom() -> bool | None:
        nonlocal position
        token = tokens[position]
        position += 1 if token else 0
        if token == "!":
            value = atom()
            return None if value is None else not value
        value = either() if token == "(" else _known(token, rocm)
        if token == "(":
            position += tokens[position] == ")"
        while tokens[position] not in ("", "&&", "||", ")"):  # arithmetic around parentheses
            value, position = None, position + 1
        return value

    return either()


def _known(token: str, rocm: bool) -> bool | None:
    name = re.fullmatch(r"defined\s*\(?\s*(\w+)\s*\)?", token)
    if name and name.group(1) in _ROCM_MACROS:
        return rocm
    return {"0": False, "1": True}.get(token)


_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif)\b(.*)", re.S)


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their backslash continuations."""
    pending = ""
    for line in text.splitlines(keepends=True):
        pending += line
        if not line.rstrip("\r\n").endswith("\\"):
            yield pending
            pending = ""
    if pending:
        yield pending


def active(text: str, rocm: bool) -> str:
    """``text`` without the branches that the platform rules out; line numbers stay.

    Branches whose condition has to do with more than the platform are kept, all of them.
    """
    kept: list[str] = []
    stack: list[_Chain] = []
    for line in _logical_lines(text):
        directive = _DIRECTIVE.match(line)
        shown = not stack or stack[-1].live
        if directive:
            word, rest = directive.group(1), directive.group(2).replace("\\\n", " ").strip()
            if word in ("if", "ifdef", "ifndef"):
                stack.append(_Chain(outer=shown))
                rest = {"ifdef": f"defined({rest})", "ifndef": f"!defined({rest})"}.get(word, rest)
            if stack:
                chain = stack.pop() if word == "endif" else stack[-1]
                if word != "endif":
                    chain.branch(True if word == "else" else evaluate(rest, rocm))
                shown = chain.outer and chain.unknown
        kept.append(line if shown else "\n" * line.count("\n"))
    return "".join(kept)


@dataclass
class _Chain:
    """One ``#if ... #endif``: whether text around it and in its present branch is live, whether
    an earlier branch is surely taken, and whether one depends on more than the platform."""

    outer: bool
    live: bool = False
    taken: bool = False
    unknown: bool = False

    def branch(self, value: bool | None) -> None:
        self.live = self.outer and not self.taken and value is not False
        self.unknown = self.unknown or (value is None and not self.taken)
        self.taken = self.taken or value is True


def closing(text: str, start: int) -> int:
    """Index of the bracket that closes the one at ``start``, or -1."""
    depth = 0
    opening, wanted = text[start], _CLOSING[text[start]]
    position = start
    while position < len(text):
        lexeme = _LEXEME.match(text, position) if text[position] in "\"'R/" else None
        if lexeme:
            position = lexeme.end()
            continue
        if text[position] == opening:
            depth += 1
        elif text[position] == wanted:
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return -1


def split_arguments(text: str) -> list[str]:
    """Top-level comma-separated parts of an argument list (without its parentheses)."""
    parts, start, position = [], 0, 0
    while position < len(text):
        character = text[position]
        lexeme = _LEXEME.match(text, position) if character in "\"'R/" else None
        if lexeme:
            position = lexeme.end()
            continue
        if character in _CLOSING:
            end = closing(text, position)
            position = len(text) if end < 0 else end + 1
            continue
        if character == ",":
            parts.append(text[start:position].strip())
            start = position + 1
        position += 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def string_value(expression: str) -> str | None:
    """Value of adjacent string literals, or None if ``expression`` is anything else."""
    if _STRING.sub("", expression).strip():
        return None
    return "".join(m.encode().decode("unicode_escape") for m in _STRING.findall(expression))


def quoted_includes(text: str) -> list[str]:
    """Paths of ``#include "..."`` lines, in order."""
    return re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', text, re.M)


def normalized(text: str, rocm: bool) -> str:
    """What of ``text`` can matter on the platform: no comments, blank space collapsed.

    Line ends survive where directives need them.
    """
    lines = (" ".join(line.split()) for line in active(strip_comments(text), rocm).splitlines())
    return "\n".join(line for line in lines if line)
