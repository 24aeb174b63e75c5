"""Inbox and AsyncInbox: a message's effects once, in whatever transaction and database they are."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from rowbus.transport.queues.records.keys import key_of
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def connection(database: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database, autocommit=True) as connection:
        rowbus.Inbox(connection, "Billing").create()
        yield connection


def test_a_message_is_new_once(connection: psycopg.Connection) -> None:
    inbox = rowbus.Inbox(connection, "Billing")

    assert [inbox.accept(message_id) for message_id in ("1", "2", "1", "2")] == [True, True, False, False]


def test_it_is_noted_when_the_callers_transaction_commits(connection: psycopg.Connection) -> None:
    inbox = rowbus.Inbox(connection, "Billing")

    with connection.transaction(force_rollback=True):
        assert inbox.accept("1")
        assert not inbox.accept("1")

    assert inbox.accept("1")


def test_each_endpoint_has_an_inbox_of_its_own(connection: psycopg.Connection) -> None:
    other = rowbus.Inbox(connection, "Shipping")
    other.create()

    assert rowbus.Inbox(connection, "Billing").accept("1")
    assert other.accept("1")


@pytest.mark.parametrize("commits", [True, False])
async def test_who_notes_the_same_at_the_same_time_waits_and_is_told_how_it_ended(
    connection: psycopg.Connection, database: str, *, commits: bool
) -> None:
    answers: list[bool] = []

    def second() -> None:
        with psycopg.connect(database, autocommit=True) as another:
            answers.append(rowbus.Inbox(another, "Billing").accept("1"))

    with connection.transaction(force_rollback=not commits):
        assert rowbus.Inbox(connection, "Billing").accept("1")
        thread = threading.Thread(target=second)
        thread.start()
        with psycopg.connect(database, autocommit=True) as observer:

            def waiting() -> bool:
                found = observer.execute(
                    "select count(*) from pg_stat_activity"
                    " where wait_event_type = 'Lock' and datname = current_database()"
                ).fetchone()
                return found == (1,)

            await eventually(waiting)
        assert not answers
    thread.join()

    assert answers == [not commits]


async def test_the_asynchronous_twin_does_the_same(database: str) -> None:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        inbox = rowbus.AsyncInbox(connection, "Billing")
        await inbox.create()
        await inbox.create()

        assert await inbox.accept("1")
        assert not await inbox.accept("1")
        assert await inbox.purge(timedelta(0)) == 1
        assert await inbox.accept("1")


def test_what_is_old_is_forgotten_and_the_rest_is_not(connection: psycopg.Connection) -> None:
    connection.execute(
        """insert into "Billing.Inbox" select n::text, now() - n * interval '1 hour'
           from generate_series(1, 3000) as n"""
    )
    inbox = rowbus.Inbox(connection, "Billing")

    assert inbox.purge(timedelta(hours=500, minutes=30)) == 2500
    assert not inbox.accept("500")
    assert inbox.accept("501")


def test_forgetting_passes_over_what_others_forget(connection: psycopg.Connection, database: str) -> None:
    for number in range(10):
        rowbus.Inbox(connection, "Billing").accept(str(number))
    with psycopg.connect(database) as another, connection.transaction(force_rollback=True):
        connection.execute("""delete from "Billing.Inbox" where message_key < '5'""")

        assert rowbus.Inbox(another, "Billing").purge(timedelta(0)) == 5


@pytest.mark.one_version
def test_the_old_ones_are_found_by_an_index(connection: psycopg.Connection) -> None:
    connection.execute(
        """insert into "Billing.Inbox" select n::text, now() - interval '1 hour'
           from generate_series(1, 20000) as n"""
    )
    connection.execute('analyze "Billing.Inbox"')

    plan = connection.execute(
        """explain (costs off) select message_key from "Billing.Inbox"
           where accepted < now() - interval '7 days' order by accepted limit 1000 for update skip locked"""
    ).fetchall()

    assert "Index Scan using inbox_accepted" in str(plan)


def test_a_missing_table_says_how_to_make_it(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(rowbus.StorageError, match=r"Inbox\.create\(\)"),
    ):
        rowbus.Inbox(connection, "Billing").accept("1")


def test_a_name_too_long_is_refused_without_asking_the_database(connection: psycopg.Connection) -> None:
    with pytest.raises(rowbus.InvalidAddressError):
        rowbus.Inbox(connection, "B" * 60)


def test_other_libraries_connections_are_refused() -> None:
    with pytest.raises(rowbus.ConfigurationError):
        rowbus.Inbox(object(), "Billing")


def test_different_ids_have_different_keys_that_the_table_can_hold() -> None:
    ids = ["1", "x" * 200, "x" * 201, "x" * 202, "a\0", "a\0\0", "sha256:1", key_of("x" * 201)]
    keys = [key_of(message_id) for message_id in ids]

    assert keys[:2] == ids[:2]
    assert len(set(keys)) == len(ids)
    assert all(len(key.encode()) <= 800 and "\0" not in key for key in keys)
