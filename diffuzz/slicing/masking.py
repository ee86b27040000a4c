"""The text of a slice: a file of the same length as vLLM's own, what is not needed left empty.

Kept text stays at its line and column, so tracebacks and ``inspect.getsource`` show vLLM's lines.
Only headers are rewritten, on their own line: imports lose the names nobody needs, a class whose
members are kept alone loses its bases, an emptied branch holds ``pass``.
"""

from __future__ import annotations

from collections.abc import Sequence

from diffuzz.slicing.module import Condition, ParsedModule, Position, Span, Unit
from diffuzz.slicing.resolution import Kept
from diffuzz.slicing.syntax import ImportedName


class _Sheet:
    """Lines to write on; text lands where it stood."""

    def __init__(self, module: ParsedModule) -> None:
        self.source = module.lines
        self.lines: list[bytearray] = [bytearray() for _ in module.lines]

    def write(self, at: Position, text: bytes) -> None:
        line = self.lines[at[0] - 1]
        line.extend(b" " * (at[1] + len(text) - len(line)))
        line[at[1] : at[1] + len(text)] = text

    def copy(self, span: Span) -> None:
        (first, column), (last, end) = span.start, span.end
        for number in range(first, last + 1):
            start = column if number == first else 0
            stop = end if number == last else len(self.source[number - 1])
            self.write((number, start), self.source[number - 1][start:stop])

    def clear(self, span: Span) -> None:
        (first, column), (last, end) = span.start, span.end
        for number in range(first, last + 1):
            start = column if number == first else 0
            stop = min(end if number == last else 1 << 30, len(self.lines[number - 1]))
            self.lines[number - 1][start:stop] = b" " * max(0, stop - start)

    def text(self) -> str:
        return b"\n".join(bytes(line.rstrip()) for line in self.lines).decode("utf-8")


def masked(module: ParsedModule, kept: Kept) -> str:
    """Text of the module with only what ``kept`` names."""
    sheet = _Sheet(module)
    if _Masking(module, kept, sheet).blocks(module.blocks):
        for unit in module.units:
            if any(item.module == "__future__" for item in unit.imports):
                sheet.copy(unit.span)
    return sheet.text()


class _Masking:
    def __init__(self, module: ParsedModule, kept: Kept, sheet: _Sheet) -> None:
        self.module = module
        self.kept = kept
        self.sheet = sheet
        self.owners = {
            owner
            for index in kept.units
            if (owner := module.units[index].owner) is not None and owner not in kept.units
        }

    def blocks(self, blocks: Sequence[Unit | Condition]) -> bool:
        """Write what is kept of the blocks; whether anything was."""
        written = [
            self._condition(b) if isinstance(b, Condition) else self._unit(b) for b in blocks
        ]
        return any(written)

    def _condition(self, condition: Condition) -> bool:
        body = self.blocks(condition.body)
        orelse = self.blocks(condition.orelse)
        if not body and not orelse:
            return False
        sheet, header_end = self.sheet, condition.body_span.start
        if condition.known is None:
            sheet.copy(Span(condition.span.start, condition.test.end))
        else:
            keyword = self._keyword(condition)
            sheet.write(condition.span.start, keyword + (b" 1" if condition.known else b" 0"))
        self._colon(condition, header_end)
        if not body:
            sheet.write(header_end, b"pass")
        if orelse and condition.orelse_span is not None:
            first = condition.orelse[0]
            chained = isinstance(first, Condition) and self._keyword(first) == b"elif"
            if not chained:
                sheet.copy(Span(condition.body_span.end, condition.orelse_span.start))
        return True

    def _keyword(self, condition: Condition) -> bytes:
        line, column = condition.span.start
        return b"elif" if self.module.lines[line - 1][column:].startswith(b"elif") else b"if"

    def _colon(self, condition: Condition, body: Position) -> None:
        """Everything between the test and the body: closing brackets, the colon, comments."""
        if condition.known is None:
            self.sheet.copy(Span(condition.test.end, body))
        else:
            line, column = condition.span.start
            self.sheet.write((line, column + len(self._keyword(condition)) + 2), b":")

    def _unit(self, unit: Unit) -> bool:
        if unit.kind == "import" or unit.index in self.kept.stars:
            return self._import(unit)
        if unit.index in self.owners:
            return self._members(unit)
        if unit.index not in self.kept.units:
            return False
        self.sheet.copy(unit.span)
        self._drop_decorators(unit)
        return True

    def _drop_decorators(self, unit: Unit) -> None:
        for span in self.module.facts(unit).dropped:
            self.sheet.clear(span)

    def _members(self, owner: Unit) -> bool:
        name = min(owner.names)
        self.sheet.write(owner.definition, f"class {name}:".encode())
        for indices in owner.members.values():
            for index in indices:
                if index in self.kept.units:
                    member = self.module.units[index]
                    self.sheet.copy(member.span)
                    self._drop_decorators(member)
        return True

    def _import(self, unit: Unit) -> bool:
        bound = self.kept.aliases.get(unit.index, set())
        stars = sorted(self.kept.stars.get(unit.index, ()))
        items = [i for i in unit.imports if i.bound in bound and i.name != "*"]
        spelled = [_spelled(i) for i in items] + stars
        first = unit.imports[0]
        if not spelled:
            return False
        if first.name is None:
            text = "import " + ", ".join(spelled)
        else:
            text = f"from {'.' * first.level}{first.module} import " + ", ".join(spelled)
        self.sheet.write(unit.span.start, text.encode("utf-8"))
        return True


def _spelled(item: ImportedName) -> str:
    given = item.module if item.name is None else item.name
    return given if item.plain or given == item.bound else f"{given} as {item.bound}"
