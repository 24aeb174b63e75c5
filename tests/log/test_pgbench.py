"""pgbench's bank, captured by triggers while several clients change it, and rebuilt elsewhere from the events alone.

The four tables are compared row by row with their copies at the end; `pgbench_history` has no primary key, so only
its INSERTs can be captured, and there are no others. The log rotates all the time, as far as its consumer allows.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import psycopg
import pytest
from psycopg import sql

from rowbus.database.embedded import find_binaries
from tests.fixtures.pairs import effort

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

TABLES = {
    "pgbench_accounts": "aid",
    "pgbench_tellers": "tid",
    "pgbench_branches": "bid",
    "pgbench_history": None,
}
CLIENTS = 4
SECONDS = effort(4, 10)
QUEUE = "bank"
CONSUMER = "rebuild"
PAUSE = 0.02  # seconds between two ticks


class Change(NamedTuple):
    """A row of a batch, as far as a rebuild needs it."""

    type: str
    data: str
    table: str


Apply = Callable[[psycopg.Connection[Any], Change], None]


# ------------------------------------------------------------------------------------------------ applying the events


def copied(table: str) -> sql.Identifier:
    """Give the copy of a table that an event names: `public.pgbench_tellers`."""
    return sql.Identifier("copy", table.removeprefix("public."))


def apply_values(
    connection: psycopg.Connection[Any], change: Change, operation: str, values: dict[str, Any]
) -> None:
    """Insert a row, or give the row with its key all its values."""
    row = sql.SQL("json_populate_record(null::{}, {})").format(copied(change.table), json.dumps(values))
    if operation == "INSERT":
        connection.execute(sql.SQL("insert into {} select * from {}").format(copied(change.table), row))
        return
    assert operation == "UPDATE"
    key = sql.Identifier(TABLES[change.table.removeprefix("public.")] or "")
    columns = sql.SQL(", ").join(map(sql.Identifier, values))
    news = sql.SQL(", ").join(sql.Identifier("new", name) for name in values)
    query = (
        "update {table} as old set ({columns}) = row({news}) from {row} as new where old.{key} = new.{key}"
    )
    connection.execute(
        sql.SQL(query).format(table=copied(change.table), columns=columns, news=news, row=row, key=key)
    )


def apply_json(connection: psycopg.Connection[Any], change: Change) -> None:
    """Apply what `jsontriga` writes."""
    kind = json.loads(change.type)
    assert f"{kind['table'][0]}.{kind['table'][1]}" == change.table
    apply_values(connection, change, kind["op"], json.loads(change.data))


def apply_url(connection: psycopg.Connection[Any], change: Change) -> None:
    """Apply what `logutriga` writes: a column without `=` is NULL."""
    pairs = dict(parse_qsl(change.data, keep_blank_values=True, strict_parsing=False))
    nulls = {part for part in change.data.split("&") if "=" not in part}
    values = {name: None if name in nulls else value for name, value in pairs.items()}
    apply_values(connection, change, {"I": "INSERT", "U": "UPDATE"}[change.type[0]], values)


def apply_sql(connection: psycopg.Connection[Any], change: Change) -> None:
    """Apply what `sqltriga` writes: the rest of a statement."""
    begin = {"I": "insert into {} ", "U": "update {} set "}[change.type]
    connection.execute(sql.SQL(begin).format(copied(change.table)) + sql.SQL(change.data))


# ------------------------------------------------------------------------------------------------------------ the load


def pgbench(*arguments: str) -> list[str | Path]:
    return [find_binaries() / "pgbench", *arguments]


@contextmanager
def load(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run TPC-B with several clients; kill it if the test fails meanwhile."""
    command = pgbench("-n", "-c", str(CLIENTS), "-j", "2", "-T", str(SECONDS), dsn)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def make_bank(connection: psycopg.Connection[Any], dsn: str, form: str) -> None:
    """Make pgbench's tables, copies of them as they are before the load, and the log of their changes."""
    subprocess.run(pgbench("-i", "-q", "-s", "1", dsn), check=True, capture_output=True)
    connection.execute("create schema copy")
    connection.execute("select pgq.create_queue(%s)", (QUEUE,))
    connection.execute("select pgq.register_consumer(%s, %s)", (QUEUE, CONSUMER))
    for name in ("ticker_max_lag", "ticker_idle_period", "rotation_period"):
        connection.execute("select pgq.set_queue_config(%s, %s, '0')", (QUEUE, name))
    for table, key in TABLES.items():
        make = "create table copy.{0} (like public.{0} including all); insert into copy.{0} select * from public.{0}"
        connection.execute(sql.SQL(make).format(sql.Identifier(table)))
        arguments = [] if key else ["insert-only"]
        query = "select pgq.capture_table(%s::regclass, %s, %s, %s::text[])"
        connection.execute(query, (f"public.{table}", QUEUE, form, arguments))


