"""Objects of a stranger in the queues' schema: not built upon, and named where an older installation did.

Each test is an attack that worked: on a database in which every role may create objects in schema public, as all have
that were made before PostgreSQL 15.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

import rowbus as bus
from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.statements import Statement, answer_steps, run_now, run_steps_now, scalar
from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.catalog import postgresql as catalog
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Destinations, find_standings
from rowbus.transport.queues.installer import create_queue, create_schema
from rowbus.transport.queues.owners import find_owners, is_shared
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.command_line import CommandLine, as_role
from tests.fixtures.every import every
from tests.fixtures.sessions import put

MALLORY = "rowbus_test_mallory"
SALES = QueueAddress("public", "Sales")
FUNCTION = """
create or replace function public.rowbus_notify() returns trigger language plpgsql
as 'begin {} return null; end'
"""
SEIZE = FUNCTION.format(f"alter role {MALLORY} superuser;")
TABLE = 'create table public."{}" (id uuid primary key, expires timestamp, headers text, body bytea, seq serial unique)'


@pytest.fixture
def mallory(session: Session, database: str) -> Iterator[psycopg.Connection]:
    """Give a session of a role that nobody granted anything, in such a database."""
    session.connection.execute(f"create role {MALLORY}; grant create on schema public to public")
    name = sql.Identifier(session.connection.info.dbname)
    session.connection.execute(sql.SQL("grant create on database {} to public").format(name))
    with psycopg.connect(as_role(database, MALLORY), autocommit=True) as connection:
        yield connection


def migrate(session: Session, statements: list[str]) -> None:
    """Run statements as Alembic's and Django's migrations do."""
    with session.connection.transaction():
        for statement in statements:
            session.connection.execute(statement.encode())


def is_superuser(session: Session) -> bool:
    query = "select from pg_roles where rolname = %s and rolsuper"
    return session.connection.execute(query, [MALLORY]).rowcount == 1


async def test_a_squatted_function_of_the_trigger_does_not_make_its_owner_superuser(
    asynchronous: AsyncSession, session: Session, mallory: psycopg.Connection
) -> None:
    mallory.execute(FUNCTION.format(""))

    with pytest.raises(ConfigurationError, match=rf"rowbus_notify\(\) belongs to {MALLORY}"):
        await create_queue(asynchronous, SALES, notify_trigger=True)

    mallory.execute(SEIZE)
    put(session, QueueTable(SALES))
    assert not is_superuser(session)


SQUATTED = [
    (TABLE.format("Table"), "Table", "table"),
    ('create view public."View" as select 1 as id', "View", "view"),
    ('create type public."Type" as (id uuid)', "Type", "composite type"),
]


async def test_a_squatted_table_is_not_used(
    asynchronous: AsyncSession, session: Session, mallory: psycopg.Connection
) -> None:
    for made, name, kind in SQUATTED:
        mallory.execute(made.encode())
        address = QueueAddress("public", name)
        named = rf'{kind} public\."{name}" belongs to {MALLORY}'
        with pytest.raises(ConfigurationError, match=named):
            await create_queue(asynchronous, address)
        for script in (bus.queue_sql(name), bus.endpoint_sql("Fine", error_queue=name)):
            with pytest.raises(psycopg.DataError, match=rf'table "{name}" belongs to {MALLORY}'):
                migrate(session, script)


async def test_a_squatted_schema_is_not_used(
    asynchronous: AsyncSession, session: Session, mallory: psycopg.Connection
) -> None:
    mallory.execute("create schema shop; create schema pgq")
    with pytest.raises(ConfigurationError, match=f"schema shop belongs to {MALLORY}"):
        await create_schema(asynchronous, catalog, "shop")
    with pytest.raises(psycopg.DataError, match="schema pgq belongs to"):
        migrate(session, bus.log_sql("orders"))


TRAP = "create function public.trap() returns boolean immutable language sql as 'select true'"
DESTINATIONS = [
    ('drop table "Sales"', None),
    ("", ""),
    (f'alter table "Sales" owner to {MALLORY}', "belongs to"),
    (f"alter schema public owner to {MALLORY}", ""),  # whose queue the message came to
    ('alter table "Sales" add bodystring text generated always as (encode(body, $$escape$$)) stored', ""),
    ('alter table "Sales" drop seq', "no queue"),
    ('create trigger evil before insert on "Sales" execute function public.fire()', "fire"),
    (
        """create trigger evil before update on "Sales" for each row when (trap())
        execute function suppress_redundant_updates_trigger()""",
        "trap",
    ),
    ('create rule evil as on insert to "Sales" do also select trap()', "trap"),
    ('alter table "Sales" add evil boolean default trap()', "trap"),
    ('alter table "Sales" add evil boolean generated always as (trap()) stored', "trap"),
    ('alter table "Sales" add check (trap())', "trap"),
    ('create index on "Sales" ((trap()))', "trap"),
    ('create index on "Sales" (seq) where trap()', "trap"),
    ('create policy evil on "Sales" with check (trap())', "trap"),
    ('alter table "Sales" add evil public.odd', "odd"),
    ('alter table "Sales" add evil public.odd[]', "odd"),
    ('create domain fine as odd; alter table "Sales" add evil fine', "odd"),
    ('create domain fine as text check (trap()); alter table "Sales" add evil fine', "trap"),
    (
        (
            "create domain fine as text check (trap()); create type deep as (x fine); "
            'create table row_of (x deep[]); alter table "Sales" add evil row_of'
        ),
        "trap",
    ),
    ('create table child () inherits ("Sales")', ""),
    (f'create table child () inherits ("Sales"); alter table child owner to {MALLORY}', "table public.child"),
    ('create table child () inherits ("Sales"); create index on child ((trap()))', "trap"),
    (
        (
            'drop table "Sales"; create table "Sales" (id uuid, expires timestamp, headers text, body bytea, seq serial'
            ') partition by list (seq); create table middle partition of "Sales" default partition by list (id); '
            "create table child partition of middle default; "
            "create trigger evil before insert on child for each row execute function public.fire()"
        ),
        "fire",
    ),
]


@every("change, reason", DESTINATIONS)
def test_a_destination_runs_no_code_of_a_stranger(
    change: str, reason: str | None, session: Session, mallory: psycopg.Connection
) -> None:
    with session.connection.transaction(force_rollback=True):
        create = session.connection.execute
        create(TABLE.format("Sales").encode())
        create(f"grant execute on all functions in schema public to public; set role {MALLORY}".encode())
        create(TRAP.encode())
        create(b"create function public.fire() returns trigger language plpgsql as 'begin return new; end'")
        create(b"create domain public.odd as text")
        create(f"reset role; {change}".encode())

        found = run_steps_now(session, find_standings([SALES], QueueAddress("public", "Own")))[SALES]

    assert found.reason == reason if not reason else reason in str(found.reason)


CHANGEABLE = [
    ("revoke create on schema public from public", True),
    ("", False),
    (f'revoke create on schema public from public; grant trigger on "Sales" to {MALLORY}', False),
    ("revoke create on schema public from public; grant create on schema public to current_user", True),
    (
        (
            'revoke create on schema public from public; create table child () inherits ("Sales"); '
            f"grant trigger on child to {MALLORY}"
        ),
        False,
    ),
]


@every("change, is_firm", CHANGEABLE)
def test_a_destination_is_remembered_where_no_stranger_can_change_it(
    change: str, *, is_firm: bool, session: Session, mallory: psycopg.Connection
) -> None:
    with session.connection.transaction(force_rollback=True):
        session.connection.execute(f"{TABLE.format('Sales')}; {change}".encode())
        found = run_steps_now(session, find_standings([SALES], SALES))[SALES]

    assert found == ("", is_firm)


MANY = b"""
do $$ begin
    for number in 0..399 loop
        execute pg_catalog.format('create table public.many%s (id bigint primary key, a int check (a > 0))', number);
    end loop;
