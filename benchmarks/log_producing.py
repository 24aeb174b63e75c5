"""Producing events: `insert_event`, `jsontriga`, COPY.

The first two are driven by pgbench with prepared statements, so that what is compared is the server's work and not
the driver's. Invariant: the same statements run on both sides, into an event table that was just emptied.
"""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString

from psycopg import sql

import rowbus
from benchmarks.log_databases import DEBIAN_15, QUEUE, LogDatabase
from benchmarks.measuring import Side

DATA = json.dumps({"order": 42, "customer": "c-0815", "total": 9.5, "note": "x" * 40})
PER_TRANSACTION = 100

CAPTURED: LiteralString = """
    create table captured (
        id bigserial primary key,
        customer text not null,
        total numeric not null,
        paid boolean not null,
        placed timestamptz not null default now(),
        note text
    )
"""
TRIGGER: LiteralString = """
    create trigger capture after insert or update or delete on captured
    for each row execute function pgq.jsontriga('bench')
"""
INSERT_ROWS = (
    "insert into captured (customer, total, paid, note) "
    "select 'c-' || n, n * 1.5, n % 2 = 0, 'a note' from generate_series(1, {rows}) as n;\n"
)


def pgbench(name: str, database: LogDatabase, script: str, *, runs: int, count: int) -> Side:
    """A script run so often by one client of pgbench; `count` is what one run counts for."""

    def work() -> int:
        command = [DEBIAN_15 / "pgbench", "-n", "-M", "prepared", "-c", "1", "-t", str(runs), "-f", "-"]
        subprocess.run(
            [*command, database.dsn],
            input=script.encode(),
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=Path("/"),
        )
        return runs * count

    return Side(name, database.empty, work)


def captured_table(database: LogDatabase, *, maintained: bool) -> None:
    """Make the table whose changes become events; if maintained, with the code that our maintenance generates."""
    with database.connect() as connection:
        connection.execute(CAPTURED)
        connection.execute(TRIGGER)
        if maintained:
            connection.execute("select pgq.maint_capture()")


def insert_event(database: LogDatabase, events: int, *, per_transaction: int) -> Side:
    """`insert_event`, so many calls in each transaction."""
    calls = f"select {database.schema}.insert_event('{QUEUE}', 'order_placed', '{DATA}');\n"
    script = calls if per_transaction == 1 else f"begin;\n{calls * per_transaction}commit;\n"
    runs = max(1, events // per_transaction)
    return pgbench(database.name, database, script, runs=runs, count=per_transaction)


def insert_rows(name: str, database: LogDatabase, rows: int, *, per_statement: int) -> Side:
    """INSERTs into the table that is captured, a hundred rows in each transaction."""
    statement = INSERT_ROWS.format(rows=per_statement)
    script = f"begin;\n{statement * (PER_TRANSACTION // per_statement)}commit;\n"
    return pgbench(name, database, script, runs=max(1, rows // PER_TRANSACTION), count=PER_TRANSACTION)


def append_many(database: LogDatabase, events: int, *, as_json: bool) -> Side:
    """`Log.append_many` of texts that are ready, or of dicts."""
    data = json.loads(DATA) if as_json else DATA

    def work() -> int:
        with database.connect() as connection:
            rows = (("order_placed", data) for _ in range(events))
            return rowbus.Log(connection, QUEUE).append_many(rows)

    return Side(f"Log.append_many, {'dicts' if as_json else 'texts'}", database.empty, work)


class BareCopy:
    """psycopg's COPY into a table like an event table: the same columns, defaults, index and storage options."""

    def __init__(self, database: LogDatabase) -> None:
        """Make the table; the defaults and indexes come from the event table."""
        self._database = database
        with database.connect() as connection:
            found = connection.execute("select pgq.current_event_table(%s)", (QUEUE,)).fetchone()
            assert found is not None
            options = connection.execute(
                "select unnest(reloptions) from pg_class where oid = %s::regclass", found
            ).fetchall()
            schema, _, table = str(found[0]).partition(".")
            connection.execute(
                sql.SQL("create table bare_copy (like {} including all) with ({})").format(
                    sql.Identifier(schema, table),
                    sql.SQL(", ".join(str(option) for (option,) in options)),  # type: ignore[arg-type]  # from the catalog
                )
            )

    def _empty(self) -> None:
        with self._database.connect() as connection:
            connection.execute("truncate bare_copy")

    def side(self, events: int) -> Side:
        """COPY of rows that are ready."""
        row = (datetime.now(UTC), "order_placed", DATA)

        def work() -> int:
            with self._database.connect() as connection:
                query = "copy bare_copy (ev_time, ev_type, ev_data) from stdin"
                with connection.cursor().copy(query) as copy:
                    for _ in range(events):
                        copy.write_row(row)
            return events

        return Side("psycopg, COPY", self._empty, work)


def has_pgbench() -> bool:
    """Whether Debian's pgbench is here."""
    return (DEBIAN_15 / "pgbench").exists()
