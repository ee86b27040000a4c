"""Two hundred files that nobody should be able to harm a run with, each with a reason to refuse it.

Everything is generated: numbers, types, tags, nesting, aliases, encodings, truncation, names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

GOOD = """\
schema: 2
target: toy_scale
note: a case
seed: 3
values:
  mode: plain
  rows: 2
  scale: 0.5
"""


@dataclass(frozen=True)
class Hostile:
    """A file and where the refusal must point to (None: no line to point to)."""

    what: str
    raw: bytes
    line: int | None
    name: str = "case-000000000000.yaml"


def _with(field: str, value: str, line: int) -> str:
    lines = GOOD.splitlines()
    lines[line - 1] = f"{lines[line - 1].split(field)[0]}{field}: {value}"
    return "\n".join(lines) + "\n"


def everything() -> list[Hostile]:
    made = [
        *_numbers(),
        *_types(),
        *_tags(),
        *_nesting(),
        *_repeats(),
        *_encodings(),
        *_truncated(),
        *_unknown(),
        *_names(),
        *_large(),
        *_statements(),
    ]
    assert len({item.what for item in made}) == len(made)
    return made


def _numbers() -> Iterator[Hostile]:
    seeds = ["-1", "4294967296", "9" * 21, "9" * 5000, "1e400", "1.5", ".inf", "-.inf", ".nan"]
    seeds += ["0x10", "010", "1_000", "1:30", "true", "null", "~", "''", "'3'", "1e3", "++1"]
    for text in seeds:
        yield Hostile(f"seed {text[:12]} {len(text)}", _with("seed", text, 4).encode(), 4)
    scales = [
        "0",
        "-1",
        "0.0",
        "-0.5",
        "1e39",
        "1e-60",
        "1e400",
        "-1e400",
        ".inf",
        ".NaN",
        "9" * 400,
    ]
    scales += ["0x1p3", "1e", "true", "0.5.5", "1/2", "1e+99999999999", "'0.5'"]
    for text in scales:
        yield Hostile(f"scale {text[:16]}", _with("scale", text, 8).encode(), 8)
    for text in ["0", "21", "-5", "2.0", "1e1", "'2'", "yes", "2 3", "[2]", "{}", "[]", "9" * 19]:
        yield Hostile(f"rows {text[:9]}", _with("rows", text, 7).encode(), 7)
    for text in ["0", "3", "-1", "1.0", "two", "99999999999999999999"]:
        yield Hostile(f"schema {text}", _with("schema", text, 1).encode(), 1)


def _types() -> Iterator[Hostile]:
    for text in [
        "[]",
        "{}",
        "''",
        "a b",
        "../up",
        "-x",
        "x" * 65,
        "a/b",
        "'\\0'",
        '"a\\nb"',
        "7up",
    ]:
        yield Hostile(f"target {text[:8]}", _with("target", text, 2).encode(), 2)
    for text in ["7", "[]", "plain", "null", "[[]]", "- a"]:
        raw = GOOD.split("values:")[0] + f"values: {text}\n"
        yield Hostile(f"values {text}", raw.encode(), 5)
    for text in ["[1, 2]", "{a: 1}", "true", "1", "PLAIN", "''", "odd odd", "null", "[[plain]]"]:
        yield Hostile(f"mode {text}", _with("mode", text, 6).encode(), 6)
    for text in ["a case", "7", "[a, b]", "- a\n- b", "true"]:
        yield Hostile(f"not a mapping {text!r}", f"{text}\n".encode(), 1)
    yield Hostile("no target", GOOD.replace("target: toy_scale\n", "").encode(), 1)
    yield Hostile("no values", GOOD.split("values:")[0].encode(), 1)
    yield Hostile("another target", _with("target", "rocm_gather", 2).encode(), 2)
    for field, text in [
        ("direction", "sideways"),
        ("kind", "mystery"),
        ("arch", "../gfx"),
        ("executor", "gpu; rm"),
        ("id", "../../x"),
        ("id", ".hidden"),
        ("baseline", "''"),
        ("baseline", '"a\\tb"'),
        ("candidate", "[1]"),
        ("signature", "''"),
        ("message", "{}"),
        ("note", "''"),
    ]:
        raw = GOOD.replace("note: a case", f"{field}: {text}")
        yield Hostile(f"{field} {text}", raw.encode(), 3)


def _tags() -> Iterator[Hostile]:
    for tag in [
        "!!python/object/apply:os.system ['touch executed']",
        "!!python/object/new:subprocess.Popen [['touch', 'executed']]",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/tuple [1]",
        "!!binary aGk=",
        "!!set {a}",
        "!!timestamp 2020-01-01",
        "!!int '3'",
        "!!float 'nan'",
        "!!str 3",
        "!!omap []",
        "!local x",
        "! x",
        "!<tag:yaml.org,2002:python/name:os.system> ''",
    ]:
        yield Hostile(f"tag {tag[:40]}", _with("rows", tag, 7).encode(), 7)
        yield Hostile(f"tag on a seed {tag[:40]}", _with("seed", tag, 4).encode(), 4)
    yield Hostile("tag on the document", b"--- !!python/object:os.x\n" + GOOD.encode(), 1)
    yield Hostile("directive", b"%YAML 1.1\n---\n" + GOOD.encode(), 1)
    yield Hostile("tag directive", b"%TAG !e! tag:example.org,2000:\n---\n" + GOOD.encode(), 1)
    yield Hostile("second document", GOOD.encode() + b"---\n" + GOOD.encode(), 9)


def _nesting() -> Iterator[Hostile]:
    for depth in (4, 50, 1000, 20_000):
        yield Hostile(f"lists {depth}", _with("rows", "[" * depth + "]" * depth, 7).encode(), 7)
        yield Hostile(f"unclosed lists {depth}", _with("rows", "[" * depth, 7).encode(), None)
        maps = "{a: " * depth + "1" + "}" * depth
        yield Hostile(f"maps {depth}", _with("rows", maps, 7).encode(), 7)
    block = GOOD + "".join(" " * (2 + i) + f"k{i}:\n" for i in range(300))
    yield Hostile("deep block", block.encode(), 12)
    dashes = _with("rows", "\n" + "    " + "- " * 2000, 7)
    yield Hostile("dashes", dashes.encode(), 8)


def _repeats() -> Iterator[Hostile]:
    for line, field in [(2, "target"), (4, "seed"), (1, "schema")]:
        text = GOOD + GOOD.splitlines()[line - 1] + "\n"
        yield Hostile(f"{field} twice", text.encode(), 9)
    yield Hostile("values twice", (GOOD + "values: {}\n").encode(), 9)
    yield Hostile("rows twice", (GOOD + "  rows: 2\n").encode(), 9)
    yield Hostile("rows twice, quoted", (GOOD + "  'rows': 2\n").encode(), 9)
    yield Hostile("anchor", _with("rows", "&a 2", 7).encode(), 7)
    yield Hostile("alias", _with("rows", "*a", 7).encode(), None)
    yield Hostile("anchor and alias", (_with("rows", "&a 2", 7) + "  more: *a\n").encode(), 7)
    yield Hostile("merge key", (GOOD + "  <<: {rows: 3}\n").encode(), 9)
    yield Hostile("merge key on top", (GOOD + "<<: {seed: 3}\n").encode(), 9)
    bomb = "a: &a [x, x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
    )
    yield Hostile("a billion laughs", (bomb + GOOD).encode(), 1)
    yield Hostile("a list as a key", b"? [a, b]\n: 1\n", 1)
    yield Hostile("a map as a key", b"? {a: b}\n: 1\n", 1)


def _encodings() -> Iterator[Hostile]:
    for codec in (
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-32-le",
        "utf-32-be",
        "utf-8-sig",
    ):
        yield Hostile(codec, GOOD.encode(codec), 1)
    for codec in ("latin-1", "cp1252", "cp437"):
        yield Hostile(codec, GOOD.replace("a case", "a caée").encode(codec), 3)
    yield Hostile("utf-7", GOOD.encode("utf-7").replace(b"toy", b"+ANw-"), 2)
    for code in (0, 1, 7, 0x1B, 0x7F, 0xFFFE):
        text = GOOD.replace("a case", f"a{chr(code)}case")
        yield Hostile(f"control {code:x}", text.encode(), 3)
    yield Hostile("lone surrogate", GOOD.encode().replace(b"a case", b"\xed\xa0\x80"), 3)
    yield Hostile("overlong", GOOD.encode().replace(b"a case", b"\xc0\xaf"), 3)
    yield Hostile("binary", bytes(range(256)) * 16, 2)
    yield Hostile("gzip", b"\x1f\x8b\x08" + bytes(40), 1)
    yield Hostile("elf", b"\x7fELF" + bytes(60), 1)
    yield Hostile("empty", b"", 1)
    yield Hostile("blanks", b" \n \n", 1)
    yield Hostile("a comment", b"# nothing\n", 1)
    yield Hostile("tabs", GOOD.replace("  mode", "\tmode").encode(), 6)


def _truncated() -> Iterator[Hostile]:
    raw = GOOD.encode()
    for end in (3, 8, 12, 20, 34, 45, 52, 59):
        yield Hostile(f"cut at {end}", raw[:end], None)
    for text in [
        "{",
        "[",
        "'",
        '"',
        "values: {",
        "target: 'x",
        "a: b: c",
        "- a\nb: c",
        "@x",
        "`x`",
        "%",
    ]:
        yield Hostile(f"unfinished {text!r}", text.encode(), None)


def _unknown() -> Iterator[Hostile]:
    for key in ["extra", "Target", "values ", "__class__", "'\\x00'", "7", "true", "é", "k" * 3000]:
        quoted = key if key.startswith("'") else f"'{key}'"
        yield Hostile(f"field {key[:12]}", (GOOD + f"{quoted}: 1\n").encode(), 9)
        yield Hostile(f"axis {key[:12]}", (GOOD + f"  {quoted}: 1\n").encode(), 9)
    old = GOOD.replace("schema: 2", "schema: 1")
    yield Hostile("a field newer than its schema", old.encode(), 3)


def _names() -> Iterator[Hostile]:
    for name in [
        "a b.yaml",
        "-rf.yaml",
        "x.yml",
        "x.json",
        "x.yaml.py",
        "x",
        "$(touch executed).yaml",
        "x;y.yaml",
        "é.yaml",
        "a\nb.yaml",
        "\x1b[31m.yaml",
        "x..%2fup.yaml",
        "y" * 200 + ".yaml",
    ]:
        yield Hostile(f"named {name!r}"[:40], GOOD.encode(), None, name)


def _large() -> Iterator[Hostile]:
    yield Hostile("many bytes", GOOD.encode() + b"#" * (1 << 18), 1)
    yield Hostile("many megabytes", GOOD.encode() + b"\n" * (32 << 20), 1)
    yield Hostile("a long line", GOOD.replace("a case", "x" * 40_000).encode(), 3)
    yield Hostile("long text", GOOD.replace("a case", "x " * 2_000).encode(), 3)
    many = ", ".join("1" for _ in range(20_000))
    yield Hostile("many items", _with("rows", f"[{many}]", 7).encode(), 7)
    fields = "".join(f"k{i}: 1\n" for i in range(9_000))
    yield Hostile("many fields", (GOOD + fields).encode(), None)
    yield Hostile("a long key", (GOOD + "? " + "k" * 30_000 + "\n: 1\n").encode(), 9)


def _statements() -> Iterator[Hostile]:
    finding = GOOD.replace("note: a case", "signature: a:b:c")
    for text in ["fine", "7", "[]", "{}", "{fixed-in: ''}", "{fixed-in: 1, also: 2}", "{fixed: x}"]:
        yield Hostile(f"status {text}", (finding + f"status: {text}\n").encode(), 9)
    yield Hostile("known without a reason", (finding + "status: known\n").encode(), 9)
    for text in [
        "soon",
        "2027-02-30",
        "20270101",
        "2027-1-1",
        "99999-01-01",
        "[]",
        "'2027-01-01 '",
    ]:
        said = f"status: known\nreason: r\nexpires: {text}\n"
        yield Hostile(f"expires {text}", (finding + said).encode(), 11)
    yield Hostile("open expires", (finding + "status: open\nexpires: 2027-01-01\n").encode(), 10)
    yield Hostile("reason alone", (finding + "reason: r\n").encode(), 9)
