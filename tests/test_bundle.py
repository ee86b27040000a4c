"""Bundles: what they hold, that they answer as the revision does, and that damage shows."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from diffuzz import discovery
from diffuzz.arch import get_arch
from diffuzz.bundle import Recorder, pack
from diffuzz.errors import DiffuzzError, RevisionError, SourceUnavailable, UsageError
from diffuzz.history.packed import packed_history
from diffuzz.sources.bundle import open_bundle, open_bundled
from diffuzz.sources.revision import open_revision
from tests.conftest import Command
from tests.toy import TARGETS, repository

CASE = """\
target: toy_scale
seed: 3
values:
  mode: plain
  rows: 4
  scale: 0.037
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[str]]:
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "clone", repository(tmp_path / "clone", ["right", "narrow"])


def packed(clone: tuple[Path, list[str]], out: Path, corpora: tuple[Path, ...] = ()) -> Path:
    folder, commits = clone
    sources = [open_revision(commit, str(folder)) for commit in commits]
    pack(sources, ["toy_scale"], out, corpora=corpora, target_folders=(TARGETS,))
    return out


def corpus_of(folder: Path) -> Path:
    (folder / "toy_scale").mkdir(parents=True)
    (folder / "toy_scale" / "case-one.yaml").write_text(CASE)
    return folder


def test_run_and_replay_from_a_bundle_without_the_repository(
    clone: tuple[Path, list[str]], tmp_path: Path, diffuzz: Command
) -> None:
    folder, (right, narrow) = clone
    made = diffuzz(
        *("bundle", "--repo", str(folder), "--revision", right, "--revision", narrow),
        *("--target", "toy_scale", "--targets", TARGETS, "--out", "toy.bundle"),
    )
    assert made.returncode == 0, made.stderr
    folder.rename(tmp_path / "gone")
    words = ("--targets", TARGETS, "--executor", "cpu", "--jobs", "1")
    run = diffuzz(
        *("run", "toy_scale", "--baseline", f"bundle:toy.bundle#{right}"),
        *("--candidate", f"bundle:toy.bundle#{narrow[:12]}", "--examples", "20"),
        *("--json", "-", "--out", "out", *words),
    )
    assert run.returncode == 1, run.stderr
    report = json.loads(run.stdout)
    assert [f["kind"] for f in report["findings"]] == ["precision"]
    assert report["candidate"]["commit"] == narrow
    finding = next(Path("out/findings").glob("*.yaml"))
    for commit, code in ((right, 0), (narrow, 1)):
        done = diffuzz(
            "replay", str(finding), "--revision", f"bundle:toy.bundle#{commit}", *words[:4]
        )
        assert done.returncode == code, done.stdout


