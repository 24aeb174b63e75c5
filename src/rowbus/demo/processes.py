"""The demo's processes: start them, watch them, end them.

Each is a command, `rowbus run module:endpoint` or `rowbus ticker`, as it would be in production, in a session of its
own: Ctrl-C in the terminal reaches us alone, and we signal them.

Invariant: when we end, they end: drained if there is time, killed if there is none, and signalled by the kernel if we
are killed ourselves.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import rowbus
from rowbus.database.location import DATABASE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType
    from typing import Self

DRAIN_SECONDS = 10.0  # then a second signal interrupts what is in hand
INTERRUPT_SECONDS = 5.0  # then they are killed
POLL_SECONDS = 0.02
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # prctl(2)


class ProcessEndedError(rowbus.RowbusError):
    """A process of the demo has ended that should be running; see `process` and `log`."""

    process: str
    log: str

    @classmethod
    def of(cls, name: str, code: int, log: Path) -> ProcessEndedError:
        """Return the error with the exit code and the last line of the log."""
        text = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
        last = text.rpartition("\n")[2].strip() or "it logged nothing"
        told = f"{name} has ended with exit code {code}: {last} (all of it: {log})"
        return cls(told, process=name, log=str(log))


class Processes:
    """Processes that run Python modules on one database, until the end of a `with` block."""

    def __init__(self, dsn: str, logs: Path) -> None:
        """Take the database they work on and the folder of their logs. Starts nothing."""
        self._dsn = dsn
        self._logs = logs
        self._running: dict[str, subprocess.Popen[str]] = {}

    def start(
        self, name: str, *module: str, stdout: int | None = None, **environment: str
    ) -> subprocess.Popen[str]:
        """Start a module that imports what we can; what it prints goes to its log, or where `stdout` says."""
        path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        with _no_interrupt(), self._log(name).open("ab") as log:  # no process without an entry here
            self._running[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", *module],
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                text=True,
                env={**os.environ, DATABASE_VARIABLE: self._dsn, "PYTHONPATH": path, **environment},
                start_new_session=True,
                preexec_fn=partial(_become_child, os.getpid()),  # noqa: PLW1509 - unsafe beside threads; we have none
            )
        return self._running[name]

    def run(self, name: str, *module: str) -> None:
        """Run a module to its end; raises ProcessEndedError unless it ends well."""
        code = self.start(name, *module).wait()
        del self._running[name]
        if code:
            raise ProcessEndedError.of(name, code, self._log(name))

    def __enter__(self) -> Self:
        """Begin with no process."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Let them finish what is in hand, and wait until they have ended; kill those that take too long."""
        try:
            for seconds in (DRAIN_SECONDS, INTERRUPT_SECONDS):
                self._signal(signal.SIGTERM)
                if self._have_ended(seconds):
                    return
        finally:  # also when the wait is interrupted
            self._signal(signal.SIGKILL)
            self._have_ended(INTERRUPT_SECONDS)

    def check(self) -> None:
        """Raise ProcessEndedError if one has ended."""
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                raise ProcessEndedError.of(name, code, self._log(name))

    def _log(self, name: str) -> Path:
        return self._logs / f"{name.lower()}.log"

    def _signal(self, number: signal.Signals) -> None:
        """Signal each process and what it started in its session, such as Spark's Java."""
        for process in self._running.values():
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    def _have_ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in self._running.values()):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


@contextmanager
def signals_as_interrupt() -> Generator[list[int]]:
    """Have SIGTERM and SIGHUP (the terminal was closed) do what Ctrl-C does: raise KeyboardInterrupt here.

    Gives the list of signals received: an interrupt may come out as another error, which the list explains.
    """
    received: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    # A signal that is ignored (SIGINT in a shell's background, SIGHUP under nohup) is meant to be.
    numbers = [number for number in _INTERRUPTS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _no_interrupt() -> Generator[None]:
    """Put interrupts off until the end of the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _become_child(parent: int) -> None:
    """In a child, before it becomes its program: have the kernel send it SIGTERM when its parent dies."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it has died already
            os._exit(1)
