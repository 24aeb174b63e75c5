"""Changes to tables with PgQ's triggers, to be made in our schema and in the C extension and compared.

`golden_triggers.json` holds what the C extension answered (PgQ 3.5 on PostgreSQL 15), so that ours is compared with it
also where it is not installed. `ROWBUS_TEST_ACCEPT=1` writes it anew, on a machine that has the extension.

Invariant: a case names everything it depends on; it runs in any order after the others, in one database.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psycopg
from psycopg import sql

GOLDEN = Path(__file__).with_name("golden_triggers.json")
TRIGGERS = ("jsontriga", "logutriga", "sqltriga")

# The public function that the triggers call; PgQ's own tests replace it as well.
SPY = """
    create table if not exists public.captured (
        id bigserial, queue text, type text, data text, extra1 text, extra2 text, extra3 text, extra4 text
    );
    create or replace function pgq.insert_event(
        queue_name text, ev_type text, ev_data text, ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text
    ) returns bigint language sql as $$
        insert into public.captured (queue, type, data, extra1, extra2, extra3, extra4)
        values ($1, $2, $3, $4, $5, $6, $7) returning id
    $$;
"""
READ = """
    with taken as (delete from public.captured returning *)
    select queue, type, data, extra1, extra2, extra3, extra4 from taken
    where (type like '{"op":"ALTER"%') is not true order by id
"""
"""The events of rows; those of changes of shape are in test_capture_shapes.py."""

Outcome = list[object]


@dataclass(frozen=True, slots=True)
class Case:
    """A table with a trigger, and statements that change it."""

    name: str
    table: str
    create: str
    statements: tuple[str, ...]
    arguments: tuple[str, ...] = ("q",)
    fires: str = "after insert or update or delete"
    level: str = "row"
    settings: tuple[str, ...] = ()


def prepare(connection: psycopg.Connection) -> None:
    """Put the spy in the place of insert_event."""
    connection.execute(SPY)


def play(
    connection: psycopg.Connection, trigger: str, case: Case, *, generate: bool = False
) -> list[Outcome]:
    """Make the changes of a case; give for each its outcome and the events."""
    connection.execute("begin")
    try:
        connection.execute(case.create.encode())
        _create_trigger(connection, trigger, case)
        if generate:
            connection.execute("select pgq.maint_capture()")
        for setting in case.settings:
            connection.execute(setting.encode())
        return [_outcome(connection, statement) for statement in case.statements]
    finally:
        connection.execute("rollback")


def _create_trigger(connection: psycopg.Connection, trigger: str, case: Case) -> None:
    arguments = sql.SQL(", ").join(map(sql.Literal, case.arguments)).as_string(connection)
    fires = f"create trigger captured {case.fires} on {case.table} for each {case.level}"
    connection.execute(f"{fires} execute function pgq.{trigger}({arguments})".encode())


def _outcome(connection: psycopg.Connection, statement: str) -> Outcome:
    connection.execute("savepoint change")
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        connection.execute("rollback to change")
        return [f"{error.sqlstate}: {error.diag.message_primary}"]
    return ["done", *map(list, connection.execute(READ).fetchall())]


def golden(trigger: str, case: Case) -> list[Outcome]:
    """Give what the C extension answered."""
    return _read(GOLDEN.stat().st_mtime_ns)[f"{trigger}: {case.name}"]


@cache
def _read(_written: int) -> dict[str, list[Outcome]]:
    """Read the golden file, once unless it is written anew."""
    answers: dict[str, list[Outcome]] = json.loads(GOLDEN.read_text())
    return answers


def check_oracle(connection: psycopg.Connection, trigger: str, cases: Iterable[Case]) -> None:
    """Assert that the golden file says what the C extension says; with ROWBUS_TEST_ACCEPT write it."""
    prepare(connection)
    answers = {f"{trigger}: {case.name}": play(connection, trigger, case) for case in cases}
    if os.environ.get("ROWBUS_TEST_ACCEPT"):
        known: dict[str, list[Outcome]] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
        text = json.dumps(dict(sorted((known | answers).items())), ensure_ascii=False, indent=1)
        GOLDEN.write_text(text + "\n")
    for case in cases:
        found = differences(trigger, case, answers[f"{trigger}: {case.name}"])
        assert not found, "\n".join(found)


def check(connection: psycopg.Connection, trigger: str, cases: Iterable[Case], *, generate: bool) -> None:
    """Assert that our trigger does what the C extension did, from generated code or without."""
    prepare(connection)
    for case in cases:
        found = differences(trigger, case, play(connection, trigger, case, generate=generate))
        assert not found, "\n".join(found)


def differences(trigger: str, case: Case, answers: list[Outcome]) -> list[str]:
    """Describe where answers are not those of the C extension."""
    expected = golden(trigger, case)
    rows = zip(case.statements, answers, expected, strict=True)
    return [
        f"{case.name}: {statement}\n got {ours}\nwant {theirs}"
        for statement, ours, theirs in rows
        if ours != theirs
    ]
