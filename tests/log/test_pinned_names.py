"""No function of ours looks a name up where its caller says, generated ones included.

Each pins its search path with pg_temp last, or has a SQL-standard body, whose names were bound when it was made, or
names everything with its schema. PL/pgSQL keeps what it compiled for the whole session, so a function that looked names
up would do so for the first caller, and go on with what that one found also when it runs with its owner's rights.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.database.statements import raw_source
from rowbus.spark import schema as spark_installer
from tests.fixtures.every import every
from tests.fixtures.log import Templates, copy_of
from tests.log.bare_names import OUR_SCHEMAS, bare_names

Connection = psycopg.Connection[Any]

FUNCTIONS = """
    select
        p.oid::regprocedure::text, l.lanname, p.prosrc, p.prosecdef, p.prosqlbody is not null,
        (select setting from unnest(p.proconfig) as c (setting) where setting like 'search_path=%%')
    from pg_proc as p
    inner join pg_language as l on l.oid = p.prolang
    where p.pronamespace::regnamespace::text = any(%s) or p.proname = 'rowbus_notify'
    order by 1
"""
OPEN = {
    "_event_table", "_is_event_table", "_events_since", "_first_event_waits", "_generated_event",
    "_open_batch", "_find_batch", "_subscription_place", "_subscription_tail", "_range_sql", "_range_tables",
    "_await_rotation",
    "_companions_operations", "_is_trusted_owner", "_untrusted_owner",  # in the old style, where everybody may maintain
}  # fmt: skip
"""Internal functions that everybody may call, for functions and views that run as their caller do: they reveal nothing
that the tables they read, which everybody may read, do not."""
DYNAMIC = {
    "_insert_event_checked", "get_batch_cursor", "get_batch_events", "column_differs", "append_stage", "clear_table",
    "merge_stages", "apply_changes", "apply_to_tables", "apply_to_table",
}  # fmt: skip
"""Functions that build SQL without a path of their own: what they build was checked by hand, as string literals are not
read here. The condition of a cursor is the caller's, and means what it means in its path."""

TABLES = """
    create table public.orders (
        id int primary key, customer text, total numeric, price float8, at timestamptz, day date, code char(4),
        tags text[], extra jsonb, raw bytea, is_open boolean, duration interval
    );
    create table public.magic (id int primary key, _pgq_ev_type text, _pgq_ev_extra1 text, note text);
    create table public.keyless (note text);
"""
ARGUMENTS = (
    "array[]::text[]", "array['backup']", "array['ignore=customer']", "array['pkey=customer', 'backup']",
    "array['ev_extra3=customer || 1', 'when=total > 0']", "array['deny']",
)  # fmt: skip


class Function(NamedTuple):
    signature: str
    language: str
    body: str
    security_definer: bool
    is_bound: bool
    path: str | None

    @property
    def name(self) -> str:
        return self.signature.partition("(")[0].rpartition(".")[2]

    @property
    def is_pinned(self) -> bool:
        schemas = (self.path or "").removeprefix("search_path=").split(", ")
        return schemas[0] == "pg_catalog" and schemas[-1] == "pg_temp" and set(schemas[1:-1]) <= OUR_SCHEMAS

    @property
    def complaints(self) -> list[str]:
        if self.language not in {"sql", "plpgsql"}:
            return [f"language {self.language}"]
        return [] if self.is_bound or self.is_pinned else bare_names(self.body)


def functions(connection: Connection) -> list[Function]:
    return [Function._make(row) for row in connection.execute(FUNCTIONS, [list(OUR_SCHEMAS)])]


def complaints(connection: Connection) -> dict[str, list[str]]:
    return {f.signature: f.complaints for f in functions(connection) if f.complaints}


@pytest.fixture(scope="module")
def everything(postgres_server: str, templates: Templates) -> Iterator[Connection]:
    """Give a connection to a database with every function of ours, and every kind of generated one; change nothing."""
    copy = copy_of(postgres_server, templates.installed(postgres_server))
    with copy as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        _make_everything(connection, dsn)
        yield connection


def _make_everything(pgq: Connection, dsn: str) -> None:
    with Database(dsn).session() as session:
        spark_installer.ensure(session)
    notify = raw_source("transport/queues/sql/postgresql/create_notify_function.sql").replace(
        ':"schema"', "public"
    )
    pgq.execute(notify.encode())
    for name in ("plain", "limited", "third"):
        pgq.execute("select pgq.create_queue(%s)", [name])
    pgq.execute("update pgq.queue set queue_per_tx_limit = 2 where queue_name = 'limited'")
    pgq.execute(TABLES)
    for format_ in ("json", "url", "sql"):
        for number, arguments in enumerate(ARGUMENTS):
            capture = f"select pgq.capture_table('orders', 'plain', %s, {arguments}, %s)"
            pgq.execute(capture.encode(), [format_, f"capture_{format_}_{number}"])
        pgq.execute("select pgq.capture_table('magic', 'plain', %s, '{}', %s)", [format_, f"m_{format_}"])
        pgq.execute(
            "select pgq.capture_table('keyless', 'plain', %s, '{insert-only}', %s)", [format_, f"k_{format_}"]
        )
    pgq.execute("select pgq.maint_capture()")


