"""Functions that run with their owner's rights do what their author wrote, whatever the caller's search path says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

Connection = psycopg.Connection[Any]

HOT = {"pgq.insert_event(text,text,text,text,text,text,text)"}
"""Functions that cannot afford to pin their search path, and so qualify every name; the tests below attack them."""

UNPINNED = """
    select p.oid::regprocedure::text
    from pg_proc as p
    inner join pg_namespace as n on p.pronamespace = n.oid
    where n.nspname in ('pgq', 'pgq_coop', 'pgq_ext', 'pgq_node') and p.prosecdef
        and not exists (
            select from unnest(p.proconfig) as c (setting)
            where c.setting ~ '^search_path=pg_catalog, ([a-z_]+, )*pg_temp$'
        )
"""
OPERATORS = ("=", "<>", "<", ">", "<=", ">=", "+", "-", "*", "/", "||", "&", "|", "~")
OPERANDS = ("text", "name", "int4", "int8", "bool", "oid", "regclass", "text[]")
TYPES = ("int4", "int8", "text", "bool", "timestamptz", "name", "oid", "regclass")
FUNCTIONS = {
    "nextval(regclass)": "int8", "nextval(text)": "int8", "txid_current()": "int8", "now()": "timestamptz",
    "format(text, variadic text[])": "text", "current_setting(text)": "text", "to_regclass(text)": "regclass",
}  # fmt: skip

MAKE_TRAP = """
    create function evil.{name}({arguments}) returns {result} language plpgsql as $$
    begin
        if current_user operator(pg_catalog.<>) 'rowbus_test_attacker' then
            perform pg_catalog.nextval('evil.caught');
        end if;
        return {answer};
    end
    $$
"""


def test_every_function_with_its_owners_rights_pins_its_search_path_or_is_known_not_to(
    pgq: Connection,
) -> None:
    assert {name for (name,) in pgq.execute(UNPINNED)} == HOT


def test_functions_that_the_hot_ones_call_are_attacked_as_they_are_not_pinned_either(pgq: Connection) -> None:
    """If one is added, see that an attack below reaches it."""
    query = """
        select p.proname from pg_proc as p where p.pronamespace = 'pgq'::regnamespace
        and p.proname in ('insert_event_raw', '_insert_event_checked', '_writable_queue', '_current_table',
            '_check_insert') and p.proconfig is null and not p.prosecdef
    """
    assert len(pgq.execute(query).fetchall()) == 5


@pytest.fixture
def queues(pgq: Connection) -> Connection:
    """Give the owner's connection; there are queues for each way through the insert functions."""
    for name in ("plain", "limited", "closed", "long", "zz1", "zz2"):
        pgq.execute("select pgq.create_queue(%s)", [name])
    pgq.execute("update pgq.queue set queue_per_tx_limit = 2 where queue_name = 'limited'")
    pgq.execute("update pgq.queue set queue_disable_insert = true where queue_name = 'closed'")
    pgq.execute("drop function pgq.insert_event_4")
    pgq.execute("select pgq._generate_dispatch(), pgq.set_grants('new')")
    return pgq


@pytest.fixture
def attacker(queues: Connection, log_database: str) -> Iterator[Connection]:
    """Give a writer's connection whose search path begins with a schema of theirs, full of traps."""
    queues.execute("create role rowbus_test_attacker; grant pgq_writer to rowbus_test_attacker")
    queues.execute("create schema evil authorization rowbus_test_attacker")
    dsn = make_conninfo(log_database, options="-c role=rowbus_test_attacker")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create sequence evil.caught")
        set_traps(connection)
        connection.execute("set search_path = evil, pg_catalog")
        yield connection
    queues.execute("drop owned by rowbus_test_attacker cascade; drop role rowbus_test_attacker")


def set_traps(connection: Connection) -> None:
    """Make operators, functions and types of names that unqualified SQL would find.

    Those that are run as anybody but the attacker advance a sequence, which no rollback undoes.
    """
    for number, operator in enumerate(OPERATORS):
        for operand in OPERANDS:
            name = f'"operator {number} {operand}"'
            trap(connection, name, f"{operand}, {operand}", "bool", "true")
            make = f"create operator evil.{operator} (function = evil.{name}, leftarg={operand}, rightarg={operand})"
            connection.execute(make.encode())
    for signature, result in FUNCTIONS.items():
        name, arguments = signature.rstrip(")").split("(")
        trap(connection, name, arguments, result, "null")
    trap(connection, "trap", "", "bool", "true")
    for name in TYPES:
        connection.execute(f"create domain evil.{name} as pg_catalog.{name} check (evil.trap())".encode())


def trap(connection: Connection, name: str, arguments: str, result: str, answer: str) -> None:
    connection.execute(
        MAKE_TRAP.format(name=name, arguments=arguments, result=result, answer=answer).encode()
    )


def caught(connection: Connection) -> bool:
    row = connection.execute("select is_called from evil.caught").fetchone()
    return row is not None and bool(row[0])


@pytest.mark.parametrize("queue", ["plain", "limited", "closed", "long", "nowhere", None])
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_inserting_is_not_led_astray_by_what_the_caller_defines(
    attacker: Connection, queues: Connection, queue: str | None, isolation: str
) -> None:
    call = "select pgq.insert_event($1, 't', 'd', null, null, null, null)"
    attacker.execute(f"prepare call(pg_catalog.text) as {call}")
    for _ in range(3):
        with suppress(errors.InternalError_), attacker.transaction():
            attacker.execute(f"set transaction isolation level {isolation}")
            for _ in range(3):
                attacker.execute(sql.SQL("execute call({})").format(sql.Literal(queue)))

    assert not caught(attacker)
    inserted = queues.execute("select count(*) from pgq.event_template").fetchone()
    assert inserted == ({"plain": 9, "long": 9}.get(queue or "", 0),)


def test_the_traps_catch_what_is_not_qualified(attacker: Connection, queues: Connection) -> None:
    for body in (
        "perform 1 where 'a'::pg_catalog.text = 'b'::pg_catalog.text",
        "declare x text := 'a'; begin end",
    ):
        make = (
            "create or replace function pgq.careless() returns void language plpgsql security definer as {}"
        )
        queues.execute(sql.SQL(make).format(sql.Literal(f"begin {body}; end")))
        queues.execute("grant execute on function pgq.careless() to public")
        attacker.execute("select pg_catalog.setval('evil.caught', 1, false)")
        attacker.execute("select pgq.careless()")
        assert caught(attacker)
