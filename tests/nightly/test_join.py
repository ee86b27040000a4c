"""States joined in any order, twice or late, are the same state; progress is read out of them."""

from __future__ import annotations

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from diffuzz.nightly.join import empty, join
from diffuzz.nightly.status import last_told, leads, status

_nights = st.sampled_from(["2026-08-01", "2026-08-02", "2026-08-03"])
_shards = st.sampled_from(["1/2", "2/2"])
_hashes = st.sampled_from(["aa", "bb", "cc"])


def look(word: str, night: str, **more: Any) -> dict[str, Any]:
    return {
        "night": night,
        "shard": "1/1",
        "commit": f"c{night}",
        "date": night,
        "slice": "aa",
        "word": word,
        "why": "worker lost" if word == "unknown" else "",
        "bad": 1,
        "runs": 3,
        "asks": None,
        "judge": "j",
        **more,
    }


def record(**more: Any) -> dict[str, Any]:
    common = {"target": "toy", "signature": "s", "direction": "regression", "follows": None}
    return {"since": "2026-08-01", "order": [1, 2.5], "unit": "toy/gfx950/cpu", **common, **more}


_looks = st.builds(
    lambda word, night, slice_hash: look(word, night, slice=slice_hash),
    st.sampled_from(["shown", "right", "flaky", "unknown"]),
    _nights,
    _hashes,
)
_answers = st.fixed_dictionaries(
    {
        "certain": st.booleans(),
        "confidence": st.none() | st.floats(0, 1),
        "culprit": st.just({"commit": "c"}),
    }
)
_findings = st.fixed_dictionaries(
    {
        "record": st.builds(
            lambda night, order: record(since=night, order=order),
            _nights,
            st.lists(st.integers(0, 3), min_size=1, max_size=3),
        ),
        "looks": st.lists(_looks, min_size=1, max_size=3),
        "answers": st.dictionaries(st.sampled_from(["x", "y"]), _answers, max_size=2),
    }
)
_judged = st.fixed_dictionaries(
    {"cases": st.integers(0, 9), "night": _nights, "done": st.booleans()}
)
_units = st.fixed_dictionaries(
    {
        "judged": st.dictionaries(_hashes, st.dictionaries(_shards, _judged, max_size=2)),
        "seen": st.dictionaries(
            _hashes, st.fixed_dictionaries({"night": _nights, "date": _nights, "commit": _hashes})
        ),
        "covered": st.lists(_hashes, unique=True).map(sorted),
    }
)
_entries = st.fixed_dictionaries({"at": _nights, "step": st.integers(0, 5), "text": st.text()})
_states = st.fixed_dictionaries(
    {
        "schema": st.just(1),
        "units": st.dictionaries(st.sampled_from(["u", "v"]), _units, max_size=2),
        "findings": st.dictionaries(st.sampled_from(["f", "g"]), _findings, max_size=2),
        "nights": st.dictionaries(_nights, st.dictionaries(_shards, _entries, max_size=2)),
        "drafted": st.dictionaries(st.sampled_from(["f", "g"]), _nights),
    }
)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(_states, _states, _states)
def test_joining_is_a_semilattice(one: Any, two: Any, three: Any) -> None:
    one, two, three = (join(state, empty()) for state in (one, two, three))
    one, two, three = (join(state, state) for state in (one, two, three))
    assert join(one, two) == join(two, one)
    assert join(one, join(two, three)) == join(join(one, two), three)
    both = join(one, two)
    assert join(both, one) == join(both, both) == both


def finding(*looks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"record": record(**more), "looks": list(looks), "answers": {}}


@pytest.mark.parametrize(
    ("words", "text", "since", "returned"),
    [
        ("shown", "open", 1, False),
        ("shown right", "fixed", 2, False),
        ("shown shown right", "fixed", 3, False),
        ("shown unknown", "not seen because of machinery", 1, False),
        ("shown unknown unknown shown", "open", 1, False),
        ("shown unknown right", "fixed", 3, False),
        ("shown right unknown", "not seen because of machinery", 2, False),
        ("shown right shown", "open", 3, True),
        ("flaky flaky", "flaky", 1, False),
        ("shown flaky", "flaky", 2, False),
        ("flaky right flaky", "flaky", 3, True),
        ("unknown", "not seen because of machinery", 1, False),
    ],
)
def test_progress(words: str, text: str, since: int, returned: bool) -> None:
    looks = [look(word, f"2026-08-{i:02}") for i, word in enumerate(words.split(), start=1)]
    now = status(finding(*looks))
    assert (now.text, now.since, now.returned) == (text, f"2026-08-{since:02}", returned)


def test_hidden_is_neither_gone_nor_the_machine_s_fault() -> None:
    hides = look("unknown", "2026-08-02", why="another failure: crash:run:x")
    assert status(finding(look("shown", "2026-08-01"), hides)).text == "hidden by another failure"


def test_of_one_night_a_shard_that_saw_it_outweighs_one_that_did_not() -> None:
    night = "2026-08-02"
    found = finding(
        look("shown", "2026-08-01"), look("shown", night), look("right", night, shard="2/2")
    )
    assert status(found).text == "open"
    told = last_told(found)
    assert told is not None
    assert told["word"] == "shown"


def answered(found: dict[str, Any], commit: str, certain: bool = True) -> dict[str, Any]:
    for item in found["looks"]:
        item["asks"] = "q"
    found["answers"]["q"] = {"certain": certain, "culprit": {"commit": commit}}
    return found


def test_one_commit_is_one_issue_and_an_uncertain_one_is_nobody() -> None:
    first = answered(finding(look("shown", "2026-08-01")), "c1")
    later = answered(finding(look("shown", "2026-08-02"), signature="t"), "c1")
    other = answered(finding(look("shown", "2026-08-02"), signature="u"), "c2")
    found = {"a": later, "b": first, "c": other}
    assert leads(found) == {"a": "b", "b": "b", "c": "c"}
    unsure = answered(finding(look("shown", "2026-08-02"), signature="t"), "c1", certain=False)
    assert status(unsure).culprit is None
    assert leads({"a": unsure, "b": first})["a"] == "a"


def test_the_same_mistake_on_two_archs_and_what_follows_are_one_issue() -> None:
    first = finding(look("shown", "2026-08-01"))
    arch = finding(look("shown", "2026-08-02"), unit="toy/gfx942/cpu")
    follows = finding(look("shown", "2026-08-02"), signature="t", follows="a")
    fixed = finding(look("shown", "2026-08-01"), look("right", "2026-08-02"), signature="t")
    found = {"a": first, "b": arch, "c": follows, "d": fixed}
    assert leads(found) == {"a": "a", "b": "a", "c": "a", "d": "d"}
