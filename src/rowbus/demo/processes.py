"""The processes that serve the endpoints and the log: started, watched, and ended whatever happens.

Each is a command, `rowbus run module:endpoint` or `rowbus ticker`, as it would be in production, in a session of its
own: Ctrl-C in the terminal is for us, and we tell them.

Invariant: when we end, they end: drained if there is time, killed if there is none, and told by the kernel if we are
killed ourselves.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rowbus.errors import RowbusError
from rowbus.settings import DATABASE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Generator
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


class Workers:
    """The processes, from `with` to the end of its block."""

    def __init__(self, dsn: str, *, workers: int, logs: Path) -> None:
        """Say where they connect to, how many serve each endpoint, and the folder of their logs. Starts nothing."""
        self._environment = environment(dsn)
        self._workers = workers
        self._logs = logs
        self._stack = ExitStack()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        """Start a process for each endpoint, one for Bookkeeping and a ticker; returns at once."""
        with ExitStack() as stack:
            stack.callback(self.stop)
            for name, command in self._commands():
                with no_interrupt():  # or there is a process that nobody knows
                    self.processes[name] = self._start(command, self.log(name))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop them; see `stop`."""
        self._stack.close()

    def _commands(self) -> Iterator[tuple[str, Sequence[str]]]:
        for endpoint, target in ENDPOINTS.items():
            yield endpoint, ("run", target, "--workers", str(self._workers))
        yield from AROUND_THE_LOG.items()

    def log(self, endpoint: str) -> Path:
        """Return where an endpoint's processes log."""
        return self._logs / f"{endpoint.lower()}.log"

    def check(self) -> None:
        """Raise EndpointEndedError if one has ended that should be serving."""
        for endpoint, process in self.processes.items():
            if (code := process.poll()) is not None:
                log = self.log(endpoint)
                last = last_line(log)
                raise EndpointEndedError(
                    f"{endpoint} has ended with exit code {code}: {last} (all of it: {log})",
                    endpoint=endpoint,
                    log=str(log),
                )

    def stop(self) -> None:
        """Let them finish what is in hand, and wait until they have ended; kill those that take too long."""
        try:
            for seconds in (DRAIN_SECONDS, INTERRUPT_SECONDS):
                self._signal(signal.SIGTERM)
                if self._have_ended(seconds):
                    return
        finally:  # also when somebody interrupts the wait
            self._signal(signal.SIGKILL)
            self._have_ended(INTERRUPT_SECONDS)

    def _start(self, command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "rowbus", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=partial(become_child, os.getpid()),  # noqa: PLW1509 - unsafe beside threads; this program has none
            )

    def _signal(self, number: signal.Signals) -> None:
        for process in self.processes.values():
            if process.poll() is not None:
                continue
            with suppress(ProcessLookupError):
                # A process that is killed cannot see to its children, so its whole session goes with it.
                (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)

    def _have_ended(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while any(process.poll() is None for process in self.processes.values()):
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def environment(dsn: str) -> dict[str, str]:
    """Return the environment of a program of ours that works on a database and imports what we can import."""
    path = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    return {**os.environ, DATABASE_VARIABLE: dsn, "PYTHONPATH": path}


@contextmanager
def signals_as_interrupt() -> Generator[list[int]]:
    """Have SIGTERM and SIGHUP (the terminal was closed) do what Ctrl-C does: raise KeyboardInterrupt here.

    Gives the list of signals received, for whoever meets another error instead: one that an interrupt has led to.
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


def become_child(parent: int) -> None:
    """In a child, before it becomes its program: have the kernel send it SIGTERM when its parent dies."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _INTERRUPTS)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it has died already
            os._exit(1)


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
