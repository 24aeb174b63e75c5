"""The real command line, as processes of its own, on the test's database.

Nothing here sleeps: what is awaited is a line of a log, a row, or the end of a process.
"""

from __future__ import annotations

import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
from psycopg import sql

from rowbus.messages.address import QueueAddress

PATIENCE = 60.0  # seconds until whatever is awaited counts as never coming
ROWBUS = [sys.executable, "-m", "rowbus"]


class Finished(subprocess.CompletedProcess[str]):
    """A command that has ended; its two outputs are text."""


class Running:
    """A command that serves, with what it has written so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self.lines: list[str] = []
        self._incoming: queue.Queue[str | None] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, output: IO[str]) -> None:
        with output:
            for line in output:
                self._incoming.put(line.rstrip("\n"))
        self._incoming.put(None)

    def wait_for(self, pattern: str, *, times: int = 1) -> list[re.Match[str]]:
        """Wait until so many lines match, and return the matches; fails if the command ends before."""
        deadline = time.monotonic() + PATIENCE
        while len(found := [m for line in self.lines if (m := re.search(pattern, line))]) < times:
            self._take(pattern, deadline)
        return found

    def _take(self, pattern: str, deadline: float) -> None:
        try:
            line = self._incoming.get(timeout=max(deadline - time.monotonic(), 0))
        except queue.Empty:
            line = None
        if line is None:
            pytest.fail(f"{pattern!r} never came; this did:\n" + "\n".join(self.lines))
        self.lines.append(line)

    def workers(self) -> list[int]:
        """Return the processes it said to have started, of which some may have ended."""
        while not self._incoming.empty():
            self.lines.append(self._incoming.get() or "")
        return [
            int(found[1]) for line in self.lines if (found := re.search(r"Worker \d+ is process (\d+)", line))
        ]

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def tell_group(self, number: signal.Signals) -> None:
        """Signal whatever is in the command's process group, as Ctrl-C in a terminal does."""
        os.killpg(self.pid, number)

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        return self.process.wait(PATIENCE)


class CommandLine:
    """`rowbus …` with ROWBUS_DATABASE set, in a folder of the test's own."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self._started: list[Running] = []

    def environment(self, **more: str) -> dict[str, str]:
        """Give the environment of a command, whatever Python is told in ours.

        Bytecode is kept, as it is for users, and halves the time of a start. Output is buffered: without, a line is
        written in parts, and those of several workers mix.
        """
        ours = {"ROWBUS_DATABASE": self.database, "NO_COLOR": "1"}
        python = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONUNBUFFERED": ""}
        inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        return inherited | ours | python | more

    def __call__(self, *arguments: str, input: str | bytes = "", **environment: str) -> Finished:  # noqa: A002 - subprocess's name
        """Run a command to its end; its standard input is a pipe with `input` in it."""
        given = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            [*ROWBUS, *arguments],
            input=given,
            capture_output=True,
            check=False,
            cwd=self.folder,
            env=self.environment(**environment),
            timeout=PATIENCE,
        )
        return Finished(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *arguments: str, **environment: str) -> Running:
        """Start a command that serves; it is killed at the end of the test."""
        process = subprocess.Popen(
            [*ROWBUS, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder,
            env=self.environment(**environment),
            start_new_session=True,  # as a terminal does, for `tell_group`
        )
        self._started.append(Running(process))
        return self._started[-1]

    def end(self) -> None:
        for running in self._started:
            running.process.kill()
            running.process.wait()
            for worker in running.workers():
                with suppress(
                    ProcessLookupError
                ):  # most have ended by themselves; none may outlive a test that failed
                    os.kill(worker, signal.SIGKILL)


@pytest.fixture
def rowbus(database: str, tmp_path: Path) -> Iterator[CommandLine]:
    command_line = CommandLine(database, tmp_path)
    yield command_line
    command_line.end()


Ask = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def ask(database: str) -> Iterator[Ask]:
    """Give what runs SQL on the test's database and returns the rows, if there are any."""
    with psycopg.connect(database, autocommit=True) as connection:

        def ask(query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

        yield ask


@pytest.fixture
def await_rows(ask: Ask) -> Callable[[str, int], None]:
    """Give what waits until a query that counts says so many."""

    def await_rows(query: str, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while (seen := ask(query)[0][0]) < count:
            assert time.monotonic() < deadline, f"{query}: {seen} instead of {count}"
            time.sleep(0.01)

    return await_rows


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """Give a role without privileges, and the connection string of a session as it."""
    name = f"rowbus_{os.urandom(6).hex()}"
    identifier = sql.Identifier(name)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(identifier))
        yield name
        connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(identifier))


def as_role(database: str, role: str) -> str:
    """Return the connection string of sessions with another role's privileges."""
    return psycopg.conninfo.make_conninfo(database, options=f"-c role={role}")


def has_ended(pid: int) -> bool:
    """Wait for the end of a process that is not our child, and say whether it came."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], PATIENCE)[0])
        finally:
            os.close(descriptor)
    return True


def table(name: str) -> str:
    """Return the canonical name of a queue in the schema `public`."""
    return str(QueueAddress("public", name))
