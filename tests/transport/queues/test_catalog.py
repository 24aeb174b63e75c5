"""The catalogue: queues found by their shape, counted without disturbing anybody, and facts of the server."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import script
from rowbus.errors import PermissionDeniedError, QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.catalog import postgresql as catalog
from rowbus.transport.queues.catalog.looking import find_queues
from rowbus.transport.queues.installer import create_queue, create_schema
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.queues.shape import Key, QueueShape, differences
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import put

SALES = QueueAddress("public", "Sales")

AS_NSERVICEBUS_MAKES_IT = """
create table "Sales" (
    Id uuid not null primary key,
    Expires timestamp,
    Headers text not null,
    Body bytea,
    Seq serial not null unique
)
"""


@pytest.fixture
def role(database: str) -> Iterator[str]:
    """Give a role without privileges."""
    name = f"rowbus_{secrets.token_hex(6)}"
    identifier = sql.Identifier(name)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {}").format(identifier))
        yield name
        connection.execute(sql.SQL("drop owned by {0}; drop role {0}").format(identifier))


def found(session: Session, *named: QueueAddress) -> dict[str, QueueShape]:
    return {str(shape.address): shape for shape in find_queues(session, catalog, named)}


def execute(session: Session, text: str) -> None:
    session.connection.execute(text.encode())


# -------------------------------------------------------------------------------------------------------------- find


def test_a_queue_of_ours_and_one_of_nservicebus_have_no_differences(session: Session) -> None:
    execute(session, AS_NSERVICEBUS_MAKES_IT)
    session.run_all(QueueTable(QueueAddress("public", 'a "b" ż')).create())

    queues = found(session)

    assert set(queues) == {'"public"."Sales"', '"public"."a ""b"" ż"'}
    assert all(queue.is_queue and differences(queue) == () for queue in queues.values())


def test_the_body_string_column_is_no_difference(session: Session, queue: QueueTable) -> None:
    with session.transaction():
        for statement in queue.create_body_string():
            session.run(statement)

    assert differences(found(session)[str(SALES)]) == ()


@pytest.mark.parametrize(
    "change, difference",
    [
        ('alter table "Sales" alter seq type bigint', "the column seq is bigint instead of integer"),
        (
            'alter table "Sales" alter headers type varchar',
            "the column headers is character varying instead of text",
        ),
        ('alter table "Sales" alter headers drop not null', "the column headers takes null"),
        ('alter table "Sales" alter body set not null', "the column body refuses null"),
        ('alter table "Sales" alter seq drop default', "the column seq takes no number from its sequence"),
        (
            'alter table "Sales" drop column expires',
            "the column expires (timestamp without time zone) is missing",
        ),
        ('alter table "Sales" add note text', "the column note (text) does not belong to a queue"),
        (
            'alter table "Sales" add note text not null',
            "the column note (text) does not belong to a queue, and every send fails on it: it takes no null",
        ),
        ('alter table "Sales" drop constraint "Sales_pkey"', "the primary key is not the column id"),
        (
            'alter table "Sales" drop constraint "Sales_seq_key"',
            "there is no unique index on the column seq, in whose order messages are received",
        ),
        (
            'alter sequence "Sales_seq_seq" rename to other',
            (
                "the sequence of the column seq is called other instead of Sales_seq_seq, "
                "where ServiceControl looks for it"
            ),
        ),
        (
            'alter sequence "Sales_seq_seq" owned by none',
            "the sequence Sales_seq_seq of the column seq is missing",
        ),
        (
            'alter table "Sales" set unlogged',
            "the table is unlogged: a crash of the server empties it",
        ),
    ],
)
def test_whatever_somebody_changed_is_said(
    session: Session, queue: QueueTable, change: str, difference: str
) -> None:
    execute(session, change)

    assert differences(found(session)[str(SALES)]) == (difference,)


@pytest.mark.one_version
def test_a_partial_index_is_no_key(session: Session, queue: QueueTable) -> None:
    execute(session, 'alter table "Sales" drop constraint "Sales_seq_key"')
    execute(session, 'create unique index on "Sales" (seq) where expires is null')
    execute(session, 'create unique index on "Sales" (seq, id)')

    assert set(found(session)[str(SALES)].keys) == {Key(("id",), is_primary=True), Key(("seq", "id"))}


@pytest.mark.one_version
def test_a_table_that_is_no_queue_is_found_only_when_it_is_named(session: Session, queue: QueueTable) -> None:
    execute(session, "create table orders (id uuid, headers text, body bytea)")
    orders = QueueAddress("public", "orders")

    assert str(orders) not in found(session)
    assert differences(found(session, orders, QueueAddress("no", "such"))[str(orders)])


@pytest.mark.one_version
def test_temporary_tables_and_views_are_not_queues(session: Session, queue: QueueTable) -> None:
    execute(session, 'create temporary table "Mine" (like "Sales")')
    execute(session, 'create view "Window" as select * from "Sales"')

    assert set(found(session)) == {str(SALES)}


def test_the_sequence_tells_how_far_it_has_come(session: Session, queue: QueueTable) -> None:
    before = found(session)[str(SALES)].sequence
    put(session, queue, 3)
    after = found(session)[str(SALES)].sequence

    assert before is not None
    assert before.position is None
    assert after == ("Sales_seq_seq", 3, 2147483647)


def test_a_queue_one_may_not_read_is_found_all_the_same(
    session: Session, queue: QueueTable, role: str
) -> None:
    put(session, queue)
    execute(session, f'set role "{role}"')

    sales = found(session)[str(SALES)]

    assert not sales.readable
    assert sales.sequence is not None
    assert sales.sequence.position is None
    assert differences(sales) == ()


# ------------------------------------------------------------------------------------------------------------- state


def test_messages_are_counted_up_to_the_limit(session: Session, queue: QueueTable) -> None:
    empty = session.run(catalog.queue_state(SALES, 3))
    put(session, queue, 5)

    full = session.run(catalog.queue_state(SALES, 3))

    assert (empty.depth, empty.in_hand, empty.oldest_headers) == (0, 0, None)
    assert (full.depth, full.in_hand) == (3, 0)
    assert full.oldest_headers is not None
    assert "m-1" in full.oldest_headers
    assert full.at.utcoffset() == timedelta(0)


def test_counting_sees_what_others_have_in_hand_and_hides_nothing_from_them(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 3)

    with other.transaction():
        assert len(other.run(queue.receive(2, FROM_THE_START))) == 2
        at_once = session.run(catalog.queue_state(SALES, 100))
        put(session, queue)  # a later transaction ends first
        later = session.run(catalog.queue_state(SALES, 100))
        with session.transaction():
            session.run(catalog.queue_state(SALES, 100))
            assert len(other.run(queue.receive(3, FROM_THE_START))) == 2
    after = session.run(catalog.queue_state(SALES, 100))

    assert (at_once.depth, at_once.in_hand) == (3, 2)
    assert (later.depth, later.in_hand) == (4, 2)
    assert (after.depth, after.in_hand) == (0, 0)


def test_what_was_put_back_is_no_longer_in_hand(session: Session, other: Session, queue: QueueTable) -> None:
    put(session, queue, 2)
    execute(other, "begin")
    other.run(queue.receive(1, FROM_THE_START))
    execute(other, "rollback")

    assert session.run(catalog.queue_state(SALES, 100))[:2] == (2, 0)


@pytest.mark.one_version
def test_the_state_of_a_queue_that_is_missing_is_an_error_that_names_it(session: Session) -> None:
    with pytest.raises(QueueNotFoundError) as caught:
        session.run(catalog.queue_state(SALES, 100))

    assert caught.value.queue == str(SALES)


# ----------------------------------------------------------------------------------------------- storage and server


def test_storage_is_read_from_the_statistics(session: Session, queue: QueueTable) -> None:
    put(session, queue, 100)
    execute(session, 'alter table "Sales" set (autovacuum_enabled = false)')
    session.run(queue.purge())
    execute(session, 'vacuum "Sales"')

    storages = session.run(catalog.queue_storage([SALES, QueueAddress("no", "such")]))

    assert [storage.address for storage in storages] == [SALES]
    assert not storages[0].autovacuum
    assert storages[0].bytes > 0


def test_the_server_says_what_it_is(session: Session) -> None:
    server = session.run(catalog.server())

    assert server.version_number == session.connection.info.server_version
    assert server.database == session.connection.info.dbname
    assert not server.is_standby
    assert not server.is_read_only
    assert 0 < server.connections <= server.connection_limit


def test_the_servers_time_zone_is_the_one_sessions_get_that_set_none(database: str) -> None:
    warsaw = make_conninfo(database, options="-c TimeZone=Europe/Warsaw")
    with Database(warsaw).session() as session:
        assert session.run(catalog.server()).time_zone == "Europe/Warsaw"


def test_the_time_zone_of_a_role_is_known(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as own:
        role, name = own.info.user, own.info.dbname
        own.execute(
            sql.SQL("alter role {} in database {} set timezone to 'Europe/Warsaw'").format(
                sql.Identifier(role), sql.Identifier(name)
            )
        )
    with Database(database).session() as session:
        assert session.run(catalog.server()).role_time_zones == {role: "Europe/Warsaw"}


@pytest.mark.parametrize(
    "text",
    [
        "set transaction isolation level repeatable read; select 1",
        'lock table "Sales"; select pg_current_xact_id()',
    ],
    ids=["snapshot", "transaction id"],
)
def test_whoever_keeps_dead_rows_is_found_with_its_process(
    session: Session, other: Session, queue: QueueTable, text: str
) -> None:
    assert session.run(catalog.snapshot_holders()) == []

    execute(other, f"begin; {text}")
    holders = session.run(catalog.snapshot_holders())
    execute(other, "rollback")

    assert [(holder.kind, holder.pid) for holder in holders] == [
        ("session", other.connection.info.backend_pid)
    ]
    assert holders[0].state == "idle in transaction"
    assert holders[0].lasted is not None
    assert holders[0].lasted < timedelta(minutes=1)
    assert session.run(catalog.snapshot_holders()) == []


# ------------------------------------------------------------------------------------------------ schema and grants


async def test_a_schema_is_created_once_and_its_absence_is_seen(
    asynchronous: AsyncSession, session: Session
) -> None:
    assert not session.run(catalog.schema_exists("shop"))

    assert await create_schema(asynchronous, catalog, "shop")
    assert not await create_schema(asynchronous, catalog, "shop")
    assert await create_queue(asynchronous, QueueAddress("shop", "Sales"))
    assert session.run(catalog.schema_exists("shop"))


def test_a_role_may_do_what_it_was_granted_and_nothing_else(
    session: Session, queue: QueueTable, role: str
) -> None:
    put(session, queue)
    execute(session, script(catalog.grant_receive(SALES, role)))
    execute(session, f'set role "{role}"')

    assert len(session.run(queue.receive(1, FROM_THE_START))) == 1
    with pytest.raises(PermissionDeniedError):
        put(session, queue)


def test_a_script_says_what_the_statement_does(session: Session) -> None:
    """Also where names and values hold the driver's own marks."""
    table = QueueTable(QueueAddress("public", "100% %(x)s"))
    for statement in (*table.create(), *table.create_body_string()):
        execute(session, script(statement))

    assert differences(found(session)[str(table.address)]) == ()
