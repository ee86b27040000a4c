"""States of nights joined: commutative, associative, idempotent.

Everything a state holds is made of sets that only grow and of values of which the greater stays by
a total order. So shards can be merged in any order, twice, or late, and two processes that share a
state cannot lose each other's work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

SCHEMA = 1
KEPT_NIGHTS = 60
Data = dict[str, Any]


def empty() -> Data:
    return {"schema": SCHEMA, "units": {}, "findings": {}, "nights": {}, "drafted": {}}


def empty_unit() -> Data:
    """``judged``: slice, shard → how; ``seen``: slice → the newest commit that has it;
    ``covered``: digests of the pairs of values that some case had."""
    return {"judged": {}, "seen": {}, "covered": []}


def join(one: Data, other: Data) -> Data:
    """The state that holds what either holds."""
    return {
        "schema": SCHEMA,
        "units": _each(one["units"], other["units"], _unit),
        "findings": _each(one["findings"], other["findings"], _finding),
        "nights": _newest(_each(one["nights"], other["nights"], _night)),
        "drafted": _each(one["drafted"], other["drafted"], min),
    }


def _newest(nights: Data) -> Data:
    """Of the nights' own accounts only the newest stay; what they found is kept with findings."""
    return {name: nights[name] for name in sorted(nights)[-KEPT_NIGHTS:]}


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _each(one: Data, other: Data, both: Callable[[Any, Any], Any]) -> Data:
    """Mappings joined key by key, in the order of the keys."""
    result = {}
    for key in sorted({*one, *other}):
        if key in one and key in other:
            result[key] = both(one[key], other[key])
        else:
            result[key] = one.get(key, other.get(key))
    return result


def _unit(one: Data, other: Data) -> Data:
    return {
        "judged": _each(
            one["judged"],
            other["judged"],
            lambda a, b: _each(a, b, _greater("night", "cases")),
        ),
        "seen": _each(one["seen"], other["seen"], _greater("night", "date")),
        "covered": sorted({*one["covered"], *other["covered"]}),
    }


def _finding(one: Data, other: Data) -> Data:
    looks = {canonical(look): look for look in (*one["looks"], *other["looks"])}
    return {
        "record": _record(one["record"], other["record"]),
        "looks": sorted(looks.values(), key=lambda x: (x["night"], x["date"], canonical(x))),
        "answers": _each(one["answers"], other["answers"], _greater("certain", "confidence")),
    }


def _record(one: Data, other: Data) -> Data:
    """Of the case files of a finding the one of its newest showing, and of those the simplest."""
    if one["since"] != other["since"]:
        return one if one["since"] > other["since"] else other
    return min(one, other, key=lambda record: (record["order"], canonical(record)))


def _night(one: Data, other: Data) -> Data:
    return _each(one, other, _greater("at", "step"))


def _greater(*fields: str) -> Callable[[Data, Data], Data]:
    """The one of two mappings that is greater in ``fields``, then as text."""

    def rank(item: Mapping[str, Any]) -> tuple[Any, ...]:
        return (*(_comparable(item.get(name)) for name in fields), canonical(item))

    return lambda one, other: max(one, other, key=rank)


def _comparable(value: object) -> tuple[bool, Any]:
    """None comes before everything."""
    return (value is not None, 0 if value is None else value)
