"""Foreign text in Markdown, such that GitHub shows it and does nothing else with it.

Nothing written here can open or close markup, mention a person, link an issue or end a fence.
Short text goes into code spans, where no mention or reference is looked for; where a span's own
syntax would be in the way, character references stand for every mark (CommonMark 0.31, 2.5: they
never count as structure). Long text goes into a fence longer than any run of backticks inside.
"""

from __future__ import annotations

import re

from diffuzz.report.wording import clean

_MARKS = re.compile(r"[!-/:-@\[-`{-~]")
# In prose inside a line, what can neither begin nor end anything stays as it is, so that a draft
# can be read as source: brackets without links, full stops but for "www.", colons but for those of
# addresses and emoji, underscores between letters.
_PROSE = re.compile(
    r"[!#$&*+<>@\[\\\]^`{|}~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?! )|(?<=www)\.", re.IGNORECASE
)
_PLAIN = re.compile(r"[^`|\\<>&]+")


def prose(text: object, limit: int | None = None) -> str:
    """Text inside a line. A zero-width space after ``@`` and ``#`` keeps GitHub, which looks for
    mentions after Markdown is read, from finding any."""
    shown = _PROSE.sub(lambda mark: f"&#{ord(mark[0])};", clean(text, limit))
    return shown.replace("&#64;", "&#64;&#8203;").replace("&#35;", "&#35;&#8203;")


def code(text: object, limit: int | None = None) -> str:
    """A code span on one line, good in a table too."""
    shown = clean(text, limit)
    if not shown:
        return ""
    if _PLAIN.fullmatch(shown):
        return f"`{shown}`"
    return "<code>" + _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", shown) + "</code>"


def fence(text: object, language: str = "text", limit: int = 4000) -> str:
    """A fenced block that its content cannot end."""
    shown = clean(text, limit, lines=True)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{shown}\n{marks}"


def table(head: list[str], rows: list[list[str]], right: int = 0) -> str:
    """A table of cells that are Markdown already; the last ``right`` columns are numbers."""
    rule = ["---"] * (len(head) - right) + ["--:"] * right
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, rule, *rows])
