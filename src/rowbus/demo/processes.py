"""The demo's processes: start those of the endpoints, the log and Analytics, watch them, end them.

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
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rowbus.errors import RowbusError
from rowbus.settings import DATABASE_VARIABLE

if TYPE_CHECKING:
    from types import FrameType
    from typing import Self

ENDPOINTS: Mapping[str, str] = {
    "Sales": "rowbus.demo.sales:endpoint",
    "Billing": "rowbus.demo.billing:endpoint",
    "Shipping": "rowbus.demo.shipping:endpoint",
}
AROUND_THE_LOG: Mapping[str, Sequence[str]] = {
    "Bookkeeping": ("run", "rowbus.demo.books:log"),
    "Ticker": ("ticker",),
}
DRAIN_SECONDS = 10.0  # then a second signal interrupts what is in hand
INTERRUPT_SECONDS = 5.0  # then they are killed
POLL_SECONDS = 0.02
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # prctl(2)


class EndpointEndedError(RowbusError):
    """A process that was to serve an endpoint has ended; see `endpoint` and `log`."""

    endpoint: str
    log: str

    @classmethod
    def of(cls, endpoint: str, code: int, log: Path) -> EndpointEndedError:
        """Return the error with the exit code and the last line of the log."""
        text = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
        last = text.rpartition("\n")[2].strip() or "it logged nothing"
        told = f"{endpoint} has ended with exit code {code}: {last} (all of it: {log})"
        return cls(told, endpoint=endpoint, log=str(log))


class Workers:
    """The processes of the endpoints and of the log, from `with` to the end of its block."""

    def __init__(self, dsn: str, *, workers: int, logs: Path) -> None:
        """Say where they connect to, how many serve each endpoint, and the folder of their logs. Starts nothing."""
        self._dsn = dsn
        self._logs = logs
        serving = {name: ("run", target, "--workers", str(workers)) for name, target in ENDPOINTS.items()}
        self._commands: Mapping[str, Sequence[str]] = {**serving, **AROUND_THE_LOG}
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        """Start a process for each endpoint, one for Bookkeeping and a ticker; returns at once."""
        try:
            for name, command in self._commands.items():
                with no_interrupt(), self._log(name).open("ab") as output:  # no process without an entry here
                    self.processes[name] = start(self._dsn, "rowbus", *command, stdout=output, stderr=output)
        except BaseException:
            self.__exit__()
            raise
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
        """Raise EndpointEndedError if one has ended that should be serving."""
        for endpoint, process in self.processes.items():
            if (code := process.poll()) is not None:
                raise EndpointEndedError.of(endpoint, code, self._log(endpoint))

    def _log(self, endpoint: str) -> Path:
        return self._logs / f"{endpoint.lower()}.log"

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    # A process that is killed cannot end its children, so its whole session goes with it.
                    (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)

    def _have_ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in self.processes.values()):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def run_analytics(dsn: str, folder: Path) -> Generator[str]:
    """Run Analytics to its end, and give its lines as they come; it and its Java do not outlive the generator.

    Raises EndpointEndedError if it fails.
    """
    log = folder / "analytics.log"
    process = None
    try:
        with no_interrupt(), log.open("ab") as errors:
            local = {"SPARK_LOCAL_DIRS": str(folder / "spark")}
            module = ("rowbus.demo.analytics", str(folder))
            process = start(dsn, *module, stdout=subprocess.PIPE, stderr=errors, environment=local)
        for line in process.stdout or ():
            yield line.rstrip()
        if code := process.wait():
            raise EndpointEndedError.of("Analytics", code, log)
    finally:
        if process is not None:
            _end_with_java(process)


def start(
    dsn: str,
    *module: str,
    stdout: IO[bytes] | int,
    stderr: IO[bytes],
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[str]:
    """Start a Python module in a session of its own; it works on this database and imports what we can."""
    path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-P", "-m", *module],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        env={**os.environ, DATABASE_VARIABLE: dsn, "PYTHONPATH": path, **(environment or {})},
        start_new_session=True,
        preexec_fn=partial(_become_child, os.getpid()),  # noqa: PLW1509 - unsafe beside threads; this program has none
    )


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
def no_interrupt() -> Generator[None]:
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


def _end_with_java(process: subprocess.Popen[str]) -> None:
    """End the program and its Java, which removes its temporary files if it is given the time."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(INTERRUPT_SECONDS)
    if process.stdout:
        process.stdout.close()