def look_after(connection: psycopg.Connection[Any]) -> None:
    """Tick, and rotate if the consumer is done with the previous table."""
    connection.execute("select pgq.ticker(%s)", (QUEUE,))
    connection.execute("select pgq.maint_rotate_tables_step1(%s)", (QUEUE,))
    connection.execute("select pgq.maint_rotate_tables_step2()")


def consume(connection: psycopg.Connection[Any], apply: Apply) -> int | None:
    """Apply a batch and finish it, in one transaction; give how many events it had, None if there was no batch."""
    with connection.transaction():
        batch = connection.execute("select pgq.next_batch(%s, %s)", (QUEUE, CONSUMER)).fetchone()
        if batch is None or batch[0] is None:
            return None
        query = "select ev_type, ev_data, ev_extra1 from pgq.get_batch_events(%s)"
        changes = [Change(*row) for row in connection.execute(query, batch)]
        with connection.pipeline():
            for change in changes:
                apply(connection, change)
            connection.execute("select pgq.finish_batch(%s)", batch)
        return len(changes)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of the load, as long as from one tick to the next."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(PAUSE)
    return process.returncode is not None


def rebuild(connection: psycopg.Connection[Any], apply: Apply, load: subprocess.Popen[bytes]) -> int:
    """Tick and consume until the load has ended and everything is consumed; give how many events there were."""
    events = 0
    while True:
        ended = has_ended(load)
        look_after(connection)
        while (count := consume(connection, apply)) is not None:
            events += count
        if ended:
            return events


def switched(connection: psycopg.Connection[Any]) -> int:
    """Give the transaction of the latest rotation."""
    row = connection.execute(
        "select queue_switch_step1 from pgq.queue where queue_name = %s", (QUEUE,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def difference(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    """Give the rows that one of a table and its copy has and the other has not, or has more often."""
    name = sql.Identifier(table)
    query = """
        (select 'lost', t.* from (table public.{0} except all table copy.{0}) as t)
        union all
        (select 'wrong', t.* from (table copy.{0} except all table public.{0}) as t)
    """
    return connection.execute(sql.SQL(query).format(name)).fetchall()


@pytest.mark.parametrize(
    "form, apply", [("json", apply_json), ("url", apply_url), ("sql", apply_sql)], ids=["json", "url", "sql"]
)
def test_a_consumer_rebuilds_the_banks_four_tables_from_their_events(
    log_database: str, form: str, apply: Apply
) -> None:
    with psycopg.connect(log_database, autocommit=True) as connection:
        make_bank(connection, log_database, form)
        begun = switched(connection)
        with load(log_database) as process:
            events = rebuild(connection, apply, process)
            assert process.returncode == 0

        assert [difference(connection, table)[:5] for table in TABLES] == [[]] * len(TABLES)
        transactions = connection.execute("select count(*) from pgbench_history").fetchone()
        assert transactions is not None
        assert events == len(TABLES) * transactions[0] > 0
        assert switched(connection) > begun, "it never rotated"
