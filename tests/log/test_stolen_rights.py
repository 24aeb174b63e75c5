"""Attacks that once made a role the owner of schema pgq, or let the log's administrator have what is not the log's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from tests.log.hostile_roles import SECRET_NUMBER, Thief, prepare, run, session, set_permanent_traps

Connection = psycopg.Connection[Any]

HELPERS = (
    "select pgq._range_sql(1, 1, 1, 1)",
    "select pgq._range_tables(1, 1, 1)",
    "select pgq.sql_data('INSERT', '{}', '{}', '{}', '{}', '{}', '{}', '{}')",
    "select pgq.capture_body('mine', 'json', '{plain}')",
    "select pgq.make_capture('mine'::regclass, 'json', '{plain}')",
    "select pgq.keep_capture('mine', 'json', '{plain}', 'x')",
    "select pgq.drop_captures()",
    "select pgq.data_code('mine', 'json', 'x', '{}')",
    "select pgq.replace_generated_event()",
    "select pgq.trigger_options('{plain}')",
    "select pgq.column_expression('id', '{id}')",
    "select pgq.url_encode('ä/ ')",
    "select pgq.row_event('json', 'INSERT', 'AFTER', null::mine, null::mine, '[0:0]={plain}', '{a,b}')",
    "select pgq.row_event('sql', 'UPDATE', 'AFTER', row(1,'x')::mine, row(1,'y')::mine, '[0:0]={plain}', '{a,b}')",
    "select pgq._open_batch(1)",
    "select pgq._next_tick(null, null, null, null)",
    "select pgq._check_insert(null, 1)",
    "select pgq._insert_tick(null, null, 1, now(), 1)",
    "select pgq.find_tick_helper(1, 1, now(), 1, 1, '1 s')",
    "select pgq.notify_channel('plain')",
    "select pgq.batch_event_sql(1)",
)
"""Calls of helpers, which compile them for this session."""


@pytest.fixture
def stranger(pgq: Connection) -> Iterator[Thief]:
    """Give a role with CONNECT and TEMP, in the old style of grants, where it may call every function."""
    yield from _role(pgq, Thief(None, "old", has_schema=False))


@pytest.fixture
def admin(pgq: Connection) -> Iterator[Thief]:
    """Give a role that is a member of pgq_admin, and has a schema with traps."""
    yield from _role(pgq, Thief("pgq_admin", "new", has_schema=True))


def _role(owner: Connection, thief: Thief) -> Iterator[Thief]:
    prepare(owner, thief)
    yield thief
    name = sql.Identifier(thief.name)
    owner.execute(sql.SQL("drop owned by {} cascade").format(name))
    owner.execute(sql.SQL("drop role {}").format(name))


def caught(owner: Connection) -> bool:
    return owner.execute("select is_called from watch.caught").fetchone() == (True,)


@pytest.mark.parametrize(
    "then",
    [
        "select pgq.range_event_sql('plain', 1, 1)",
        "select pgq.get_range_events('plain', 1, 1)",
        "select pgq.maint_capture()",
        "select app.order(1, 'written by an application''s own function, to a captured table')",
    ],
)
def test_what_a_session_compiled_first_is_not_run_with_other_rights(
    log_database: str, pgq: Connection, stranger: Thief, then: str
) -> None:
    with session(log_database, stranger) as connection:
        run(connection, [*HELPERS, then, then, then])

    assert not caught(pgq)


def test_altering_a_captured_table_runs_nothing_of_its_owners(
    log_database: str, pgq: Connection, stranger: Thief
) -> None:
    create = "create table public.mine (id int primary key, note text)"
    pgq.execute(create.encode())
    pgq.execute(sql.SQL("alter table public.mine owner to {}").format(sql.Identifier(stranger.name)))
    pgq.execute("select pgq.capture_table('public.mine', 'plain')")
    with session(log_database, stranger) as connection:
        run(connection, HELPERS)
        connection.execute("alter table public.mine add column evil pg_temp.text default 'x'")
        connection.execute("insert into public.mine values (1, 'x')")

    assert not caught(pgq)
    with psycopg.connect(log_database, autocommit=True) as owner:
        owner.execute("select pgq.maint_capture()")
    assert not caught(pgq)


CASCADE = """
    create role rowbus_test_keeper; create schema keeper authorization rowbus_test_keeper;
    grant pgq_writer to rowbus_test_keeper; set role rowbus_test_keeper;
    create table keeper.private (secret text); insert into keeper.private values ('seen');
    create table keeper.customers (id int primary key);
    create table keeper.orders (
        id int primary key, city varchar(20), customer int references keeper.customers on delete cascade
    );
    insert into keeper.customers values (1), (2);
    insert into keeper.orders values (1, 'Oslo', 1), (2, 'Bern', 2);
    grant usage on schema keeper to {thief}; grant select, delete on keeper.customers to {thief};
    reset role;
    select pgq.capture_table(
        'keeper.orders', 'plain', 'json', array['when=lower(city) <> ''none''', 'ev_extra2=upper(city)']
    )
"""
LOOKALIKES = """
    create table evil.stolen (secret text);
    grant usage on schema evil to public; grant insert on evil.stolen to public;
    create function evil.lower(varchar) returns text language plpgsql as $$
    begin
        insert into evil.stolen select secret from keeper.private;
        return 'x';
    exception when insufficient_privilege then
        return 'x';
    end $$;
    create function evil.differs(text, text) returns bool language sql return evil.lower('x'::varchar) is not null;
    create operator evil.<> (function = evil.differs, leftarg = text, rightarg = text);
    set search_path = evil, pg_catalog
