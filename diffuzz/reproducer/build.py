"""Putting a reproducer together, and running it to see that it says what diffuzz says."""

from __future__ import annotations

import pprint
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffuzz import __version__
from diffuzz.arch import ARCHS, Arch
from diffuzz.campaign import Job, Runner
from diffuzz.case import Case
from diffuzz.casefile import CaseFile
from diffuzz.corpus import stored_signature
from diffuzz.errors import UsageError
from diffuzz.finding import Defect, Judged
from diffuzz.minimise import folded
from diffuzz.native import op_models
from diffuzz.oracles.sanity import ABNORMAL, RUN
from diffuzz.reproducer.bundle import bundle
from diffuzz.reproducer.pack import pack
from diffuzz.slicing.result import Slice

TIME_LIMIT_S = 300.0
_CODES = {0: "right", 1: "wrong", 125: "cannot tell"}
_JUDGING = ("arch", "case", "expected", "numerics.error", "numerics.formats", "numerics.poison")
_TRITON = "executors.triton_ir"
_MODELS = "native.op_models"


@dataclass(frozen=True)
class Subject:
    """A revision, and diffuzz's own judgement of the case on it (``job`` has it on both sides)."""

    revision: str
    job: Job
    judged: Judged


@dataclass(frozen=True)
class Reproducer:
    """The file's text, and what came of running it here without a GPU.

    ``checks`` has a line for each revision; ``cpu`` says why the file refuses to run without a
    GPU, None if it does run.
    """

    text: str
    checks: tuple[str, ...] = field(default_factory=tuple)
    cpu: str | None = None


def judge(revision: str, job: Job, case: Case, time_limit: float) -> Subject:
    """Run ``case`` on ``job``'s candidate."""
    with (
        tempfile.TemporaryDirectory() as scratch,
        Runner(job, Path(scratch), lanes=1, time_limit=time_limit) as runner,
    ):
        return Subject(revision, job, runner.run(case).candidate)


def build(
    file: CaseFile, case: Case, subject: Subject, others: Sequence[Subject] = ()
) -> Reproducer:
    """The reproducer of ``case`` on ``subject``'s revision.

    ``others`` are the finding's further revisions: what is wrong on any of them is what the file
    looks at, and its verdict is checked on each. Raises :class:`UsageError` where no file can
    show the finding.
    """
    subjects = (subject, *others)
    mine = _defects_of(file, subjects)
    aspects = _aspects(mine)
    cpu: str | None = None
    checks = []
    for one in subjects:
        word = _word(one.judged, aspects)
        said = _check(_text(file, case, one, mine, None))
        checks.append(
            f"{one.revision}: {said}" + ("" if said == word else f", where diffuzz says {word}")
        )
        if word == "cannot tell":
            cpu = cpu or f"diffuzz cannot tell either ({one.judged.unknown})"
        elif said != word:
            cpu = f"tried on {one.revision}, it came to {said!r} where diffuzz says {word!r}"
    return Reproducer(_text(file, case, subject, mine, cpu), tuple(checks), cpu)


def _defects_of(file: CaseFile, subjects: Sequence[Subject]) -> list[Defect]:
    """What is wrong on any of the revisions and is the finding; everything for a plain case."""
    defects = [defect for one in subjects for defect in one.judged.defects]
    if file.signature is None:
        return defects
    wanted = stored_signature(file.signature)
    mine = [d for d in defects if stored_signature(folded(d.signature)) == wanted]
    if not mine and all(one.judged.unknown is None for one in subjects):
        tried = ", ".join(one.revision for one in subjects)
        arch = subjects[0].job.arch.name
        raise UsageError(f"{file.path}: the finding does not show on {arch} at {tried}")
    return mine


def _aspects(mine: Sequence[Defect]) -> list[str]:
    """The outputs that the file's verdict depends on; empty for all of them."""
    if any(d.aspect == RUN and d.kind in ABNORMAL for d in mine):
        return []
    return sorted({d.aspect for d in mine})


def _word(judged: Judged, aspects: Sequence[str]) -> str:
    if judged.unknown is not None:
        return "cannot tell"
    defects = [
        d for d in judged.defects if not aspects or d.aspect in aspects or d.kind in ABNORMAL
    ]
    return "wrong" if defects else "right"


def _check(text: str) -> str:
    """Run a reproducer here on the CPU; its verdict."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "reproducer.py"
        script.write_text(text, encoding="utf-8")
        command = [sys.executable, str(script), "--device", "cpu", "--timeout", f"{TIME_LIMIT_S}"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return _CODES.get(done.returncode, f"exit code {done.returncode}")


def _text(
    file: CaseFile, case: Case, subject: Subject, mine: Sequence[Defect], cpu: str | None
) -> str:
    job, piece = subject.job, subject.job.candidate.slice
    native = subject.job.candidate.native
    modelled = op_models.unmodelled(native.names, native.schemas) is None
    triton = any("triton" in text for text in piece.files.values())
    about = {
        "title": f"{case.target}: {mine[0].message if mine else 'a case'}",
        "shown": f"{case.id} on {job.arch.name}: {_shown(case, job)}",
        "revision": f"{subject.revision} (slice {piece.hash[:12]})",
        "made_by": f"diffuzz {__version__}",
        "arch": job.arch.name,
        "archs": _like(job.arch),
        "values": case.to_dict()["values"],
        "seed": case.seed,
        "aspects": _aspects(mine),
        "traced": bool(mine) and all(_is_traced(d) for d in mine),
        "dims": {name: list(axes) for name, axes in getattr(job.target, "dims", {}).items()},
        "ops": list(native.names) if modelled else [],
        "schemas": dict(native.schemas) if modelled else {},
        "triton": triton,
        "cpu": cpu,
    }
    needed = (*_JUDGING, *([_TRITON] if triton else []), *([_MODELS] if native.names else []))
    files = bundle(case.target, job.target_folders, needed)
    files |= {f"vllm_slice/{name}": text for name, text in _written(piece).items()}
    inputs = job.target.inputs(case, job.arch)
    packed = pack(files, inputs, job.target.expected(case, job.arch, inputs))
    return _filled(about, packed)


def _is_traced(defect: Defect) -> bool:
    """Whether it shows only because every access is followed; a GPU would run on."""
    return defect.aspect == RUN and defect.kind not in ABNORMAL


def _like(arch: Arch) -> list[str]:
    """GPUs that can stand for ``arch``: of the same vendor and fp8 flavour."""
    return [a.name for a in ARCHS.values() if (a.vendor, a.e4m3) == (arch.vendor, arch.e4m3)]


def _shown(case: Case, job: Job) -> str:
    axes = job.target.axes
    moved = [f"{axis.name}={case[axis.name]}" for axis in axes if case[axis.name] != axis.default]
    return " ".join(moved) or "every axis at its default"


def _written(piece: Slice) -> dict[str, str]:
    """The files of the slice as it is written for a worker, by relative path."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        piece.write(root)
        return {
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def _filled(about: dict[str, Any], packed: str) -> str:
    """The script with its data."""
    script = Path(__file__).with_name("script.py").read_text(encoding="utf-8")
    shown = pprint.pformat(about, width=98, sort_dicts=False)
    note = f"# Made by diffuzz {__version__}. Holds code of vLLM at the revision named below.\n"
    text = script.replace("ABOUT: dict[str, Any] = {}\n", f"ABOUT: dict[str, Any] = {shown}\n")
    main = 'if __name__ == "__main__":\n'
    return note + text.replace(main, f'PACKED = """\n{packed}\n"""\n\n{main}')
