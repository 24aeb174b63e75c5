"""A running system of Rowbus: endpoints, movers, tickers, consumers, producers, and the database that they share.

Two of each that has a leader. Faults hit it through this class, and the checker gets its history from here.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import TupleRow

import rowbus as product
from tests.chaos.history import POISONS, STAGES, Effect, History, Outage, Outcome, Send, Tick
from tests.chaos.post import Post
from tests.chaos.processes import PAUSE, Producer, Program, await_that, leaders, python, rowbus

ENDPOINTS = "tests.chaos.programs.endpoints"
START_PATIENCE = 60.0
FIRST_PATIENCE = 20.0
STOP_PATIENCE = 20.0
RESTS = 5
"""Times that a system may need to come to rest."""
STANDING_BY = "tanding by"
LAST = -1
"""The number of the last event, which the system itself appends: what came before is done when it is."""

SCHEMA: LiteralString = """
    create table effect (
        position bigserial primary key, stage text not null, number integer not null, process integer not null,
        due timestamptz, again boolean not null, at timestamptz not null default clock_timestamp(),
        found text not null default '', by_role text not null default current_user
    );
    create sequence place
"""
EFFECTS: LiteralString = """
    select position, stage, number, process, extract(epoch from at)::float8, extract(epoch from due)::float8, again,
        concat_ws(' ', nullif(found, ''), nullif(by_role, current_user))
    from effect order by position
"""
TICKS: LiteralString = """
    select tick_id, extract(epoch from tick_time)::float8, tick_event_seq, txid_snapshot_xmax(tick_snapshot)
    from pgq.tick where tick_queue = (select queue_id from pgq.queue where queue_name = 'chaos') order by tick_id
"""
WAITING: LiteralString = """
    select (select count(*) from "Work") + (select count(*) from "Follow") + (select count(*) from "Work.Delayed")
        + (select count(*) from "Follow.Delayed") + (select count(*) from "Later.Delayed")
        + (select count(*) from pgq.retry_queue)