"""
ALSO_IN_AN_OPEN_SCHEMA = """
    create function keeper.lower(varchar) returns text language sql as 'select evil.lower($1)';
    set search_path = keeper, pg_catalog
"""


def test_expressions_that_a_cascade_runs_mean_what_they_meant_to_the_owner_of_the_table(
    log_database: str, pgq: Connection, admin: Thief
) -> None:
    """From PostgreSQL 18 on they have the rights of the table's owner, and had the search path of who deleted."""
    pgq.execute(CASCADE.format(thief=admin.name).encode())
    with psycopg.connect(log_database, options=f"-c role={admin.name}", autocommit=True) as thief:
        thief.execute(LOOKALIKES)
        thief.execute("delete from keeper.customers where id = 1")
        assert thief.execute("select * from evil.stolen").fetchall() == []
        pgq.execute("grant create on schema keeper to public")
        thief.execute(ALSO_IN_AN_OPEN_SCHEMA)
        thief.execute("delete from keeper.customers where id = 2")
        assert thief.execute("select * from evil.stolen").fetchall() == []

    noted = pgq.execute(
        "select ev_extra2 from pgq.event_1 where ev_extra1 = 'keeper.orders' order by ev_id"
    ).fetchall()
    assert noted == [("OSLO",), ("BERN",)]
    pgq.execute("drop schema keeper cascade; drop owned by rowbus_test_keeper; drop role rowbus_test_keeper")


@pytest.mark.parametrize(
    "change,call",
    [
        (
            "queue_event_seq = 'public.secret_seq'",
            "select pgq.ticker('plain'), max(tick_event_seq) from pgq.tick",
        ),
        ("queue_event_seq = 'public.secret_seq'", "select pgq.force_tick('plain')"),
        ("queue_event_seq = 'public.secret_seq'", "select pgq.insert_event('plain', 't', 'd')"),
        ("queue_event_seq = 'public.secret_seq'", "select pgq.insert_events('plain', '{t}', '{d}')"),
        ("queue_tick_seq = 'public.secret'", "select pgq.grant_perms('plain')"),
        ("queue_event_seq = 'evil.sequence_view'", "select pgq.ticker('plain')"),
        ("queue_data_pfx = 'public.secret'", "select pgq.grant_perms('plain')"),
        ("queue_data_pfx = 'public.secret'", "select pgq.insert_event('plain', 't', 'd')"),
        ("queue_data_pfx = 'public.secret'", "select pgq.get_range_events('plain', 1, 2)"),
        ("queue_data_pfx = 'evil.events'", "select pgq.insert_event('plain', 't', 'd')"),
    ],
)
def test_an_administrator_does_not_lead_functions_to_what_is_not_the_logs(
    log_database: str, pgq: Connection, admin: Thief, change: str, call: str
) -> None:
    pgq.execute("select pgq.force_tick('plain'), pgq.ticker('plain')")
    with psycopg.connect(log_database, options=f"-c role={admin.name}", autocommit=True) as connection:
        set_permanent_traps(connection, admin.name)
    with session(log_database, admin) as connection:
        connection.execute(f"update pgq.queue set {change} where queue_name = 'plain'".encode())
        stolen = run(connection, [call, "table pgq.tick"])
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("table public.secret")

    assert not caught(pgq)
    assert not [row for row in stolen if str(SECRET_NUMBER) in str(row) or "swordfish" in str(row)]
    assert pgq.execute("select count(*) from public.secret").fetchone() == (4,)
    assert pgq.execute("select last_value from public.secret_seq").fetchone() == (SECRET_NUMBER,)


def test_rotation_empties_no_table_that_is_not_the_logs(pgq: Connection, admin: Thief) -> None:
    pgq.execute(
        "update pgq.queue set queue_data_pfx = 'public.secret', queue_rotation_period = '0' "
        "where queue_name = 'limited'"
    )
    pgq.execute("update pgq.queue set queue_switch_time = now() - interval '1 day'")

    with pytest.raises(errors.InsufficientPrivilege, match=r"public\.secret_1 is not a table of events"):
        pgq.execute("select pgq.maint_rotate_tables_step1('limited')")
    assert pgq.execute("select count(*) from public.secret").fetchone() == (4,)


def test_inserting_says_what_is_wrong_with_the_queue(pgq: Connection) -> None:
    pgq.execute("create table public.other (like pgq.event_template)")
    pgq.execute("create table public.other_0 (like pgq.event_template)")
    pgq.execute("select pgq.create_queue('q')")
    pgq.execute("update pgq.queue set queue_data_pfx = 'public.other'")

    with pytest.raises(
        errors.InsufficientPrivilege, match=r"public\.other_0 is not a table of events in schema pgq"
    ) as error:
        pgq.execute("select pgq.insert_event('q', 't', 'd')")
    assert error.value.diag.message_hint == "Correct queue_data_pfx in pgq.queue."


def test_a_sequence_is_read_and_a_view_of_such_columns_is_not(pgq: Connection) -> None:
    pgq.execute("create sequence public.counter; create view public.fake as select 7::bigint as last_value")

    assert pgq.execute("select pgq.seq_getval('public.counter')").fetchone() == (1,)
    assert pgq.execute("select pgq.seq_setval('public.counter', 5)").fetchone() == (5,)
    with pytest.raises(errors.WrongObjectType, match=r"public\.fake is not a sequence"):
        pgq.execute("select pgq.seq_getval('public.fake')")
