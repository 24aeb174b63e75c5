"""A database, its writers, and the lake's job, which are killed; and what differs in the lake when all is over."""

from __future__ import annotations

import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from tests.chaos.processes import Program, rowbus
from tests.chaos.server import Server
from tests.crashes.lake.job import Job
from tests.crashes.lake.reading import Reader, difference
from tests.crashes.lake.tables import LOG, insert, make_tables
from tests.crashes.lake.values import SETUP
from tests.crashes.lake.writers import NOTES, make_writers
from tests.fixtures.places import ROOT

VICTIMS: Final = ("driver", "JVM", "worker", "server")
SETTINGS: Final = {"deadlock_timeout": "200ms"}
ROWS: Final = 30
"""Inserts into each table before the first copy."""


@dataclass(frozen=True)
class Plan:
    """How much of everything."""

    seconds: float
    kills: int
    tables: int = 12
    writers: int = 4
    format: str = "delta"
    seed: int = 1
    place: str | None = None
    """An address for the lake, which the environment says how to reach; None: a folder."""


class Scene:
    """Everything of one run; made with the job at its first copy."""

    def __init__(self, folder: Path, server: Server, plan: Plan) -> None:
        self.plan = plan
        self.dsn = server.dsn("postgres")
        self.lake = plan.place or str(folder / "lake")
        self._folder = folder
        self._tables = make_tables(random.Random(f"{plan.seed}/tables"), plan.tables)
        self._fill()
        self.writers = make_writers(self.dsn, self._tables, plan.seed, plan.writers)
        self.job = Job(folder, self.lake, server, self.dsn, plan.format, plan.seed)
        self._ticker = Program("ticker", rowbus("ticker"), self.job.environment, folder / "ticker.log")

    def _fill(self) -> None:
        with Database(self.dsn).session() as session:
            install_now(session)
        chance = random.Random(f"{self.plan.seed}/rows")
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(SETUP)
            connection.execute(NOTES)
            connection.execute("select pgq.create_queue(%s)", [LOG])
            for name, value in (("ticker_max_lag", "500 ms"), ("ticker_idle_period", "1 s")):
                connection.execute("select pgq.set_queue_config(%s, %s, %s)", [LOG, name, value])
            for table in self._tables:
                connection.execute(table.create().encode())
                for _ in range(ROWS):
                    statement = insert(table, chance, [*table.fixed, *table.changing])
                    connection.execute(statement.encode())
                capture = "select pgq.capture_table(%s, %s, %s, %s)"
                connection.execute(capture, [table.name, LOG, table.format, list(table.arguments)])

    def run(self) -> None:
        """Have the writers write, and kill a process every now and then, evenly over the time."""
        for writer in self.writers:
            writer.start()
        begin = time.monotonic()
        pace = self.plan.seconds / (self.plan.kills + 1)
        for number in range(self.plan.kills):
            time.sleep(max(0.0, begin + pace * (number + 1) - time.monotonic()))
            self.job.kill(VICTIMS[number % len(VICTIMS)])
        time.sleep(max(0.0, begin + self.plan.seconds - time.monotonic()))

    def finish(self) -> None:
        """Stop the writers, and bring the lake up to date."""
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("select pgq.force_tick(%s)", [LOG])
            connection.execute("select pgq.ticker(%s)", [LOG])
        self.job.finish()

    def wrong(self, readers: dict[str, Reader]) -> list[str]:
        """Say what failed and what differs: by `rowbus spark compare`, and by each reader, value by value."""
        found = [f"{writer.name}: {failure}" for writer in self.writers for failure in writer.failures]
        found += self._compared()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("set timezone = 'UTC'")
            for name, table in self._folders().items():
                found += self._read(connection, name, table, readers)
        return found

    def _read(
        self, connection: psycopg.Connection[Any], name: str, path: str, readers: dict[str, Reader]
    ) -> list[str]:
        wrong: list[str] = []
        for reader, read in readers.items():
            differs = difference(connection, name, read(path))
            wrong += [f"read by {reader}, {differs}"] if differs else []
        return wrong

    def _folders(self) -> dict[str, str]:
        return {table.name: f"{self.lake}/public.{table.name}" for table in self._tables}

    def _compared(self) -> list[str]:
        command = rowbus("spark", "compare", LOG, "--to", self.lake)
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=ROOT, env=self.job.environment
        )
        equal = [line for line in done.stdout.splitlines() if ": equal, " in line]
        if done.returncode == 0 and len(equal) == self.plan.tables:
            return []
        return [f"rowbus spark compare: {done.stdout}{done.stderr}"]

    @property
    def committed(self) -> int:
        return sum(writer.committed for writer in self.writers)

    @property
    def rolled_back(self) -> int:
        return sum(writer.rolled_back for writer in self.writers)

    def rows(self) -> int:
        """Count the rows of all tables."""
        with psycopg.connect(self.dsn) as connection:
            counts = [
                connection.execute(f"select count(*) from {table.name}".encode()) for table in self._tables
            ]
            return sum(int((cursor.fetchone() or (0,))[0]) for cursor in counts)

    def end(self) -> None:
        """End all that still runs."""
        for writer in self.writers:
            writer.stop()
        self.job.end()
        self._ticker.end()
