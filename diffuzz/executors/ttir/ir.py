"""Triton IR as data: what the reader makes and the interpreter runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Type:
    """A scalar (no shape) or tensor type. Pointers have ``elem == "ptr"`` and ``pointee``."""

    shape: tuple[int, ...]
    elem: str
    pointee: str = ""

    @property
    def is_pointer(self) -> bool:
        return self.elem == "ptr"

    def __str__(self) -> str:
        elem = f"ptr<{self.pointee}>" if self.is_pointer else self.elem
        return "x".join([*map(str, self.shape), elem])


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type:
    """Type of ``i32``, ``!tt.ptr<bf16>``, ``tensor<4x8x!tt.ptr<f32>>`` (layouts are dropped)."""
    if text.startswith("tensor<"):
        body = text[7:-1]
        dims = []
        while match := re.match(r"(\d+)x", body):
            dims.append(int(match.group(1)))
            body = body[match.end() :]
        inner = parse_type(body.split(", #")[0].strip())
        return Type(tuple(dims), inner.elem, inner.pointee)
    if text.startswith("!tt.ptr<"):
        return Type((), "ptr", text[8:-1].split(",")[0].strip())
    return Type((), text)


@dataclass(eq=False)
class Op:
    """One operation. ``words`` are bare keywords and strings (predicates, modes, messages) in
    order; ``successors`` the labels a branch names, with the values it passes.

    ``step``, ``kill`` and ``memo`` are filled by :mod:`.plan`: the function that runs the
    operation, the values that die after it, and whatever that function wants to keep.
    """

    name: str
    results: list[str] = field(default_factory=list)
    operands: list[str] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    result_types: list[Type] = field(default_factory=list)
    attrs: dict[str, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    regions: list[list[Block]] = field(default_factory=list)
    symbol: str = ""
    successors: list[tuple[str, list[str]]] = field(default_factory=list)
    loc: str = ""
    implicit: bool = False
    step: Callable[..., Any] | None = None
    kill: tuple[str, ...] = ()
    memo: Any = None

    def blocks(self) -> Iterator[Block]:
        for region in self.regions:
            yield from region


@dataclass(eq=False)
class Block:
    label: str
    args: list[str] = field(default_factory=list)
    arg_types: list[Type] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    @property
    def terminator(self) -> Op:
        return self.ops[-1]


@dataclass(eq=False)
class Module:
    """A parsed module: functions by symbol (``tt.func`` operations), the public one, and the
    location aliases its operations refer to."""

    functions: dict[str, Op]
    entry: str
    locations: dict[str, str]

    @property
    def kernel(self) -> Op:
        return self.functions[self.entry]

    def walk(self) -> Iterator[Op]:
        """Every operation of every function, the functions themselves included."""
        todo = list(self.functions.values())
        while todo:
            op = todo.pop()
            yield op
            for block in op.blocks():
                todo.extend(block.ops)
