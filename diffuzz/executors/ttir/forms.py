"""Telling operands, words and types apart in the token run of an operation, by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diffuzz.executors.ttir.ir import Op, Type, parse_type
from diffuzz.executors.ttir.tokens import Token

Form = Callable[[Op, Sequence[Token]], None]


def interpret(op: Op, run: Sequence[Token]) -> None:
    """Fill ``op`` from the tokens between its name and its location."""
    _FORMS.get(op.name, _plain)(op, run)


def _types(run: Sequence[Token]) -> list[Type]:
    return [parse_type(t) for k, t in run if k in ("type", "word") and t not in ("to", "do")]


def _values(run: Sequence[Token]) -> list[str]:
    return [t for k, t in run if k == "value"]


def _after_arrow(run: Sequence[Token]) -> list[Token]:
    for at, (kind, _) in enumerate(run):
        if kind == "arrow":
            return list(run[at + 1 :])
    return []


def _module(op: Op, run: Sequence[Token]) -> None:
    return


def _func(op: Op, run: Sequence[Token]) -> None:
    op.words = [t for k, t in run if k == "word"][:1]
    op.symbol = next(t for k, t in run if k == "symbol")
    for at, (kind, text) in enumerate(run):
        if kind == "value":
            op.operands.append(text)
            op.types.append(parse_type(run[at + 2][1]))
    op.result_types = _types([t for t in _after_arrow(run) if t[1] != "attributes"])


def _for(op: Op, run: Sequence[Token]) -> None:
    # %i = %lower to %upper step %step [iter_args(%a = %x, ...) -> (types)] : type
    values = _values(run)
    op.operands = values[1:4] + values[5::2]
    block = op.regions[0][0]
    block.args = [values[0], *values[4::2]]
    op.words = [t for k, t in run if k == "word" and t == "unsigned"]
    carried = _after_arrow(run)
    ends = [at for at, token in enumerate(carried) if token[1] in (":", "")]
    op.result_types = _types(carried[: ends[0]] if ends else carried)


def _while(op: Op, run: Sequence[Token]) -> None:
    # (%a = %x, ...) : (types) -> types
    head = list(run[: next((at for at, t in enumerate(run) if t[1] == ":"), 0)])
    values = _values(head)
    op.operands = values[1::2]
    op.regions[0][0].args = values[0::2]
    op.result_types = _types(_after_arrow(run))


def _if(op: Op, run: Sequence[Token]) -> None:
    op.operands = [run[0][1]]
    op.result_types = _types([t for t in _after_arrow(run) if t[1] != "else"])


def _branch(op: Op, run: Sequence[Token]) -> None:
    rest = list(run)
    if op.name == "cf.cond_br":
        op.operands = [rest.pop(0)[1]]
    for kind, text in rest:
        if kind == "block":
            op.successors.append((text, []))
        elif kind == "value":
            op.successors[-1][1].append(text)


def _constant(op: Op, run: Sequence[Token]) -> None:
    colons = [at for at, token in enumerate(run) if token[1] == ":"]
    if colons:
        op.attrs["value"] = " ".join(t for _, t in run[: colons[-1]])
        op.result_types = [parse_type(run[colons[-1] + 1][1])]
    else:
        op.attrs["value"] = " ".join(t for _, t in run)
        op.result_types = [Type((), "i1")]


def _split_at_colon(run: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    depth, colon = 0, None
    for at, (_, text) in enumerate(run):
        depth += (text in ("(", "[")) - (text in (")", "]"))
        if text == ":" and depth == 0:
            colon = at
    return (run, ()) if colon is None else (run[:colon], run[colon + 1 :])


def _plain(op: Op, run: Sequence[Token]) -> None:
    """Operands, words and ``key = word`` pairs, then a colon and types."""
    head, tail = _split_at_colon(run)
    at = 0
    while at < len(head):
        kind, text = head[at]
        if kind == "value":
            op.operands.append(text)
        elif kind == "symbol":
            op.symbol = text
        elif kind == "string":
            op.words.append(text[1:-1])
        elif kind == "word" and at + 1 < len(head) and head[at + 1][1] == "=":
            op.attrs[text] = head[at + 2][1]
            at += 2
        elif kind == "word":
            op.words.append(text)
        at += 1
    split = next(
        (k for k, (kind, text) in enumerate(tail) if kind == "arrow" or text == "to"), None
    )
    if split is not None:
        op.types, op.result_types = _types(tail[:split]), _types(tail[split + 1 :])
    else:
        op.types = _types(tail)
        if op.results:
            op.result_types = [_result_type(op)] * len(op.results)
    if op.name == "tt.split" and len(op.result_types) == 1:
        op.result_types *= 2


def _result_type(op: Op) -> Type:
    """Type of the results where the form does not print it."""
    if not op.types:
        return Type((), "")
    if op.name == "arith.select":
        return op.types[-1]
    if op.name == "tt.load" and op.types[0].is_pointer:
        return Type(op.types[0].shape, op.types[0].pointee)
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return Type(op.types[0].shape, "i1")
    return op.types[0]


_FORMS: dict[str, Form] = {
    "module": _module,
    "tt.func": _func,
    "scf.for": _for,
    "scf.while": _while,
    "scf.if": _if,
    "cf.br": _branch,
    "cf.cond_br": _branch,
    "arith.constant": _constant,
}
