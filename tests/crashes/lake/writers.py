"""Writers: each runs its transactions one after the other, again after a deadlock or an outage, until it is stopped.

Invariant: a transaction that commits is done once: its number is noted in it, and looked up when a commit's outcome is
unknown.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg

from tests.crashes.lake.balance import Balance
from tests.crashes.lake.tables import Action, Statements, Table, Transaction
from tests.crashes.lake.upheaval import Upheaval

NOTES = "create table noted (writer int primary key, number int not null)"
FOREIGN = {
    "timezone": ("UTC", "Asia/Tokyo", "America/St_Johns", "Europe/Warsaw"),
    "datestyle": ("ISO, MDY", "German, DMY", "SQL, DMY", "SQL, MDY", "Postgres, DMY"),
    "intervalstyle": ("postgres", "sql_standard", "iso_8601", "postgres_verbose"),
    "extra_float_digits": ("1", "0", "-5", "3"),
    "bytea_output": ("hex", "escape"),
    "standard_conforming_strings": ("on", "off"),
    "quote_all_identifiers": ("off", "on"),
    "escape_string_warning": ("off",),
}
"""Settings that a session chooses at random: what it writes must not depend on them."""

MEANT_TO_FAIL = (
    psycopg.errors.RaiseException,
    psycopg.errors.UniqueViolation,
)
PAUSE = 0.15
"""Seconds between two transactions of a writer, on average."""


class Source(Protocol):
    """A maker of a writer's transactions."""

    def next(self) -> Transaction: ...


class Writer(threading.Thread):
    """A thread that writes; what failed though it was not meant to is in `failures`."""

    def __init__(self, number: int, dsn: str, statements: Source, chance: random.Random) -> None:
        super().__init__(name=f"writer {number}", daemon=True)
        self.number = number
        self.committed = self.rolled_back = self.altered = 0
        self.failures: list[str] = []
        self._dsn = dsn
        self._statements = statements
        self._chance = chance
        self._stopping = threading.Event()

    def run(self) -> None:
        """Write until `stop`."""
        while not self._stopping.wait(self._chance.uniform(0, 2 * PAUSE)):
            self._do(self._statements.next())

    def stop(self) -> None:
        """Have it end after the transaction it is in."""
        self._stopping.set()

    def _do(self, transaction: Transaction) -> None:
        while not self._try(transaction):
            time.sleep(0.02)
        if transaction.commits:
            self.committed += 1
            self.altered += "alter table" in str(transaction.actions) or "truncate" in str(
                transaction.actions
            )
        else:
            self.rolled_back += 1

    def _try(self, transaction: Transaction) -> bool:
        try:
            with psycopg.connect(self._dsn, connect_timeout=5, prepare_threshold=None) as connection:
                if not self._is_noted(connection, transaction):
                    self._run(connection, transaction)
        except psycopg.OperationalError:
            return False  # an outage, or a deadlock
        except psycopg.Error as error:
            self.failures.append(f"{error}: {transaction}"[:2000])
        return True

    def _is_noted(self, connection: psycopg.Connection[Any], transaction: Transaction) -> bool:
        found = connection.execute("select number from noted where writer = %s", [self.number]).fetchone()
        for name, values in FOREIGN.items():
            connection.execute("select set_config(%s, %s, false)", [name, self._chance.choice(values)])
        connection.commit()
        return found is not None and found[0] >= transaction.number

    def _run(self, connection: psycopg.Connection[Any], transaction: Transaction) -> None:
        for place, action in enumerate(transaction.actions):
            _act(connection, action)
            if place == 0 and transaction.pause:
                time.sleep(transaction.pause)  # long sleep: the transaction stays open over a few ticks
        if not transaction.commits:
            connection.rollback()
            return
        connection.execute(
            "insert into noted values (%s, %s) on conflict (writer) do update set number = excluded.number",
            [self.number, transaction.number],
        )
        connection.commit()


def _act(connection: psycopg.Connection[Any], action: Action) -> None:
    if not action.fails:
        for statement in action.statements:
            connection.execute(statement.encode())
        return
    try:
        with connection.transaction():
            for statement in action.statements:
                connection.execute(statement.encode())
    except MEANT_TO_FAIL:
        return
    raise psycopg.ProgrammingError(f"this was to fail: {action}")


def make_writers(dsn: str, tables: Sequence[Table], seed: int, count: int, altering: float) -> list[Writer]:
    """Make writers that own the tables in turn, and two with tables of their own; a seed repeats what each says."""
    sources: list[Source] = [
        Statements(random.Random(f"{seed}/{number}"), tables[number::count], tables, altering)
        for number in range(count)
    ]
    sources += [
        Upheaval(random.Random(f"{seed}/upheaval"), altering),
        Balance(random.Random(f"{seed}/balance")),
    ]
    return [
        Writer(number, dsn, source, random.Random(f"{seed}/{number}/pace"))
        for number, source in enumerate(sources)
    ]
