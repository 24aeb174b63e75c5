"""`create_missing=True`: a client creates the queue of an endpoint that was never started, in its transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from threading import Thread

import psycopg
import pytest

from rowbus import Client
from rowbus.errors import ConfigurationError, PermissionDeniedError, QueueNotFoundError
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import within

SOON = timedelta(milliseconds=50)
LATER = timedelta(hours=1)


async def test_what_is_sent_before_an_endpoint_was_ever_started_is_waiting_for_it(
    endpoints: Endpoints,
) -> None:
    client = endpoints.backend.client(create_missing=True)
    await client.send("Sales", PlaceOrder("now"))
    await client.send("Sales", PlaceOrder("later"), delay=SOON)
    await client.send_many("Sales", [PlaceOrder("many")])
    await client.send_many("Sales", [PlaceOrder("many later")], delay=SOON)

    sales, seen, all_seen = endpoints.make("Sales"), set[str](), asyncio.Event()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        seen.add(message.order_id)
        if len(seen) == 4:
            all_seen.set()

    async with sales:
        await within(all_seen.wait())


async def test_a_transaction_that_is_rolled_back_leaves_no_queue(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    client = backend.client(create_missing=True)

    async with backend.transaction(force_rollback=True):
        await client.send("Sales", PlaceOrder("1"))

    async with backend.transaction(force_rollback=True):
        with pytest.raises(QueueNotFoundError):
            await backend.client().send("Sales", PlaceOrder("1"))
    await client.send("Sales", PlaceOrder("1"))  # it looks again
    assert await backend.count("Sales") == 1


# ------------------------------------------------------------------------------------------------- on PostgreSQL


@pytest.fixture
def own(database: str) -> Iterator[psycopg.Connection]:
    """Give a connection that begins transactions by itself."""
    with psycopg.connect(database) as connection:
        yield connection
        connection.rollback()


def tables(connection: psycopg.Connection) -> set[str]:
    found = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    return {name for (name,) in found}


def test_a_delay_creates_the_table_it_waits_in_and_the_queue_it_goes_to(own: psycopg.Connection) -> None:
    Client(own, create_missing=True).send("Sales", PlaceOrder("1"), delay=LATER)

    assert tables(own) == {"Sales", "Sales.Delayed"}


def test_a_role_without_the_right_is_told_what_to_do_and_its_transaction_stays_usable(
    role: str, own: psycopg.Connection
) -> None:
    own.execute(f"set role {role}".encode())
    client = Client(own, create_missing=True)

    with pytest.raises(PermissionDeniedError) as refused:
        client.send("Sales", PlaceOrder("1"))

    assert str(refused.value) == (
        '"public"."Sales" is missing, and this role may not create it (Failed to create "public"."Sales": permission '
        "denied for schema public). Have it created by a role that may (`rowbus schema install`, `rowbus queue "
        "create`), or grant this one the right to create tables in the schema 'public'."
    )
    assert refused.value.sqlstate == "42501"
    assert tables(own) == set()


def test_the_right_to_send_is_enough_where_the_queue_is_there(role: str, own: psycopg.Connection) -> None:
    Client(own, create_missing=True).send("Sales", PlaceOrder("1"))
    own.execute(f'grant insert on "Sales" to {role}; grant usage on "Sales_seq_seq" to {role}'.encode())
    own.execute(f"set role {role}".encode())

    Client(own, create_missing=True).send("Sales", PlaceOrder("2"))

    own.execute("reset role")
    assert own.execute('select count(*) from "Sales"').fetchone() == (2,)


def test_a_missing_schema_is_not_created(own: psycopg.Connection) -> None:
    with pytest.raises(ConfigurationError, match="the schema 'shop' does not exist; create it"):
        Client(own, schema="shop", create_missing=True).send("Sales", PlaceOrder("1"))

    assert tables(own) == set()


def test_of_two_transactions_that_create_one_queue_the_second_waits_and_both_send(
    own: psycopg.Connection, database: str
) -> None:
    Client(own, create_missing=True).send("Sales", PlaceOrder("1"))
    with psycopg.connect(database) as other, psycopg.connect(database, autocommit=True) as watcher:
        second = Thread(target=lambda: Client(other, create_missing=True).send("Sales", PlaceOrder("2")))
        second.start()
        waits = "select exists (select from pg_locks where pid = %s and not granted)"
        while watcher.execute(waits, (other.info.backend_pid,)).fetchone() == (False,) and second.is_alive():
            pass
        own.commit()
        second.join()
        other.commit()

    assert own.execute('select count(*) from "Sales"').fetchone() == (2,)
