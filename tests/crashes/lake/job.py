"""A job: the real command `rowbus spark lake … --follow`, or `replicate`, started again when it was killed.

Its end though neither its driver nor its JVM was killed is a failure, which is noted.

Invariant: it is killed by its own process ids, and none of them outlives the run.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg

from rowbus.spark.lake.tables.folder import TICK, LakeFolder
from tests.chaos.processes import Program, rowbus
from tests.chaos.server import Server
from tests.crashes.lake.tables import LOG
from tests.fixtures.processes import await_that, children, kill_below

LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = 600.0
REPLICA = "replica"
DUCKLAKE = "ducklake"
AFTERMATH = 60.0
"""Seconds after a kill of driver or JVM in which a job may end: the killed one's sessions are its consumer's still."""

LAST_WORDS = 1500
AT_RANDOM = 12.0
"""Seconds after its start in which the job is killed at some moment, whatever it does then."""

AT_WORK = 0.7
"""Share of the kills that wait until the job has merged a batch since its start."""


class Job:
    """The command, and what kills it."""

    def __init__(self, folder: Path, lake: str, server: Server, dsn: str, form: str, seed: int) -> None:
        self.server = server
        self.form = form
        self.lake = lake
        self.kills: dict[str, int] = {}
        self.starts = 1
        self.ended: list[str] = []
        """Last words of a job that ended by itself."""
        self.memory: dict[str, int] = {}
        """The most that a process of a name had resident, in MB."""
        self._killed_at = 0.0
        self._chance = random.Random(f"{seed}/{form}/kills")
        self.environment = os.environ | {
            "ROWBUS_DATABASE": dsn,
            "TMPDIR": str(folder),
            "JDK_JAVA_OPTIONS": LIGHT,
            "NO_COLOR": "1",
        }
        self._folder = folder
        self._checkpoint = folder / "checkpoint"
        self.once = rowbus("spark", *self._command())
        self._orphans: set[int] = set()
        bounds = ("--max-events", "500", "--max-bytes", "32")
        self._program = self._start(form, [*self.once, "--follow", *bounds])
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, daemon=True)
        self._keeper.start()

    def _command(self) -> tuple[str, ...]:
        common = (LOG, "--cores", "2", "--consumer", self.form, "-v")
        if self.form == REPLICA:
            return ("replicate", *common, "--checkpoint", str(self._checkpoint))
        return ("lake", *common, "--to", self.lake, "--compact-every", "2", "--format", self.form)

    def kill(self, how: str) -> None:
        """Kill one of the job's processes, or the server, in the midst of its work or at any moment."""
        if self._chance.random() < AT_WORK:
            before = self._noted()
            await_that(lambda: self._noted() != before, "the job to merge a batch", patience=PATIENCE)
        self._stopping.wait(self._chance.uniform(0, 0.3 * AT_RANDOM))
        hit: dict[str, Callable[[], bool]] = {
            "driver": self._kill_driver,
            "JVM": lambda: self._kill_one("java"),
            "worker": lambda: self._kill_one("python"),
            "server": lambda: self._restart_server(signal.SIGQUIT),
            "restart": lambda: self._restart_server(signal.SIGINT),
            "sessions": self._end_sessions,
        }
        await_that(hit[how], f"a {how} to be there", patience=PATIENCE)
        self.kills[how] = self.kills.get(how, 0) + 1

    def _kill_driver(self) -> bool:
        """Kill the driver alone: what it has started learns of it as it can."""
        self._orphans |= children(self._program.pid)
        if not self._program.is_running:
            return False
        self._killed_at = time.monotonic()
        self._program.signal(signal.SIGKILL)
        return True

    def _kill_one(self, name: str) -> bool:
        below = children(self._program.pid) - {self._program.pid}
        self._orphans |= below
        found = sorted(pid for pid in below if _name(pid).startswith(name))
        if not found:
            return False
        if name == "java":
            self._killed_at = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(self._chance.choice(found), signal.SIGKILL)
        return True

    def _restart_server(self, how: signal.Signals) -> bool:
        self.server.stop(how)
        self.server.start()
        return True

    def _end_sessions(self) -> bool:
        with psycopg.connect(self.server.dsn("postgres")) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
                " and backend_type = 'client backend'"
            )
        return True

    def finish(self) -> None:
        """End the job as users do, then bring the lake up to date by a run that ends."""
        self._stopping.set()
        self._keeper.join()
        self._program.signal(signal.SIGTERM)
        await_that(lambda: not self._program.is_running, "the job to end", patience=PATIENCE)
        last = self._start(f"last-{self.form}", self.once)
        try:
            await_that(lambda: not last.is_running, "the last run to end", patience=PATIENCE)
            assert last.process.returncode == 0, last.text()
        finally:
            last.end()

    def end(self) -> None:
        """Kill what is still there."""
        self._stopping.set()
        self._keeper.join()
        self._program.end()
        for pid in self._orphans:
            if str(self._folder).encode() in _environment_of(pid):
                kill_below(pid)

    def text(self) -> str:
        """Give what the job said."""
        return self._program.text()

    def _noted(self) -> object:
        if self.form == REPLICA:
            return self._program.pid, sorted(self._checkpoint.glob("commits/*"))
        return self._program.pid, LakeFolder(self.lake).state.read(TICK)

    def _keep(self) -> None:
        while not self._stopping.wait(0.05):
            self._look_at_memory()
            if not self._program.is_running:
                if time.monotonic() > self._killed_at + AFTERMATH:
                    self.ended.append(f"{self.form} ended by itself: {self.text()[-LAST_WORDS:]}")
                self._program.restart()
                self.starts += 1

    def _look_at_memory(self) -> None:
        for pid in self._program.pids:
            name = "driver" if pid == self._program.pid else _name(pid).strip()
            with suppress(OSError):
                found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                self.memory[name] = max(self.memory.get(name, 0), int(found[1]) // 1024 if found else 0)

    def _start(self, name: str, command: list[str]) -> Program:
        return Program(name, command, self.environment, self._folder / f"{name}.log")


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text()
    return ""


def _environment_of(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
