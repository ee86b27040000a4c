"""Reading Triton IR text (pretty-printed, with debug locations) into :mod:`.ir`.

One grammar serves all operations: results, a name, a flat run of tokens with regions and
attribute dictionaries taken out, and a location that ends it. :mod:`.forms` then tells operands,
words and types apart. :func:`check_against` compares what was read with what the compiler holds,
so that a form this reader misunderstands is refused and never skipped.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from diffuzz.executors.ttir.errors import Unsupported
from diffuzz.executors.ttir.forms import interpret
from diffuzz.executors.ttir.ir import Block, Module, Op, parse_type
from diffuzz.executors.ttir.tokens import Token, tokenize

TERMINATORS = frozenset(
    {
        "scf.yield",
        "scf.condition",
        "tt.return",
        "cf.br",
        "cf.cond_br",
        "tt.reduce.return",
        "tt.scan.return",
        "tt.map_elementwise.return",
        "ub.unreachable",
    }
)

Shape = tuple[str, int, int]
"""Name, number of operands and number of results of an operation."""


def read(text: str) -> Module:
    """Parse a printed module. :class:`Unsupported` where the text cannot be understood."""
    try:
        return _Reader(text).module()
    except (IndexError, StopIteration, ValueError) as error:
        raise Unsupported("unreadable Triton IR") from error


def shapes(module: Module) -> Counter[Shape]:
    """How often each kind of operation occurs in ``module`` (its own ``builtin.module`` too)."""
    found: Counter[Shape] = Counter({("builtin.module", 0, 0): 1})
    for op in module.walk():
        passed = sum(len(values) for _, values in op.successors)
        operands = 0 if op.name == "tt.func" else len(op.operands) + passed
        found[(op.name, operands, len(op.results))] += 1
    return found


def check_against(module: Module, walked: Iterable[Shape]) -> None:
    """Refuse a module whose operations are not exactly those the compiler's own walk saw."""
    want, have = Counter(walked), shapes(module)
    if want != have:
        odd = sorted({name for name, *_ in (want - have) + (have - want)})
        raise Unsupported(f"Triton IR not understood: {', '.join(odd)}")


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = tokenize(text)
        self.at = 0
        self.locations: dict[str, str] = {}

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def expect(self, mark: str) -> None:
        if self.take()[1] != mark:
            near = " ".join(t for _, t in self.tokens[max(0, self.at - 8) : self.at + 3])
            raise Unsupported(f"unreadable Triton IR: no {mark!r} in {near!r}")

    def module(self) -> Module:
        functions: dict[str, Op] = {}
        entry = ""
        while self.peek()[0] != "end":
            kind, text = self.take()
            if kind == "alias":
                self.alias(text)
            elif text == "module":
                op = Op("module")
                self.body(op)
                for function in op.regions[0][0].ops:
                    if function.name != "tt.func":
                        if function.implicit:
                            continue
                        raise Unsupported(f"unsupported op {function.name}")
                    functions[function.symbol] = function
                    if "public" in function.words:
                        entry = function.symbol
            else:
                raise Unsupported(f"unreadable Triton IR: {text!r} at the top")
        return Module(functions, entry, self.locations)

    def alias(self, name: str) -> None:
        self.expect("=")
        if self.take()[1] != "loc":
            raise Unsupported(f"unreadable Triton IR: alias {name}")
        self.locations[name] = self.location()

    def location(self) -> str:
        self.expect("(")
        depth, parts = 1, list[str]()
        while True:
            text = self.take()[1]
            depth += (text == "(") - (text == ")")
            if not depth:
                return " ".join(parts).replace("callsite (", "callsite(").replace(" ( ", " (")
            parts.append(text)

    def attributes(self) -> dict[str, Any]:
        self.expect("{")
        found: dict[str, Any] = {}
        while self.peek()[1] != "}":
            key = self.take()[1].strip('"')
            value: Any = True
            if self.peek()[1] == "=":
                self.take()
                value = _attribute(self.attribute_tokens())
            found[key] = value
            if self.peek()[1] == ",":
                self.take()
        self.expect("}")
        return found

    def attribute_tokens(self) -> list[str]:
        depth, parts = 0, list[str]()
        while depth or self.peek()[1] not in (",", "}"):
            text = self.take()[1]
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            parts.append(text)
        if ":" in parts and parts[0] != "[":
            parts = parts[: parts.index(":")]
        return parts

    def at_attributes(self) -> bool:
        kind, _ = self.peek(1)
        return kind in ("word", "string") and self.peek(2)[1] in ("=", ",", "}")

    def region(self) -> list[Block]:
        self.expect("{")
        blocks = [] if self.peek()[0] == "block" else [Block("")]
        while self.peek()[1] != "}":
            if self.peek()[0] == "block":
                blocks.append(self.block_label())
            else:
                blocks[-1].ops.append(self.op())
        self.expect("}")
        for block in blocks:
            # scf.if and scf.for without results print no terminator.
            if not block.ops or block.ops[-1].name not in TERMINATORS:
                block.ops.append(Op("scf.yield", implicit=True))
        return blocks

    def block_label(self) -> Block:
        block = Block(self.take()[1])
        if self.peek()[1] == "(":
            self.take()
            while self.peek()[1] != ")":
                block.args.append(self.take()[1])
                self.expect(":")
                block.arg_types.append(parse_type(self.take()[1]))
                if self.peek()[1] == "loc":
                    self.take()
                    self.location()
                if self.peek()[1] == ",":
                    self.take()
            self.take()
        self.expect(":")
        return block

    def results(self) -> list[str]:
        found: list[str] = []
        while self.peek()[0] == "value":
            name = self.take()[1]
            if self.peek()[1] == ":":
                self.take()
                found += [f"{name}#{k}" for k in range(int(self.take()[1]))]
            else:
                found.append(name)
            if self.take()[1] == "=":
                break
        return found

    def op(self) -> Op:
        results = self.results()
        op = Op(self.take()[1].strip('"'), results)
        self.body(op)
        return op

    def body(self, op: Op) -> None:
        depth, run = 0, []
        while True:
            kind, text = self.peek()
            if kind == "end":
                raise Unsupported("unreadable Triton IR: unexpected end")
            if kind == "word" and text == "loc":
                self.take()
                loc = self.location()
                if depth == 0:
                    op.loc = loc
                    break
            elif text == "{" and kind == "mark":
                if self.at_attributes():
                    found = self.attributes()
                    if depth == 0:
                        op.attrs.update(found)
                else:
                    op.regions.append(self.region())
                    run.append(("region", ""))
            else:
                depth += (text in ("(", "[")) - (text in (")", "]"))
                run.append(self.take())
        interpret(op, run)


def _attribute(parts: list[str]) -> Any:
    text = " ".join(parts)
    if match := re.match(r"array<\w+(?::\s*(.*))?>$", text):
        items = [x.strip() for x in (match.group(1) or "").split(",") if x.strip()]
        return [int(x) if x.lstrip("-").isdigit() else x for x in items]
    if re.match(r"-?\d+$", text):
        return int(text)
    if text in ("true", "false"):
        return text == "true"
    return text.strip('"')
