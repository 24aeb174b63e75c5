"""Delays of a bare client: in the user's transaction, in the destination's table or that of an endpoint it names."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import product

import psycopg
import pytest

import rowbus
from rowbus.errors import InvalidHeaderError, QueueNotFoundError
from rowbus.messages.headers import Header
from tests.conformance.endpoints import Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.on_postgresql import PostgreSQL
from tests.conformance.transport import eventually, within
from tests.transport.delayed.table import Delayed

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

LATER = timedelta(hours=1)
SOON = timedelta(milliseconds=50)


async def test_a_client_delays_in_the_table_of_the_destination_whose_mover_delivers(
    endpoints: Endpoints,
) -> None:
    sales, arrived = endpoints.make("Sales"), asyncio.Event()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        arrived.set()

    async with sales:
        await endpoints.backend.client().send("Sales", PlaceOrder("1"), delay=SOON)
        await within(arrived.wait())


async def test_a_client_delays_through_another_endpoint_that_it_names(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    backend = endpoints.backend
    await backend.create_queue("Plain")

    async with endpoints.make("Sales"):
        client = backend.client(delay_through="Sales")
        await client.send("Plain", PlaceOrder("1"), delay=SOON)

        async def arrived() -> bool:
            return await backend.count("Plain") == 1

        await eventually(arrived)


def test_a_delayed_message_is_in_the_transaction_of_the_user(database: str) -> None:
    asyncio.run(_create(database))
    with psycopg.connect(database) as connection:
        client = rowbus.Client(connection)
        client.send("Sales", PlaceOrder("1"), delay=LATER)
        connection.rollback()
        message_id = client.send("Sales", PlaceOrder("2"), deliver_at=datetime(2099, 1, 1, tzinfo=UTC))
        connection.commit()
        rows = connection.execute('select headers::json, due from "Sales.Delayed"').fetchall()

    ((headers, due),) = rows
    assert headers[Header.MESSAGE_ID] == message_id
    assert headers[Header.FORWARD_DESTINATION] == '"public"."Sales"'
    assert due == datetime(2099, 1, 1, tzinfo=UTC)


@pytest.mark.every_version
def test_the_time_zone_of_the_user_changes_nothing_not_even_when_clocks_are_put_back(database: str) -> None:
    """A day in a zone with daylight saving may have 25 hours; a delay of a day has 24."""
    asyncio.run(_create(database))
    for zone, days in product(("Europe/Warsaw", "America/New_York", "UTC"), (90, 180, 270)):
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute("select set_config('timezone', %s, false)", [zone])
            rowbus.Client(connection).send("Sales", PlaceOrder("1"), delay=timedelta(days=days))
            (seconds,) = connection.execute(
                'delete from "Sales.Delayed" returning extract(epoch from due - clock_timestamp())'
            ).fetchone() or (0,)
        assert float(seconds) == pytest.approx(days * 86400, abs=10)


def test_many_are_delayed_by_copy_and_keep_their_order(database: str) -> None:
    asyncio.run(_create(database))
    with psycopg.connect(database) as connection, connection.transaction():
        sent = rowbus.Client(connection).send_many(
            "Sales", (PlaceOrder(str(number)) for number in range(500)), delay=LATER
        )
        rows = connection.execute(
            'select headers::json, body, extract(epoch from due - clock_timestamp()) from "Sales.Delayed" order by due'
        ).fetchall()

    assert sent == len(rows) == 500
    assert [body for _, body, _ in rows] == [b'{"order_id":"%d"}' % number for number in range(500)]
    assert len({headers[Header.MESSAGE_ID] for headers, _, _ in rows}) == 500
    assert {headers[Header.FORWARD_DESTINATION] for headers, _, _ in rows} == {'"public"."Sales"'}
    assert all(float(seconds) == pytest.approx(3600, abs=10) for _, _, seconds in rows)


async def test_many_delayed_messages_of_an_asynchronous_client_arrive(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")
    arrived: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        arrived.append(message.order_id)

    async with sales:
        client = endpoints.backend.client()
        await client.send_many("Sales", [PlaceOrder(str(number)) for number in range(50)], delay=SOON)
        await eventually(lambda: len(arrived) == 50)


def test_a_destination_without_a_table_of_delayed_messages_is_a_clear_error(database: str) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(QueueNotFoundError, match="rowbus delayed create") as caught,
    ):
        rowbus.Client(connection).send("Sales", PlaceOrder("1"), delay=LATER)
    assert caught.value.queue == '"public"."Sales.Delayed"'


def test_a_delay_and_a_time_to_be_received_are_refused(database: str) -> None:
    asyncio.run(_create(database))
    with psycopg.connect(database, autocommit=True) as connection:
        client = rowbus.Client(connection)
        with pytest.raises(InvalidHeaderError, match="time_to_be_received"):
            client.send("Sales", PlaceOrder("1"), delay=LATER, time_to_be_received=LATER)
        with pytest.raises(InvalidHeaderError, match="time_to_be_received"):
            client.send_many("Sales", [PlaceOrder("1")], delay=LATER, time_to_be_received=LATER)


def test_no_delay_is_a_plain_send(database: str) -> None:
    asyncio.run(_create(database))
    with psycopg.connect(database, autocommit=True) as connection:
        rowbus.Client(connection).send("Sales", OrderAccepted("1"), delay=timedelta())
        assert connection.execute('select count(*) from "Sales"').fetchone() == (1,)


async def _create(dsn: str) -> None:
    backend = await PostgreSQL.open(dsn)
    await Delayed(backend).create()
    await backend.create_queue("Sales")
    await backend.close()
