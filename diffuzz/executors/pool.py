"""The parent's side of a worker: start it, hand it cases, survive it.

A worker that dies or hangs is replaced. One death proves nothing (a neighbour may have used up
the memory), so the case runs once more in a fresh process, and only a second death is an outcome.
"""

from __future__ import annotations

import json
import signal
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType

from diffuzz.case import Case
from diffuzz.executors import template, wire, worker
from diffuzz.executors.worker import Setup
from diffuzz.outcome import Crashed, Outcome, Returned, TimedOut, Unsupported

_START_LIMIT_S = 120.0
_LOG_TAIL = 2000


class Worker:
    """One child process at a time, for one :class:`Setup`."""

    def __init__(self, setup: Setup, time_limit: float) -> None:
        self._setup = setup
        self._time_limit = time_limit
        self._process: ForkServerProcess | None = None
        self._connection: Connection | None = None
        self._failure = Unsupported("worker did not start")
        self.restarts = 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, path: Path) -> Outcome:
        """Run the case whose request is written at ``path`` and return its outcome."""
        self.submit(path)
        return self.result(path)

    def submit(self, path: Path) -> None:
        """Start on the request at ``path``; :meth:`result` waits for it."""
        # Twice: a worker that has just ended after its last case is still alive when asked.
        for _ in range(2):
            if self._start() is not None or self._connection is None:
                return
            try:
                self._connection.send_bytes(str(path).encode())
                return
            except OSError:
                self._kill()

    def result(self, path: Path) -> Outcome:
        first = self._receive()
        if not isinstance(first, (Crashed, TimedOut)):
            return first
        self.restarts += 1
        self.submit(path)
        second = self._receive()
        if isinstance(second, Crashed) and second.how == "signal SIGKILL":
            return Unsupported("worker killed, out of memory perhaps")
        return second

    def close(self) -> None:
        self._kill()

    def _start(self) -> Unsupported | None:
        """Bring up a child if there is none; the reason it cannot serve, else None."""
        if self._process is not None and self._process.is_alive():
            return None
        self._kill()
        here, there = template.CONTEXT.Pipe()
        process = template.CONTEXT.Process(
            target=worker.main, args=(there, self._setup), daemon=True
        )
        with template.ready():
            process.start()
        there.close()
        self._process, self._connection = process, here
        ready = self._receive(_START_LIMIT_S)
        if isinstance(ready, Returned):
            return None
        if isinstance(ready, Unsupported):
            self._failure = ready
        self._kill()
        return self._failure

    def _receive(self, limit: float | None = None) -> Outcome:
        connection, limit = self._connection, limit or self._time_limit
        if connection is None:
            return self._failure
        try:
            while True:
                if not connection.poll(limit):
                    self._kill()
                    return TimedOut(limit)
                outcome = wire.receive(connection)
                # A compiler at work starts the limit anew.
                if not isinstance(outcome, wire.Compiling):
                    break
        except (EOFError, OSError):
            return self._died()
        if isinstance(outcome, Crashed):
            self._kill()  # its context on the device is lost with it
        return outcome

    def _died(self) -> Crashed:
        process = self._process
        assert process is not None
        process.join(timeout=10)
        code = process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            how = f"signal {signal.Signals(-code).name}"
        self._kill()
        return Crashed(how, self.log_tail())

    def log_tail(self) -> str:
        """The end of what the worker printed."""
        try:
            return Path(self._setup.log).read_text(errors="replace")[-_LOG_TAIL:]
        except OSError:
            return ""

    def _kill(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            if self._process.is_alive():
                self._process.kill()
            self._process.join(timeout=10)
        self._process = self._connection = None


def write_request(folder: Path, case: Case) -> Path:
    """Put the case on disk before it runs, so that one that kills everything is not lost."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{case.id}.json"
    if not path.exists():
        path.write_text(json.dumps(case.to_dict(), sort_keys=True) + "\n")
    return path
