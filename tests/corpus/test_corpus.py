"""Entries, statements, loading, migration, merging and pruning."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffuzz import corpus, discovery
from diffuzz.case import Case, make_case, sort_key
from diffuzz.casefile import CaseFile, Statement, read_case_file, render, write_case_file
from diffuzz.corpus import Entry, make_entry
from diffuzz.errors import DiffuzzError
from diffuzz.generate import draw_cases

from .. import toy
from ..conftest import Command

TARGET = discovery.load("toy_scale", (toy.TARGETS,))
QUOTING = "assertion:run:scale_rows:the toy says something: here it is"
PLAIN = "precision:through-e4m3"
TODAY = date(2026, 12, 1)


def finding(signature: str | None = PLAIN, seed: int = 0, **values: object) -> CaseFile:
    kind = None if signature is None else signature.partition(":")[0]
    return CaseFile("here", "toy_scale", seed, dict(values), signature=signature, kind=kind)


def entry(file: CaseFile) -> Entry:
    return make_entry(file, file.case(TARGET.axes))


def known(until: date, reason: str = "waits") -> Statement:
    return Statement("known", None, reason, until)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.yaml"))
    }


# --- entries and what they say -------------------------------------------------------------------


def test_an_entry_quotes_nothing() -> None:
    file = replace(finding(QUOTING), message="the toy says something", baseline="a", id="x")
    text = render(entry(file).file)
    assert "toy says" not in text
    assert "sha256-" in text
    assert corpus.stored_signature(QUOTING) == entry(file).signature
    again = corpus.stored_signature(corpus.stored_signature(QUOTING))
    assert again == corpus.stored_signature(QUOTING)


@pytest.mark.parametrize("signature", [PLAIN, "hang:run:timeout", "wrong-result:out:values"])
def test_signatures_that_quote_nothing_stay_readable(signature: str) -> None:
    assert corpus.stored_signature(signature) == signature


def test_names_come_from_contents() -> None:
    one = entry(finding(rows=3, scale=0.5))
    same = entry(replace(finding(scale=0.5, rows=3, mode="plain"), note="another note"))
    assert one.name == same.name
    assert one.name.startswith("precision-")
    others = [finding(rows=4, scale=0.5), finding(None, rows=3, scale=0.5), finding(seed=1, rows=3)]
    assert len({one.name, *(entry(file).name for file in others)}) == 4


@pytest.mark.parametrize(
    ("said", "red", "text"),
    [
        (None, True, "open"),
        (Statement("open", reason="being looked at"), True, "open: being looked at"),
        (known(date(2026, 12, 1)), False, "known until 2026-12-01: waits"),
        (known(date(2026, 11, 30)), True, "known only until 2026-11-30: waits"),
        (Statement("fixed-in", "0.28.0"), True, "was fixed in 0.28.0"),
    ],
)
def test_what_is_expected(said: Statement | None, red: bool, text: str) -> None:
    file = entry(replace(finding(), expected=said))
    assert corpus.expectation(file, TODAY) == corpus.Expectation(red, text)


def test_a_finding_is_found_by_its_signature() -> None:
    entries = [
        entry(replace(finding(QUOTING, rows=2), expected=Statement())),
        entry(replace(finding(QUOTING, rows=3), expected=known(TODAY))),
        entry(finding(PLAIN)),
        entry(finding(None, rows=7)),
    ]
    found = corpus.find(entries, "toy_scale", QUOTING)
    assert found is entries[1]
    assert corpus.find(reversed(entries), "toy_scale", QUOTING) is entries[1]
    assert corpus.find(entries, "toy_scale", "precision:other") is None
    assert corpus.find(entries, "another", QUOTING) is None


# --- files ---------------------------------------------------------------------------------------

_TEXT = st.text(min_size=1, max_size=60).filter(str.strip)
_FILES = st.builds(
    CaseFile,
    path=st.just("x"),
    target=st.just("toy_scale"),
    seed=st.integers(0, 2**32 - 1),
    values=st.dictionaries(
        st.sampled_from(["mode", "rows", "scale"]),
        st.one_of(
            st.booleans(),
            st.integers(-(10**9), 10**9),
            st.floats(allow_nan=False, allow_infinity=False, width=32),
            st.text(max_size=20),
            st.lists(st.integers(0, 99), max_size=5),
        ),
    ),
    signature=_TEXT,
    message=st.none() | _TEXT,
    note=st.none() | _TEXT,
    baseline=st.sampled_from([None, "pypi:0.20.0", "1234567", "12e4567", "0x10", "true", "null"]),
    expected=st.one_of(
        st.none(),
        st.builds(Statement, st.just("known"), st.none(), _TEXT, st.dates()),
        st.builds(Statement, st.just("fixed-in"), st.sampled_from(["1e3", "0.28.0", "main~3"])),
    ),
)


@settings(max_examples=150, deadline=None)
@given(_FILES)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, file: CaseFile
) -> None:
    path = tmp_path_factory.mktemp("file") / "x.yaml"
    write_case_file(path, file)
    again = read_case_file(path)
    assert replace(again, path="x", document=None) == file
    assert render(again) == render(file)


def test_every_drawn_case_survives_its_file(tmp_path: Path) -> None:
    for case in draw_cases(TARGET, count=40, seed=9):
        path = corpus.write(tmp_path, make_entry(CaseFile("", case.target, 0, {}), case))
        assert read_case_file(path).case(TARGET.axes) == case
    assert len(corpus.load(tmp_path, TARGET)) == 40


def test_an_older_schema_becomes_the_newest(tmp_path: Path) -> None:
    old = "schema: 1\ntarget: toy_scale\nsignature: a:b:c\nseed: 1\nvalues: {rows: 3}\n"
    (tmp_path / "old.yaml").write_text(old)
    file = read_case_file(tmp_path / "old.yaml")
    assert file.expected == Statement("open")
    assert render(file).startswith("schema: 2\n")
    (tmp_path / "plain.yaml").write_text("schema: 1\ntarget: toy_scale\nvalues: {}\n")
    assert read_case_file(tmp_path / "plain.yaml").expected is None


def test_long_texts_are_cut_when_written(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    write_case_file(path, replace(finding(), message="x" * 9000 + "\ud800"))
    assert len(read_case_file(path).message or "") == 3000


def test_loading_is_ordered_and_holds_entries_to_the_target(tmp_path: Path) -> None:
    for rows in range(1, 9):
        corpus.add(tmp_path, finding(None, rows=rows), TARGET)
    entries = corpus.load(tmp_path, TARGET)
    names = [Path(e.file.path).name for e in entries]
    assert names == sorted(names)
    assert sorted(e.case(TARGET.axes)["rows"] for e in entries) == list(range(1, 9))
    assert corpus.load(tmp_path / "nowhere", TARGET) == []
    bad = tmp_path / "toy_scale" / "mine.yaml"
    bad.write_text("target: toy_scale\nvalues:\n  mode: odd\n  rows: 2\n")
    with pytest.raises(DiffuzzError, match=r"mine.yaml:2: the contract excludes this case: odd"):
        corpus.load(tmp_path, TARGET)


# --- upkeep --------------------------------------------------------------------------------------


def test_adding_twice_keeps_the_stronger_statement(tmp_path: Path) -> None:
    path, new = corpus.add(tmp_path, finding(rows=2), TARGET, known(TODAY), note="why")
    assert new
    again, new = corpus.add(tmp_path, finding(rows=2), TARGET)
    assert (again, new) == (path, False)
    assert read_case_file(path).expected == known(TODAY)
    with pytest.raises(DiffuzzError, match="a case alone"):
        corpus.add(tmp_path, finding(None), TARGET, Statement())


def some_entries(seeds: range) -> list[CaseFile]:
    cases = draw_cases(TARGET, count=6, seed=seeds.start)
    said = [None, Statement(), known(TODAY), known(TODAY, "later"), Statement("fixed-in", "1")]
    return [
        CaseFile(
            "",
            case.target,
            case.seed,
            dict(case.values),
            signature=[PLAIN, QUOTING][number % 2],
            kind=["precision", "assertion"][number % 2],
            expected=said[(number + seeds.start) % len(said)],
            note=f"note {(number * seeds.start) % 3}",
        )
        for number, case in enumerate(cases[:5])
    ]


def filled(folder: Path, *files: CaseFile) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        corpus.write(folder, make_entry(file, file.case(TARGET.axes)))
    return folder


@pytest.mark.parametrize("seed", range(4))
def test_merging_does_not_depend_on_order(tmp_path: Path, seed: int) -> None:
    mine, theirs = some_entries(range(seed, 9)), some_entries(range(seed + 1, 9))
    shared = [replace(f, note="theirs", expected=known(TODAY, "zzz")) for f in mine[:3]]
    a, b = filled(tmp_path / "a", *mine), filled(tmp_path / "b", *theirs, *shared)
    ab, ba = (shutil.copytree(x, tmp_path / n) for x, n in ((a, "ab"), (b, "ba")))
    corpus.merge(ab, b)
    corpus.merge(ba, a)
    assert contents(ab) == contents(ba)
    assert set(contents(a)) | set(contents(b)) == set(contents(ab))
    assert corpus.merge(ab, ba) == (0, 0)


def test_merging_gives_files_their_names(tmp_path: Path) -> None:
    file = finding(None, rows=5)
    right = filled(tmp_path / "right", entry(file).file)
    wrong = tmp_path / "wrong" / "toy_scale" / "mine.yaml"
    write_case_file(wrong, entry(file).file)
    assert corpus.merge(tmp_path / "wrong", right) == (0, 0)
    assert contents(tmp_path / "wrong") == contents(right)


def test_pruning_keeps_the_simplest_with_the_strongest_statement(tmp_path: Path) -> None:
    files = [
        finding(rows=9, scale=0.5),
        replace(finding(rows=3, scale=0.037), expected=known(TODAY)),
        finding(rows=1, scale=0.5),
        finding(None, rows=9, scale=0.5),
        finding(None, rows=1, scale=0.5),
    ]
    filled(tmp_path, *files)
    before = contents(tmp_path)
    told: list[str] = []
    dropped = corpus.prune(tmp_path, TARGET, TODAY, lambda d: told.append(d.why), dry_run=True)
    assert (len(dropped), len(told), contents(tmp_path)) == (2, 2, before)
    corpus.prune(tmp_path, TARGET, TODAY)
    left = corpus.load(tmp_path, TARGET)
    assert len(left) == 3
    (kept,) = [e for e in left if e.signature]
    assert kept.case(TARGET.axes)["rows"] == 1
    assert kept.expected == known(TODAY)
    assert corpus.prune(tmp_path, TARGET, TODAY) == []


def test_pruning_drops_what_is_over(tmp_path: Path) -> None:
    filled(tmp_path, replace(finding(), expected=known(date(2026, 11, 30))))
    told: list[str] = []
    corpus.prune(tmp_path, TARGET, date(2026, 11, 30), lambda d: told.append(d.why))
    assert told == []
    corpus.prune(tmp_path, TARGET, TODAY, lambda d: told.append(d.why))
    assert told == ["known only until 2026-11-30"]
    assert corpus.load(tmp_path, TARGET) == []


# --- what ships, and the command -----------------------------------------------------------------


@pytest.mark.parametrize("name", ["k3_decode", "rocm_gather"])
def test_the_own_corpus_holds(name: str) -> None:
    target = discovery.load(name)
    entries = corpus.load(corpus.own_folder(), target)
    assert len(entries) >= 10
    for one in entries:
        path = Path(one.file.path)
        assert path.name == one.name
        assert path.read_text() == render(one.file)
        assert one.file.note
    drawn: dict[str, set[object]] = {}
    for one in entries:
        for axis, value in one.case(target.axes).values.items():
            drawn.setdefault(axis, set()).add(value)
    for axis in target.axes:
        wanted = set(getattr(axis, "options", ()))
        assert wanted <= drawn[axis.name], f"no entry has every {axis.name}"


def simplest(cases: list[Case]) -> Case:
    return min(cases, key=lambda case: sort_key(case, TARGET.axes))


def test_the_command(diffuzz: Command, tmp_path: Path) -> None:
    names = ("--targets", toy.TARGETS)
    write_case_file(tmp_path / "f.yaml", replace(finding(QUOTING, rows=4), message="quote"))
    write_case_file(tmp_path / "g.yaml", finding(QUOTING, rows=2))
    done = diffuzz(
        *("corpus", "add", "f.yaml", "g.yaml", *names, "--status", "known"),
        *("--reason", "it waits", "--expires", "2099-01-31", "--note", "seen once"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": added") == 2
    done = diffuzz("corpus", "list", *names)
    assert "toy_scale: 2 entries" in done.stdout
    assert "known until 2099-01-31: it waits (not red)" in done.stdout
    assert "seen once" in done.stdout
    assert "toy says" not in done.stdout
    done = diffuzz("corpus", "merge", ".diffuzz/corpora", "--corpus", "other")
    assert done.stdout == "2 new, 0 changed\n"
    assert "2 dropped" not in diffuzz("corpus", "prune", *names, "--dry-run").stdout
    assert diffuzz("corpus", "prune", *names).stdout.endswith("1 dropped\n")
    (left,) = corpus.load(tmp_path / ".diffuzz" / "corpora", TARGET)
    assert left.case(TARGET.axes) == make_case("toy_scale", TARGET.axes, {"rows": 2})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list", "--corpus", "nowhere"), "nowhere: no such folder"),
        (("prune", "--corpus", "nowhere"), "nowhere: no such folder"),
        (("merge", "nowhere"), "nowhere: no such folder"),
        (("add", "nofile.yaml"), "nofile.yaml: no such file"),
        (("add", "f.yaml", "--status", "known"), "needs --reason and --expires"),
        (("add", "f.yaml", "--status", "open", "--fixed-in", "1"), "exclude each other"),
        (("add", "f.yaml", "--reason", "r"), "--reason needs --status"),
        (("add", "f.yaml", "--status", "open", "--expires", "2027-01-01"), "only --status known"),
    ],
)
def test_bad_words_are_one_clear_line(
    diffuzz: Command, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    write_case_file(tmp_path / "f.yaml", finding())
    more = () if words[0] == "merge" else ("--targets", toy.TARGETS)
    done = diffuzz("corpus", *words, *more)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
