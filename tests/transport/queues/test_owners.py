"""What a stranger left in the queues' schema is not built upon, and is named where an older installation did.

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
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.catalog import postgresql as catalog
from rowbus.transport.queues.installer import create_queue, create_schema
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.command_line import CommandLine, as_role
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
            with pytest.raises(psycopg.DataError, match=named):
                migrate(session, script)


async def test_a_squatted_schema_is_not_used(
    asynchronous: AsyncSession, session: Session, mallory: psycopg.Connection
) -> None:
    mallory.execute("create schema shop; create schema pgq")
    with pytest.raises(ConfigurationError, match=f"schema shop belongs to {MALLORY}"):
        await create_schema(asynchronous, catalog, "shop")
    with pytest.raises(psycopg.DataError, match="schema pgq belongs to"):
        migrate(session, bus.log_sql("orders"))


def test_what_an_older_installation_built_upon_is_named_and_mended(
    rowbus: CommandLine, session: Session, mallory: psycopg.Connection
) -> None:
    rowbus("queue", "create", "Sales", "--notify-trigger")
    mallory.execute(TABLE.format("Billing").encode())
    owner = "alter function public.rowbus_notify() owner to "
    session.connection.execute(f"{FUNCTION.format('')}; {owner} {MALLORY}".encode())

    for command in (("schema", "verify"), ("doctor",)):
        told = rowbus(*command)
        assert told.returncode == 1
        assert "function public.rowbus_notify() belongs to" in told.stdout
        assert "rowbus_notify(), which is not as this Rowbus" in told.stdout
        assert re.search(rf"(?s)Billing.{{0,500}}{MALLORY}", told.stdout)
    assert rowbus("queue", "create", "Sales", "--notify-trigger").returncode != 0

    session.connection.execute(f'{owner} current_user; drop table "Billing"'.encode())
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