end $$;
analyze
"""
EVIL = "create function public.evil() returns boolean language sql as 'select true'"
POLICED = 'reset role; create policy evil on "Sales"; alter table "Sales" enable row level security'
THINGS = [
    ("select", False),
    ("create table evil (id uuid)", True),
    ("create view evil as select 1 as id", True),
    ("create sequence evil", True),  # which has no type, as tables and views have
    ("create schema evil", True),
    (EVIL, True),
    ("create domain evil as text", True),
    ("create type evil as enum ('a')", True),
    ("create operator public.=== (leftarg = integer, rightarg = integer, function = int4eq)", True),
    (f"reset role; {EVIL}; alter function evil owner to pg_monitor", True),  # nothing notes what those own
    (f"reset role; {EVIL}; alter function evil owner to pg_database_owner", False),
    (
        f"reset role; {EVIL}; create table more (id uuid); create operator class evil for type integer using hash "
        "as operator 1 =; alter operator class evil using hash owner to " + MALLORY,
        True,
    ),
    (POLICED, False),
    (
        f"{POLICED}; set role {MALLORY}",
        True,
    ),
    (f"{EVIL}; create table evil (id uuid)", False),  # asked by her
]


@pytest.mark.usefixtures("mallory")
@every("made, is_looked_at", THINGS)
def test_whatever_a_stranger_has_is_looked_at(made: str, *, is_looked_at: bool, session: Session) -> None:
    with session.connection.transaction(force_rollback=True):
        session.connection.execute(f"{TABLE.format('Sales')}; set role {MALLORY}; {made}".encode())
        if is_looked_at and "reset role" not in made:
            session.connection.execute("reset role")

        assert run_steps_now(session, is_shared()) is is_looked_at


def test_the_question_whose_tables_are_looks_cheap_to_the_server(session: Session) -> None:
    """Above `jit_above_cost` it compiles the plan, for seconds, each time; in a database of many tables, too."""
    with session.connection.transaction(force_rollback=True):
        session.connection.execute(MANY)
        asked = find_owners(QueueAddress("public", f"many{number}") for number in range(400))
        text, native = (b"explain " + text for text in (asked.query.text, asked.query.native))
        explained = asked.query._replace(text=text, native=native)

        plan = session.run(Statement(explained, asked.parameters, scalar))
        ((limit,),) = session.connection.execute(b"show jit_above_cost")

    assert float(re.findall(r"cost=[\d.]+\.\.([\d.]+)", plan)[0]) < float(limit) / 2


def test_many_destinations_are_asked_about_together(session: Session) -> None:
    session.connection.execute("\n".join(TABLE.format(name) + ";" for name in "ABC").encode())
    named = [QueueAddress("public", name) for name in ("A", "B", "C", "Gone")]
    destinations = Destinations(ANY_QUEUE, SALES)
    asked = []

    async def ask(statement: Statement[object]) -> object:
        asked.append(statement)
        return session.run(statement)

    with pytest.raises(QueueNotFoundError, match="Gone"):
        run_now(answer_steps(ask, destinations.look(*named)))

    assert len(asked) == 2  # their columns, and their owners
    assert [destinations.knows(each) for each in named] == [True, True, True, False]


def test_what_an_older_installation_built_upon_is_named_and_mended(
    rowbus: CommandLine, session: Session, mallory: psycopg.Connection
) -> None:
    rowbus("queue", "create", "Sales", "--notify-trigger")
    mallory.execute(TABLE.format("Billing").encode())
    owner = "alter function public.rowbus_notify() owner to "
    session.connection.execute(f"{FUNCTION.format('')}; {owner} {MALLORY}".encode())
    session.connection.execute(
        f'create table part () inherits ("Sales"); alter table part owner to {MALLORY}'.encode()
    )

    for command in (("schema", "verify"), ("doctor",)):
        told = rowbus(*command)
        assert told.returncode == 1
        assert "function public.rowbus_notify() belongs to" in told.stdout
        assert "table public.part belongs to" in told.stdout
        assert "rowbus_notify(), which is not as this Rowbus" in told.stdout
        assert re.search(rf"(?s)Billing.{{0,500}}{MALLORY}", told.stdout)
    assert rowbus("queue", "create", "Sales", "--notify-trigger").returncode != 0

    session.connection.execute(f'{owner} current_user; drop table "Billing", part'.encode())
    assert rowbus("queue", "create", "Sales", "--notify-trigger").returncode == 0
    assert rowbus("schema", "verify").returncode == 0


def test_a_printed_script_fails_where_a_stranger_was_faster(
    rowbus: CommandLine, session: Session, mallory: psycopg.Connection
) -> None:
    mallory.execute(
        f"{FUNCTION.format('')}; {TABLE.format('SubscriptionRouting')}; create schema shop".encode()
    )
    (rowbus.folder / "shop.py").write_text("import rowbus\nsales = rowbus.Endpoint('Sales')\n")
    for arguments in (
        ("--queue", "Sales", "--notify-trigger"),
        ("--queue", "Sales", "--schema", "shop", "--create-schema"),
        ("shop:sales",),
    ):
        printed = rowbus("schema", "sql", *arguments).stdout
        with pytest.raises(psycopg.DataError, match="Nothing was installed"):
            session.connection.execute(printed.encode())
        session.connection.rollback()