def test_no_function_looks_a_name_up_along_its_callers_path(everything: Connection) -> None:
    assert complaints(everything) == {}
    names = "\n".join(function.name for function in functions(everything))
    assert re.search(r"^captured_\d+_[0-9a-f]{12}$", names, re.MULTILINE)
    assert re.search(r"^insert_event_\d+$", names, re.MULTILINE)


def test_what_builds_sql_without_a_path_of_its_own_is_known(everything: Connection) -> None:
    unpinned = [f for f in functions(everything) if not f.is_pinned and not f.is_bound]

    assert {f.name for f in unpinned if "execute" in f.body} <= DYNAMIC


@every("style", ["old", "new"])
def test_internal_functions_are_not_for_everybody(everything: Connection, style: str) -> None:
    query = """
        select p.proname from pg_proc as p
        where p.pronamespace = 'pgq'::regnamespace and p.proname ~ '^(_|insert_event_[0-9]+$)'
        and has_function_privilege('public', p.oid, 'execute')
    """

    with everything.transaction(force_rollback=True):
        everything.execute("select pgq.set_grants(%s)", [style])
        assert {name for (name,) in everything.execute(query)} - {"_grant_perms_from"} <= OPEN


@every(
    "make,complaint",
    [
        ("language plpgsql as 'declare x text; begin end'", "type text"),
        ("language plpgsql as 'declare x constant record := null; begin end'", "type record"),
        ("language plpgsql as 'declare x pgq.queue.queue_id%type; begin end'", "operator %"),
        ("language plpgsql as 'begin perform 1 + 1; end'", "operator +"),
        ("language plpgsql as 'begin perform 1 operator(evil.+) 1; end'", "function operator"),
        ("language plpgsql as 'begin perform now(); end'", "function now"),
        ("language plpgsql as 'begin perform public.f(); end'", "function public.f"),
        ("language plpgsql as 'begin perform null::int4; end'", "type int4"),
        ("language plpgsql as 'begin perform cast(null as int4); end'", "operator cast"),
        ("language plpgsql as $$begin perform text 'x'; end$$", "type text"),
        ("language plpgsql as 'begin perform from queue; end'", "relation queue"),
        ("language plpgsql as 'begin perform from queue as q; end'", "relation queue"),
        ("language plpgsql as 'begin perform from pgq.queue as q, tick as t; end'", "relation tick"),
        ("language plpgsql as 'begin insert into queue default values; end'", "relation queue"),
        ("language plpgsql as 'begin delete from tick; end'", "relation tick"),
        ("language plpgsql as 'begin update tick set tick_id = null; end'", "relation tick"),
        ("language plpgsql as 'begin perform nullif(1, 1); end'", "operator nullif"),
        ("language plpgsql as 'begin perform 1 is distinct from 1; end'", "operator = of IS DISTINCT FROM"),
        ("language plpgsql as 'begin perform 1 in (1, 2); end'", "operator = of IN"),
        ("language plpgsql as 'begin perform case 1 when 1 then 1 end; end'", "operator = of a simple CASE"),
        ("language plpgsql as $$begin perform 'a' like 'b'; end$$", "operator like"),
        ("language plpgsql as $$begin perform 1 between 1 and 2; end$$", "operator between"),
        ("language plpgsql as $$begin perform 'a' collate \"C\"; end$$", 'collation "C"'),
        ("language sql as 'select now()'", "function now"),
        ("language sql set search_path = public as 'select now()'", "function now"),
        ("language sql set search_path = pg_catalog, public, pg_temp as 'select now()'", "function now"),
        ("language sql set search_path = pg_catalog as 'select now()'", "function now"),
    ],
)
@pytest.mark.one_version
def test_a_bare_name_is_seen(pgq: Connection, make: str, complaint: str) -> None:
    pgq.execute("set check_function_bodies = off")
    pgq.execute(f"create function pgq.careless() returns void {make}".encode())

    found = complaints(pgq)["pgq.careless()"]
    pgq.execute("drop function pgq.careless()")
    assert complaint in found


@pytest.mark.one_version
def test_qualified_pinned_and_bound_functions_are_let_pass(pgq: Connection) -> None:
    pgq.execute("create function pgq.a() returns void language plpgsql as $$declare x bigint; begin end$$")
    pgq.execute("create function pgq.b() returns text language sql return now()::text || 'x'")
    pin = "set search_path = pg_catalog, pgq, pg_temp"
    pgq.execute(f"create function pgq.c() returns text language sql {pin} as 'select now()::text'".encode())

    assert complaints(pgq).keys() & {"pgq.a()", "pgq.b()", "pgq.c()"} == set()
