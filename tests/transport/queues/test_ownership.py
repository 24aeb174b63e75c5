"""Owners of tables: whom a role trusts, and that a table stays what it was found to be while it is read."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from rowbus.database.postgresql.database import Database
from rowbus.messages.address import QueueAddress
from rowbus.transport.pauses.table import pauses_table
from rowbus.transport.queues.catalog import postgresql as catalog
from rowbus.transport.queues.catalog.looking import (
    TOGETHER,
    NotLookedAtError,
    find_queues,
    look,
    look_at_each,
    looking,
    sort_out,
)
from rowbus.transport.queues.catalog.ownership import LOCKED
from tests.fixtures.command_line import as_role
from tests.fixtures.every import every

VIEWER, OWNER, GROUP = "rowbus_test_viewer", "rowbus_test_owner", "rowbus_test_group"
MADE = "rowbus_test_made"
SALES = QueueAddress("shop", "Sales")
QUEUE = "(id uuid primary key, expires timestamp, headers text not null, body bytea, seq serial unique)"
SETTING = "select set_config('rowbus.trusted_owners', 'postgres_no, rowbus_test_owner ', false)"
TABLE_OF = 'alter table shop."Sales" owner to '
SCHEMA_OF = "alter schema shop owner to "
DATABASE_OF = "do $$ begin execute format('alter database %I owner to {}', current_database()); end $$"
MEMBER_OF_A_MEMBER = (
    f"create role {MADE}; {DATABASE_OF.format(OWNER)}; grant {OWNER} to {GROUP}; grant {GROUP} to {MADE}"
)
"""A person who has the rights of the database's owner, as a member of a member of it."""

TRUST = [
    ("", "belongs to rowbus_test_owner"),
    (f"{TABLE_OF} session_user", "its schema belongs to rowbus_test_owner"),
    (f"{TABLE_OF} session_user; {SCHEMA_OF} session_user", ""),
    (f"{TABLE_OF} {VIEWER}; {SCHEMA_OF} {VIEWER}", ""),
    (f"{MEMBER_OF_A_MEMBER}; {TABLE_OF} {MADE}; {SCHEMA_OF} {MADE}", ""),
    (f"{TABLE_OF} pg_database_owner; {SCHEMA_OF} pg_database_owner", ""),
    (f"alter schema public owner to {OWNER}", ""),
    (f"grant {OWNER} to {VIEWER}", ""),
    (f"grant {GROUP} to {VIEWER}; grant {OWNER} to {GROUP}", ""),
    (f"grant {OWNER} to {GROUP}", "belongs to rowbus_test_owner"),
    (f"grant {VIEWER} to {OWNER}", "belongs to rowbus_test_owner"),
    (f"{TABLE_OF} pg_monitor; {SCHEMA_OF} pg_monitor; grant pg_monitor to {VIEWER}", "belongs to pg_monitor"),
    (
        (
            f"grant {GROUP} to {OWNER} with admin option; {TABLE_OF} {GROUP}; {SCHEMA_OF} {GROUP}; "
            f"set role {OWNER}; grant {GROUP} to {VIEWER}; reset role"
        ),
        "belongs to rowbus_test_group",
    ),
    (
        (
            f"alter role {VIEWER} createrole; set role {VIEWER}; create role {MADE}; reset role; "
            f"{TABLE_OF} {MADE}; {SCHEMA_OF} {MADE}"
        ),
        "belongs to rowbus_test_made",
    ),
    ('alter table shop."Sales" enable row level security', "belongs to rowbus_test_owner"),
    (
        f'{TABLE_OF} session_user; {SCHEMA_OF} session_user; alter table shop."Sales" enable row level security',
        "it has row security policies",
    ),
]


@pytest.fixture
def owner(database: str) -> Iterator[psycopg.Connection]:
    """Give a superuser's session on a database with a queue of a role that nobody trusts, and a viewer's role."""
    with psycopg.connect(database, autocommit=True) as connection:
        for role in (VIEWER, OWNER, GROUP):
            connection.execute(sql.SQL("create role {}").format(sql.Identifier(role)))
        yield connection


def lay_out(owner: psycopg.Connection) -> None:
    """Make the queue anew, and have nobody trusted."""
    owner.execute(
        f"alter schema public owner to pg_database_owner; {DATABASE_OF.format('session_user')}".encode()
    )
    owner.execute(
        f"drop schema if exists shop cascade; drop role if exists {MADE}; create schema shop".encode()
    )
    owner.execute(f'create table shop."Sales" {QUEUE}'.encode())
    for member, role in ((VIEWER, OWNER), (VIEWER, GROUP), (GROUP, OWNER), (OWNER, VIEWER), (OWNER, GROUP)):
        owner.execute(f"revoke {role} from {member} cascade".encode())
    owner.execute(f"revoke pg_monitor from {VIEWER}".encode())
    owner.execute(
        f'grant usage on schema shop to {VIEWER}; grant select on shop."Sales" to {VIEWER}'.encode()
    )
    owner.execute(f"{TABLE_OF} {OWNER}; {SCHEMA_OF} {OWNER}".encode())