def test_needs_neither_a_git_library_nor_an_index_client(
    clone: tuple[Path, list[str]], tmp_path: Path
) -> None:
    bundle = packed(clone, tmp_path / "toy.bundle")
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('git', 'pypi_simple'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "import diffuzz.cli.run, diffuzz.cli.replay, diffuzz.cli.crosscheck\n"
        "from diffuzz.sources.revision import open_revision\n"
        f"print(open_revision('bundle:{bundle}#{clone[1][0]}').exists('vllm/toy/scale.py'))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_same_contents_same_bytes(clone: tuple[Path, list[str]], tmp_path: Path) -> None:
    corpora = (corpus_of(tmp_path / "corpus"),)
    one = packed(clone, tmp_path / "one", corpora)
    two = packed(clone, tmp_path / "two", corpora)
    assert one.read_bytes() == two.read_bytes()


def test_answers_as_the_revision_does(clone: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, commits = clone
    real = Recorder(open_revision(commits[1], str(folder)))
    for path in ("vllm/toy/scale.py", "vllm/backends/all.py", "vllm/old_toy.py"):
        real.read(path)
    there = open_bundle(packed(clone, tmp_path / "toy.bundle")).source(commits[1])
    assert there.identity.commit == commits[1]
    for path in ("vllm/toy/scale.py", "vllm/backends/all.py"):
        assert there.read(path) == real.read(path)
        assert there.blob_id(path) == real.blob_id(path)
    assert there.list("vllm/backends") == real.list("vllm/backends")
    assert not there.exists("vllm/backends/none.py")


def test_what_was_not_asked_is_an_error_and_not_an_absent_file(
    clone: tuple[Path, list[str]], tmp_path: Path
) -> None:
    there = open_bundle(packed(clone, tmp_path / "toy.bundle")).source(clone[1][0])
    for ask in (there.read, there.exists, there.blob_id, there.list):
        with pytest.raises(SourceUnavailable, match=r"was not asked for .*toy_scale"):
            ask("vllm/elsewhere.py")


def test_names_of_revisions(clone: tuple[Path, list[str]], tmp_path: Path) -> None:
    bundle = packed(clone, tmp_path / "toy.bundle")
    assert open_bundled(f"bundle:{bundle}#{clone[1][0][:9]}").identity.commit == clone[1][0]
    with pytest.raises(RevisionError, match=r"holds no pypi:9\.9: "):
        open_bundled(f"bundle:{bundle}#pypi:9.9")
    with pytest.raises(RevisionError, match="holds several revisions"):
        open_bundled(f"bundle:{bundle}")


def test_corpus_travels_and_unpacks(
    clone: tuple[Path, list[str]], tmp_path: Path, diffuzz: Command
) -> None:
    bundle = packed(clone, tmp_path / "toy.bundle", (corpus_of(tmp_path / "corpus"),))
    words = ("bundle", "--show", str(bundle), "--unpack-corpus", "there")
    for _ in range(2):
        done = diffuzz(*words)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "corpus: 1 cases")
    (unpacked,) = Path("there/toy_scale").iterdir()
    assert unpacked.read_text() == CASE
    unpacked.write_text("mine\n")
    assert diffuzz(*words).returncode == 2


@pytest.mark.parametrize("name", ["../../out.yaml", "/out.yaml", "toy_scale/../../x.yaml"])
def test_a_corpus_cannot_be_written_elsewhere(
    clone: tuple[Path, list[str]], tmp_path: Path, name: str
) -> None:
    bundle = packed(clone, tmp_path / "toy.bundle", (corpus_of(tmp_path / "corpus"),))
    with zipfile.ZipFile(bundle) as old:
        members = {item.filename: old.read(item) for item in old.infolist()}
    manifest = json.loads(members["manifest.json"])
    manifest["corpus"] = {name: next(iter(manifest["corpus"].values()))}
    members["manifest.json"] = json.dumps(manifest).encode()
    bad = tmp_path / "bad.bundle"
    with zipfile.ZipFile(bad, "w") as new:
        for member, content in members.items():
            new.writestr(member, content)
        new.comment = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    with pytest.raises(SourceUnavailable, match=r"bad\.bundle: not a diffuzz bundle"):
        open_bundle(bad)


def test_history_of_a_bundle_is_its_revisions_in_packing_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIFFUZZ_CACHE", str(tmp_path / "cache"))
    versions = ["right", "right, written otherwise", "right", "narrow", "forgets the scale"]
    commits = repository(tmp_path / "clone", versions)
    bundle = packed((tmp_path / "clone", commits), tmp_path / "toy.bundle")
    target, arch = discovery.load("toy_scale", (TARGETS,)), get_arch("gfx950")
    names = [f"bundle:{bundle}#{commit}" for commit in commits]
    for _ in range(2):  # the second time from what the first remembered
        found = packed_history(names[0], names[-1], target, arch)
        assert [v.revision for v in found.variants] == [names[i] for i in (0, 1, 2, 3, 4)]
        assert found.variants[0].key == found.variants[2].key
        assert found.distinct == 4
    assert packed_history(names[3], names[4], target, arch).revisions == 2
    with pytest.raises(UsageError, match="was packed before"):
        packed_history(names[4], names[3], target, arch)
    with pytest.raises(UsageError, match="of one bundle"):
        packed_history(names[4], "bundle:other#x", target, arch)


def rewritten(bundle: Path, out: Path, name: str, content: bytes) -> Path:
    """The bundle with one member replaced, all zip checksums in order."""
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(out, "w") as new:
        for item in old.infolist():
            new.writestr(item, content if item.filename.startswith(name) else old.read(item))
        new.comment = old.comment
    return out


@pytest.mark.parametrize("damage", ["cut", "flip", "blob", "manifest", "text", "empty", "gone"])
def test_damage_is_one_clear_line(
    clone: tuple[Path, list[str]], tmp_path: Path, damage: str
) -> None:
    bundle = packed(clone, tmp_path / "toy.bundle")
    content = bundle.read_bytes()
    bad = tmp_path / "bad.bundle"
    if damage in ("blob", "manifest"):
        rewritten(bundle, bad, "blobs/" if damage == "blob" else "manifest", b"{}")
    elif damage != "gone":
        bad.write_bytes(
            {
                "cut": content[: len(content) // 2],
                "flip": content[:90] + bytes([content[90] ^ 255]) + content[91:],
                "text": b"no bundle\n",
                "empty": b"",
            }[damage]
        )
    with pytest.raises(DiffuzzError) as caught:
        open_bundled(f"bundle:{bad}#{clone[1][0]}").read("vllm/toy/scale.py")
    text = str(caught.value)
    assert "bad.bundle" in text
    assert "\n" not in text
    assert ("damaged" in text) or ("cannot be read" in text), text


def test_bad_usage_is_one_line(diffuzz: Command, tmp_path: Path) -> None:
    assert diffuzz("bundle").stderr.startswith("diffuzz: bundle needs --revision")
    done = diffuzz("bundle", "--revision", "1.0", "--out", os.fspath(tmp_path / "no" / "x"))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
