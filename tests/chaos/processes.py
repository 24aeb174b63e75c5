"""The programs of a run, and which of them leads what.

Invariant: no program outlives its run: `end` kills whatever is still there, each by its own process id, with all that
it started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.fixtures.places import ROOT
from tests.fixtures.processes import children, kill_below

PATIENCE = 60.0
PAUSE = 0.05

SESSIONS = """
    select activity.client_port
    from pg_stat_activity as activity
    inner join pg_locks as held on activity.pid = held.pid
    where held.locktype = 'advisory' and held.granted and activity.application_name like %s
        and activity.client_port is not null and activity.datname = current_database()
"""


def await_that(condition: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Wait until a condition holds; fails, saying what it waited for, when it does not in time."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(PAUSE)


class Program:
    """One program, which is started again by `restart` as it was started."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._environment = environment
        self.process = self._start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def pids(self) -> list[int]:
        """It and all below it."""
        return sorted(children(self.pid)) if self.is_running else []

    @property
    def workers(self) -> list[int]:
        """The processes that do its work: those it supervises, or itself."""
        below = [pid for pid in self.pids if pid != self.pid]
        return below or [self.pid]

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def restart(self) -> None:
        """Start it again, after it was killed."""
        self.process.wait(PATIENCE)
        self.process = self._start()

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        kill_below(self.pid)
        self.process.wait(PATIENCE)

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )


class Producer(Program):
    """A producer; its journal is its standard output, apart from what it complains of."""

    journal: Path

    def _start(self) -> subprocess.Popen[bytes]:
        self.journal = self.log.with_suffix(".journal")
        with self.log.open("ab") as log, self.journal.open("ab") as journal:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=journal,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )


def python(*arguments: str) -> list[str]:
    return [sys.executable, *arguments]


def rowbus(*arguments: str) -> list[str]:
    return python("-m", "rowbus", *arguments)


def leaders(connection: psycopg.Connection[tuple[int]], application: str, among: Iterable[int]) -> list[int]:
    """Give the processes, of these, whose sessions of this application hold an advisory lock.

    They lead, or work for the process that does.
    """
    ports = {int(port) for (port,) in connection.execute(SESSIONS, (application,))}
    sockets = _sockets_of(ports)
    return [pid for pid in among if _sockets(pid) & sockets]


def _sockets_of(ports: set[int]) -> set[str]:
    """Give the sockets of local ports, as the kernel's table of connections names them."""
    lines = map(str.split, Path("/proc/self/net/tcp").read_text().splitlines()[1:])
    return {f"socket:[{fields[9]}]" for fields in lines if int(fields[1].rpartition(":")[2], 16) in ports}


def _sockets(pid: int) -> set[str]:
    found: set[str] = set()
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(link))  # noqa: PTH115 - a socket's link is no path
    return found