@every("change, reason", TRUST)
def test_a_role_trusts_those_that_have_its_rights_or_gave_them(
    change: str, reason: str, owner: psycopg.Connection, database: str
) -> None:
    lay_out(owner)
    owner.execute(change.encode())

    with Database(as_role(database, VIEWER)).session() as session:
        assert sort_out(session, catalog, [SALES]).left_out.get(SALES, "") == reason


DECIDING = [
    ("", False),
    (f"grant {OWNER} to {VIEWER}", True),
    (f"grant {GROUP} to {VIEWER}; grant {OWNER} to {GROUP}", True),
    (f"grant {OWNER} to {GROUP}", False),
    (f"{MEMBER_OF_A_MEMBER}; {TABLE_OF} {MADE}", True),
    (f"{TABLE_OF} pg_monitor; grant pg_monitor to {VIEWER}", False),
    (
        (
            f"grant {GROUP} to {OWNER} with admin option; {TABLE_OF} {GROUP}; "
            f"set role {OWNER}; grant {GROUP} to {VIEWER}; reset role"
        ),
        False,
    ),
    (f"{SCHEMA_OF} {OWNER}", True),
]


@every("change, decides", DECIDING)
def test_pauses_are_those_of_roles_that_may_decide(
    change: str, *, decides: bool, owner: psycopg.Connection, database: str
) -> None:
    lay_out(owner)
    owner.execute(f"{SCHEMA_OF} session_user; {change}".encode())

    with Database(as_role(database, VIEWER)).session() as session:
        assert session.run(pauses_table(SALES).can_be_used()) is decides


def test_an_operator_names_owners(owner: psycopg.Connection, database: str) -> None:
    lay_out(owner)

    with Database(database).session() as session:
        assert not find_queues(session, catalog)[0].readable
        session.connection.execute(SETTING)
        assert find_queues(session, catalog)[0].readable


@every(
    "change, reason",
    [
        ('drop table "Sales"; create view "Sales" as select 1 as seq', "it is no table"),
        (f'alter table "Sales" owner to {OWNER}', f"belongs to {OWNER}"),
    ],
)
def test_what_a_table_became_after_it_was_found_is_not_read(
    change: str, reason: str, owner: psycopg.Connection, database: str
) -> None:
    owner.execute(f'drop schema public cascade; create schema public; create table "Sales" {QUEUE}'.encode())
    with Database(database).session() as session:
        (found,) = find_queues(session, catalog)
        owner.execute(change.encode())

        with pytest.raises(NotLookedAtError) as caught:
            look(session, found.address, catalog.queue_state(found.address, 1))

    assert caught.value.reason == reason


def test_a_table_that_is_looked_at_stays_what_it_is(owner: psycopg.Connection, database: str) -> None:
    owner.execute(f'create table "Sales" {QUEUE}; set lock_timeout = 1'.encode())
    sales = QueueAddress("public", "Sales")

    with Database(database).session() as session:
        with looking(session, sales), pytest.raises(psycopg.errors.LockNotAvailable):
            owner.execute(b'alter table "Sales" rename to other')
        assert session.connection.execute("show lock_timeout").fetchone() == ("0",)


def test_many_tables_are_looked_at_together(owner: psycopg.Connection, database: str) -> None:
    many = [QueueAddress("public", f"Queue{number}") for number in range(TOGETHER + 1)]
    for one in many:
        owner.execute(f'create table "{one.table}" {QUEUE}'.encode())
    with Database(database).session() as session:
        looked = look_at_each(session, many, lambda address: catalog.queue_state(address, 1))

    assert list(looked.answers) == many
    assert not looked.left_out
    assert len({state.at for state in looked.answers.values()}) == 2  # now() is when the transaction began


@every(
    "change, reason",
    [
        ('begin; lock table "Sales"', LOCKED),
        (f'alter table "Sales" owner to {OWNER}', f"belongs to {OWNER}"),
        (
            (
                'drop table "Sales"; create view "Sales" as select 1 as seq; '
                f'grant select on "Sales" to {VIEWER}'
            ),
            "it is no table",
        ),
        (f'revoke all on "Sales" from {VIEWER}', "this role may not read it"),
        ('drop table "Sales"', None),
    ],
)
def test_one_table_that_cannot_be_looked_at_hides_no_other(
    change: str, reason: str | None, owner: psycopg.Connection, database: str
) -> None:
    sales, billing = QueueAddress("public", "Sales"), QueueAddress("public", "Billing")
    owner.execute(b"drop schema public cascade; create schema public; grant usage on schema public to public")
    for one in (sales, billing):
        owner.execute(
            f'create table "{one.table}" {QUEUE}; grant select on "{one.table}" to {VIEWER}'.encode()
        )
    owner.execute(change.encode())
    with Database(as_role(database, VIEWER)).session() as session:
        looked = look_at_each(session, [sales, billing], lambda address: catalog.queue_state(address, 1))
    owner.rollback()

    assert list(looked.answers) == [billing]
    assert looked.left_out == ({} if reason is None else {sales: reason})