"""
FAILED: LiteralString = """select convert_from(body, 'UTF8')::json ->> 'number' from error"""
DEAD: LiteralString = """select ev_data::json ->> 'number' from pgq.dead_letter"""
PATIENT = {"options": "-c statement_timeout=15s"}


class System:
    """The programs on one database; `direct` is how the harness reaches it, `dsn` how the programs do."""

    def __init__(self, folder: Path, direct: str, *, rate: float) -> None:
        self.folder = folder
        self.direct = self.dsn = direct
        self.other_dsn: str | None = None
        """The same in libpq's other notation, for every second program."""
        self.far: dict[str, str] = {}
        """Programs that reach the database in another way."""
        self.prefix: dict[str, list[str]] = {}
        self.environment: dict[str, str] = {}
        self.environments: dict[str, dict[str, str]] = {}
        self.more_to_install: list[list[str]] = []
        """Commands that create what a fault's own endpoints need."""
        self.more_endpoints: dict[str, list[str]] = {}
        """Commands that run them, by the names of their programs; producers begin when they are at work."""
        self.rate = rate
        self.outages: list[Outage] = []
        self.moments = random.Random()
        self.programs: dict[str, Program] = {}
        self.producers: list[Producer] = []
        self.post = Post(self)
        self.unconfirmed: set[int] = set()
        self.waits: list[float] = []
        self._spared: dict[str, list[int]] = {}
        self._last: float | None = None

    # --- life

    def install(self) -> None:
        """Create the database's tables, on the way that needs no program."""
        with self.connect() as connection:
            connection.execute(SCHEMA)
        for command in (
            rowbus("queue", "create", "Work", "Follow", "Long", "error"),
            rowbus("delayed", "create", "Later"),
            rowbus("log", "create", "chaos", "--install"),
            *self.more_to_install,
        ):
            done = Program("install", command, self._environment(self.direct), self.folder / "install.log")
            if done.process.wait(START_PATIENCE):
                raise RuntimeError(done.text())

    def start(self) -> None:
        """Start the programs, wait until all are at work, then start the producers."""
        self.launch("work", rowbus("run", f"{ENDPOINTS}:work", "--workers", "2"))
        self.launch("follow", rowbus("run", f"{ENDPOINTS}:follow"))
        for number in ("1", "2"):
            self.launch(f"ticker {number}", rowbus("ticker"))
            self.launch(f"consumer {number}", rowbus("run", "tests.chaos.programs.events:log"))
            self.launch(f"mover {number}", rowbus("delayed", "move", "Later"))
        for name, command in self.more_endpoints.items():
            self.launch(name, command)
        for name in self.more_endpoints:
            self._await_line(name, " is receiving", 1)
        self._await_line("work", "Endpoint Work is receiving", 2)
        self._await_line("follow", "Endpoint Follow is receiving", 1)
        for own in range(2):
            arguments = [str(own), "2", str(self.rate / 2)]
            command = python("-m", "tests.chaos.programs.producer", *arguments)
            name = f"producer {own}"
            log = self.folder / f"{name}.log"
            self.producers.append(Producer(name, command, self._environment_of(name), log))
        for stage in ("follow-up", "event", "delayed follow-up", "second subscriber", "completion"):
            with suppress(TimeoutError):  # the checker will say what was lost
                self._await_effect(f"select from effect where stage = '{stage}' limit 1", FIRST_PATIENCE)

    def launch(self, name: str, command: list[str]) -> None:
        """Start a program of the system under a name."""
        log = self.folder / f"{name}.log"
        command = [*self.prefix.get(name, ()), *command]
        self.programs[name] = Program(name, command, self._environment_of(name), log)

    def rest(self, patience: float) -> None:
        """Stop the producers, and wait until nothing is left to do, or nothing has been done for so long.

        Not for ever: what does its work again and again never comes to rest, and the checker is to say so.
        """
        self._stop_producers()
        self._append_last()
        done = -1
        for _ in range(RESTS):
            if (now := self.effects() + len(self.given_up())) <= done:
                return
            done = now
            with suppress(TimeoutError):
                await_that(self._is_at_rest, "the system to come to rest", patience)
                return

    def spare(self) -> None:
        """Note the processes of all programs: from now on none may end."""
        self._spared = {name: program.workers for name, program in self.programs.items()}

    def end(self) -> None:
        """Kill everything that still runs."""
        for program in (*self.programs.values(), *self.producers):
            program.end()

    # --- what faults need

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Note that the programs cannot reach the database meanwhile."""
        begin = time.time()
        try:
            yield
        finally:
            self.outages.append(Outage(begin, time.time()))

    def connect(self, **options: str) -> psycopg.Connection[TupleRow]:
        """Connect to the database itself."""
        return psycopg.connect(self.direct, autocommit=True, **(PATIENT | options))  # type: ignore[arg-type] # names

    def pause(self, least: float = 0.3, most: float = 1.2) -> None:
        """Let the system work for a moment, at random so that faults find it in every state."""
        time.sleep(self.moments.uniform(least, most))

    def leader(self, application: str) -> int:
        """Give the process that leads, waiting until there is one."""
        found: list[int] = []

        def is_there() -> bool:
            with suppress(psycopg.Error), self.connect() as connection:
                found[:] = leaders(connection, application, self._pids())
            return bool(found)

        await_that(is_there, f"a leader of {application}")
        return found[0]

    def _pids(self) -> list[int]:
        """Give the processes of this system: one of another, beside it, may have a connection from an equal port."""
        return [pid for program in [*self.programs.values()] for pid in program.pids]

    def is_leading(self, pids: Iterable[int]) -> bool:
        """Say whether one of these processes leads something; true when that cannot be told."""
        with suppress(psycopg.Error), self.connect() as connection:
            return bool(leaders(connection, "rowbus%", pids))
        return True

    def program_of(self, pid: int) -> Program:
        return next(program for program in self.programs.values() if pid in program.pids)

    def effects(self) -> int:
        """Give how many effects there are."""
        with self.connect() as connection:
            row = connection.execute("select count(*) from effect").fetchone()
        assert row is not None
        return int(row[0])

    def given_up(self) -> set[int]:
        """Give the numbers in the error queue, and among the dead letters."""
        with self.connect() as connection:
            return _given_up(connection)

    def newest(self) -> int:
        """Give the position of the newest effect, 0 before the first."""
        return max(self.positions(after=0), default=0)

    def positions(self, *, after: int) -> list[int]:
        """Give the positions of the effects that are there, behind one of them."""
        with self.connect() as connection:
            rows = connection.execute("select position from effect where position > %s", (after,))
            return [position for (position,) in rows]

    def await_progress(self, patience: float = 40.0) -> None:
        """Wait until more work is done than now: some of each stage that is always at work."""
        begin = self.newest()
        query = "select from effect where position > {} and stage = '{}' limit 1"
        with suppress(TimeoutError):  # the checker will say what stood still
            for stage in ("command", "event", "delayed"):
                self._await_effect(query.format(begin, stage), patience)

    def replace(self, program: Program) -> None:
        """Start a program that was killed again, and wait until work goes on and it leads, or stands by."""
        before = program.text().count(STANDING_BY)
        program.restart()
        self.await_progress()

        def is_there() -> bool:
            return program.text().count(STANDING_BY) > before or self.is_leading(program.workers)

        await_that(is_there, f"{program.name} to lead, or to stand by")

    # --- its history

    def history(self) -> History:
        """Read what happened."""
        with self.connect() as connection:
            effects = tuple(Effect(*row) for row in connection.execute(EFFECTS) if row[2] != LAST)
            ticks = tuple(Tick(*row) for row in connection.execute(TICKS))
            failed = _given_up(connection)
        return History(
            tuple(self.sends()),
            effects,
            tuple(self.outages),
            frozenset(failed),
            ticks,
            ended=tuple(self._ended()),
            unconfirmed=tuple(sorted(self.unconfirmed)),
            waits=tuple(self.waits),
        )

    def _ended(self) -> Iterator[str]:
        """Name the programs that have lost a process which was to be spared."""
        for name, pids in self._spared.items():
            if not set(pids) <= set(self.programs[name].pids):
                yield name

    def sends(self) -> Iterator[Send]:
        """Read the journals, that of the faults too; the last line about a number is what is known of it."""
        yield from self.post.sends
        for own, producer in enumerate(self.producers):
            lines = producer.journal.read_text("utf-8").split("\n")[:-1]
            facts: dict[int, dict[str, Any]] = {fact["number"]: fact for fact in map(json.loads, lines)}
            for number, fact in facts.items():
                outcome = Outcome(fact["outcome"])
                yield Send(number, fact["kind"], outcome, fact["ready"], own, place=fact.get("place", 0))

    # --- parts

    def _environment_of(self, name: str) -> dict[str, str]:
        other = self.other_dsn if name.endswith(("2", "follow")) else None
        dsn = self.far.get(name) or other or self.dsn
        return self._environment(dsn) | self.environments.get(name, {})

    def _environment(self, dsn: str) -> dict[str, str]:
        return os.environ | {"ROWBUS_DATABASE": dsn, "PYTHONUNBUFFERED": "1"} | self.environment

    def _await_line(self, name: str, line: str, times: int) -> None:
        program = self.programs[name]

        def has_come() -> bool:
            if not program.is_running:
                raise RuntimeError(program.text())
            return program.text().count(line) >= times

        await_that(has_come, f"{line!r} of {name}: {program.text()[-2000:]}", START_PATIENCE)

    def _await_effect(self, query: str, patience: float) -> None:
        await_that(lambda: self.sees(query), query, patience)

    def sees(self, query: str) -> bool:
        """Say whether a query finds a row; false when it cannot be asked."""
        with suppress(psycopg.Error), self.connect() as connection:
            return connection.execute(query.encode()).rowcount != 0
        return False

    def _stop_producers(self) -> None:
        for producer in self.producers:
            producer.signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_PATIENCE
        for producer in self.producers:
            with suppress(Exception):
                producer.process.wait(max(0.1, deadline - time.monotonic()))
            producer.end()

    def _append_last(self) -> None:
        with self.connect() as connection, connection.transaction():
            product.Log(connection, "chaos").append({"number": LAST}, type="last")

    def _is_at_rest(self) -> bool:
        with suppress(psycopg.Error), self.connect() as connection:
            row = connection.execute(WAITING).fetchone()
            if row is None or row[0] or not self.sees(f"select from effect where number = {LAST}"):
                time.sleep(PAUSE)
                return False
            return self._lacks(connection) == 0
        return False

    def _lacks(self, connection: psycopg.Connection[TupleRow]) -> int:
        found = set(connection.execute("select stage, number from effect"))
        committed = [send for send in self.sends() if send.outcome is Outcome.COMMITTED]
        loose = {send.number for send in committed if send.kind in POISONS} - _given_up(connection)
        return len(loose) + len(
            {(stage, send.number) for send in committed for stage in STAGES[send.kind]} - found
        )


def _given_up(connection: psycopg.Connection[TupleRow]) -> set[int]:
    """Give the numbers of the messages in the error queue, and of the events that are dead letters."""
    return {int(number) for query in (FAILED, DEAD) for (number,) in connection.execute(query)}
