"""Cases again, on a sanitized build of the slice's native ops: what ASan and UBSan say.

Run in a process of its own, which loads ASan before anything else and has no memory limit. Ops
run guarded (:mod:`diffuzz.native.guarding`). A sanitizer tells of each place in the code once a
process, so a fault that many cases have is told of the first one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diffuzz.case import Case
from diffuzz.errors import CannotTell
from diffuzz.executors.native_ops import NativeOps
from diffuzz.executors.worker import Setup
from diffuzz.native.sanitize import parse_reports, sanitized_environment
from diffuzz.native.toolchain import child_environment
from diffuzz.outcome import Report

_MARK = "diffuzz-case: "
_START = "start"


def replay(
    setup: Setup, cases: Sequence[Case], *, time_limit: float = 300.0
) -> dict[str, tuple[Report, ...]]:
    """Reports by case id, of cases that have any.

    ``setup.native`` is the plan of a sanitized build (``native_ops.plan(..., sanitize=True)``).
    A case that ends the process is a ``crash``; the others go on in a fresh one. Raises
    :class:`CannotTell` if sanitized processes cannot run here.
    """
    if NativeOps.from_dict(setup.native).provider != "source":
        raise CannotTell("no sanitized build")
    found: dict[str, tuple[Report, ...]] = {}
    pending = list(cases)
    while pending:
        status, said = _process(setup, pending, time_limit)
        texts = _by_case(said)
        if _START not in texts:
            raise CannotTell("worker did not start under the sanitizers")
        for case in list(pending):
            if case.id in texts:
                pending.remove(case)
                if reports := tuple(parse_reports(texts[case.id])):
                    found[case.id] = reports
        if status == 0:
            break
        last = list(texts)[-1]
        if last == _START:
            raise CannotTell("worker did not start under the sanitizers")
        crash = Report("crash", f"the sanitized process ended with status {status}")
        found[last] = (*found.get(last, ()), crash)
    return found


def _process(setup: Setup, cases: Sequence[Case], time_limit: float) -> tuple[int, str]:
    """(exit status, standard error) of one process over ``cases``, as far as it came."""
    request = {"setup": asdict(setup), "cases": [case.to_dict() for case in cases]}
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder, "request.json"), Path(folder, "stderr")
        path.write_text(json.dumps(request))
        with log.open("wb") as stderr:
            try:
                status = subprocess.run(
                    [sys.executable, "-m", "diffuzz.executors.sanitized", str(path)],
                    env=sanitized_environment(child_environment()),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    timeout=time_limit,
                    check=False,
                ).returncode
            except subprocess.TimeoutExpired:
                raise CannotTell(f"sanitized runs take more than {time_limit:.0f} s") from None
        return status, log.read_text(errors="replace")


def _by_case(said: str) -> dict[str, str]:
    """What was said after each mark and before the next."""
    parts = said.split(_MARK)[1:]
    return {name: text for name, _, text in (part.partition("\n") for part in parts)}


def _child(path: Path) -> None:
    import faulthandler

    from diffuzz.executors.worker import _Runner as Runner
    from diffuzz.native.guarding import GuardedCalls

    faulthandler.disable()
    request = json.loads(path.read_text())
    runner = Runner(Setup(**request["setup"]))
    guard: Callable[[], Any] = GuardedCalls  # untyped in torch
    os.write(2, f"{_MARK}{_START}\n".encode())
    for data in request["cases"]:
        case_id = Case(data["target"], data["values"], data["seed"]).id
        os.write(2, f"{_MARK}{case_id}\n".encode())
        with guard():
            runner.run(data)


if __name__ == "__main__":
    _child(Path(sys.argv[1]))
