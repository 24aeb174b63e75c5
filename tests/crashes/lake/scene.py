"""A database, its writers, and the jobs that follow it, which are killed; and what differs when all is over."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from rowbus.database.postgresql.database import Database
from rowbus.log.schema.installer import install_now
from tests.chaos.processes import Program, rowbus
from tests.chaos.server import Server
from tests.crashes.lake.balance import SETUP as BALANCE
from tests.crashes.lake.balance import unbalanced
from tests.crashes.lake.job import DUCKLAKE, REPLICA, Job
from tests.crashes.lake.reading import Reader, difference
from tests.crashes.lake.tables import LOG, insert, make_tables
from tests.crashes.lake.upheaval import SETUP as UPHEAVAL
from tests.crashes.lake.values import SETUP
from tests.crashes.lake.writers import NOTES, make_writers
from tests.fixtures.places import ROOT

VICTIMS: Final = ("driver", "JVM", "worker", "server")
MORE: Final = ("ticker", "restart", "sessions")
OURS: Final = {
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "0",
    "bytea_output": "escape",
    "timezone": "America/St_Johns",
    "quote_all_identifiers": "on",
}
"""Settings of the database, which each session has that does not choose its own."""

PLAIN: Final = {
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "timezone": "UTC",
}
CAPTURED: Final = """
    select distinct status.table_name from pgq.capture_status as status
    inner join pg_class on pg_class.oid = status.table_id
    where (relkind = 'p') = ('as-root' = any(arguments)) order by 1
"""
REPLICATED: Final = """
    select 'select row(' || string_agg(quote_ident(attname), ', ' order by attname) || ')::text from {}'
    from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped
"""
SETTINGS: Final = {"deadlock_timeout": "200ms"}
ROWS: Final = 30
"""Inserts into each table before the first copy."""


@dataclass(frozen=True)
class Plan:
    """Amounts of everything."""

    seconds: float
    kills: int
    tables: int = 12
    writers: int = 4
    formats: tuple[str, ...] = ("delta",)
    """Those of the lakes, and `replica`."""

    altering: float = 0.04
    """Share of the transactions that alter a table."""

    victims: tuple[str, ...] = VICTIMS
    seed: int = 1
    place: str | None = None
    """An address for the lake, which the environment says how to reach; None: a folder."""


class Scene:
    """Everything of one run; made with the job at its first copy."""

    def __init__(self, folder: Path, server: Server, plan: Plan) -> None:
        self.plan = plan
        self.dsn = server.dsn("postgres")
        self._folder = folder
        self._tables = make_tables(random.Random(f"{plan.seed}/tables"), plan.tables)
        self._fill()
        self.writers = make_writers(self.dsn, self._tables, plan.seed, plan.writers, plan.altering)
        self.jobs = [
            Job(folder, plan.place or str(folder / form), server, self.dsn, form, plan.seed)
            for form in plan.formats
        ]
        self._ticker = Program("ticker", rowbus("ticker"), self.jobs[0].environment, folder / "ticker.log")

    def _fill(self) -> None:
        with Database(self.dsn).session() as session:
            install_now(session)
        chance = random.Random(f"{self.plan.seed}/rows")
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(SETUP)
            connection.execute(NOTES)
            for name, value in OURS.items():
                connection.execute(f"alter database postgres set {name} = '{value}'".encode())
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
            connection.execute(UPHEAVAL.encode())
            connection.execute(BALANCE.encode())

    def run(self) -> None:
        """Have the writers write, and kill a process every now and then, evenly over the time."""
        for writer in self.writers:
            writer.start()
        begin = time.monotonic()
        pace = self.plan.seconds / (self.plan.kills + 1)
        for number in range(self.plan.kills):
            time.sleep(max(0.0, begin + pace * (number + 1) - time.monotonic()))
            self._kill(number)
        time.sleep(max(0.0, begin + self.plan.seconds - time.monotonic()))

    def _kill(self, number: int) -> None:
        """Kill the next victim, of each job in turn."""
        victims = self.plan.victims
        how = victims[number % len(victims)]
        job = self.jobs[number // len(victims) % len(self.jobs)]
        if how != "ticker":
            job.kill(how)
            return
        self._ticker.signal(signal.SIGKILL)
        self._ticker.restart()
        job.kills[how] = job.kills.get(how, 0) + 1

    def finish(self) -> None:
        """Stop the writers, and bring all up to date."""
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute("select pgq.force_tick(%s)", [LOG])
            connection.execute("select pgq.ticker(%s)", [LOG])
        for job in self.jobs:
            job.finish()

    def wrong(self, readers: dict[str, Reader]) -> list[str]:
        """Say what failed and what differs: by `rowbus spark compare`, and by each reader, value by value.

        A reader's name begins with the format that it reads.
        """
        found = [f"{writer.name}: {failure}" for writer in self.writers for failure in writer.failures]
        found += [ended for job in self.jobs for ended in job.ended]
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for name, value in PLAIN.items():
                connection.execute("select set_config(%s, %s, false)", [name, value])
            tables = [name for (name,) in connection.execute(CAPTURED)]
            for job in self.jobs:
                if job.form == REPLICA:
                    found += [line for table in tables for line in _replicated(connection, table)]
                    continue
                found += self._compared(job, len(tables))
                found += unbalanced(self.dsn) if job.form == DUCKLAKE else []
                of_form = {name: read for name, read in readers.items() if name.startswith(job.form)}
                for table in tables:
                    found += self._read(connection, table, f"{job.lake}/{table}", of_form)
        return found

    def _read(
        self, connection: psycopg.Connection[Any], name: str, path: str, readers: dict[str, Reader]
    ) -> list[str]:
        wrong: list[str] = []
        for reader, read in readers.items():
            differs = difference(connection, name, read(path))
            wrong += [f"read by {reader}, {differs}"] if differs else []
        return wrong

    def _compared(self, job: Job, count: int) -> list[str]:
        command = rowbus("spark", "compare", LOG, "--to", job.lake)
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=ROOT, env=job.environment
        )
        equal = [line for line in done.stdout.splitlines() if ": equal, " in line]
        if done.returncode == 0 and len(equal) == count:
            return []
        return [f"rowbus spark compare, {job.form}: {done.stdout}{done.stderr}"]

    @property
    def committed(self) -> int:
        return sum(writer.committed for writer in self.writers)

    @property
    def altered(self) -> int:
        return sum(writer.altered for writer in self.writers)

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
        for job in self.jobs:
            job.end()
        self._ticker.end()


def _replicated(connection: psycopg.Connection[Any], table: str) -> list[str]:
    """Say how a replica's rows differ from the table's, as texts."""
    (query,) = connection.execute(REPLICATED, [table]).fetchone() or ("",)
    try:
        there, here = (
            Counter(text for (text,) in connection.execute(query.replace("{}", place).encode()))
            for place in (table, f"replica.{table.removeprefix('public.')}")
        )
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        return [f"replica of {table}: {error}"]
    shown = [f"{sorted(part)[:3]} ({part.total()})" for part in (there - here, here - there)]
    return (
        [] if there == here else [f"replica of {table} lacks {shown[0]} and has beside {shown[1]}: {query}"]
    )
