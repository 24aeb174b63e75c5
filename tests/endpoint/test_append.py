"""`context.append`: an event is written when its message's handler has succeeded, and otherwise never."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest

import rowbus
from rowbus.errors import MessageSerializationError
from rowbus.messages.headers import Header
from rowbus.testing import AppendedEvent, run_handlers
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import (
    eventually,
    in_all_modes,
    in_all_modes_failing,
    in_transaction_modes,
)
from tests.fixtures.log import copy_of

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.backend import Backend
    from tests.fixtures.backends import Place
    from tests.fixtures.database import Servers
    from tests.fixtures.log import Templates

LOG = "orders"


@pytest.fixture
def backend_dsn(backend_place: Place, servers: Servers, templates: Templates) -> Iterator[str]:
    """Give a database that has the event log, and the log `orders`."""
    assert backend_place.server is not None
    server = servers.dsn(backend_place.server)
    with copy_of(server, templates.installed(server)) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("select pgq.create_queue(%s)", [LOG])
        yield dsn


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced:
    order_id: str


async def appended(backend: Backend) -> list[str]:
    """Return the data of the committed events, in the order of their numbers."""
    table = (await backend.values("select queue_data_pfx from pgq.queue"))[0]
    return await backend.values(f"select ev_data from {table} order by ev_id")


async def processed(endpoints: Endpoints, sales: rowbus.Endpoint, *orders: str) -> None:
    """Have the messages processed; return when the queue is empty and the endpoint has stopped."""
    await sales.install()
    await endpoints.backend.client().send_many("Sales", map(PlaceOrder, orders))
    await sales.start()

    async def done() -> bool:
        return await endpoints.backend.count("Sales") == 0

    await eventually(done)
    await sales.stop()


@in_all_modes
@pytest.mark.parametrize("asynchronous", [True, False], ids=["async", "sync"])
async def test_what_a_handler_appends_is_in_the_log_when_it_has_succeeded(
    endpoints: Endpoints, *, asynchronous: bool
) -> None:
    sales = endpoints.make("Sales")
    if asynchronous:

        @sales.handler
        async def place(message: PlaceOrder, context: rowbus.Context) -> None:
            await context.append(
                LOG, type="order_placed", data={"order": message.order_id}, extra1="e1", extra4="e4"
            )
            await context.append(LOG, OrderPlaced(message.order_id))

    else:

        @sales.handler
        def place_in_thread(message: PlaceOrder, context: rowbus.SyncContext) -> None:
            context.append(
                LOG, type="order_placed", data={"order": message.order_id}, extra1="e1", extra4="e4"
            )
            context.append(LOG, OrderPlaced(message.order_id))

    await processed(endpoints, sales, "42")

    table = (await endpoints.backend.values("select queue_data_pfx from pgq.queue"))[0]
    columns = "ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
    cursor = await endpoints.backend.connection.execute(
        f"select {columns} from {table} order by ev_id".encode()
    )
    assert await cursor.fetchall() == [
        ("order_placed", '{"order":"42"}', "e1", None, None, "e4"),
        ("Shop.OrderPlaced", '{"order_id":"42"}', None, None, None, None),
    ]


@in_all_modes_failing
async def test_an_attempt_that_fails_appends_nothing(endpoints: Endpoints) -> None:
    never_retried = endpoints.case.mode is rowbus.TransactionMode.NONE
    retries = rowbus.Recoverability(immediate=0 if never_retried else 2, delayed=0)
    sales = endpoints.make("Sales", recoverability=retries)
    attempts: list[str] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.append(LOG, message.order_id)
        attempts.append(message.order_id)
        if message.order_id == "bad" or len(attempts) == 1:
            raise ValueError(message.order_id)

    await processed(endpoints, sales, "good")
    good = await appended(endpoints.backend)
    await processed(endpoints, sales, "bad")

    assert good == ([] if never_retried else ["good"])
    assert await appended(endpoints.backend) == good
    assert await endpoints.backend.count(ERROR) == (2 if never_retried else 1)


@in_transaction_modes
async def test_events_of_one_handler_are_appended_in_their_order_beside_its_sends(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", batch_size=5, concurrency=1)
    await endpoints.backend.create_queue("Billing")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.append(LOG, f"{message.order_id} one")
        await context.send("Billing", message)
        await context.append(LOG, f"{message.order_id} two")

    await processed(endpoints, sales, *map(str, range(7)))

    assert await appended(endpoints.backend) == [f"{n} {each}" for n in range(7) for each in ("one", "two")]
    assert await endpoints.backend.count("Billing") == 7


async def test_events_messages_and_the_handlers_sql_commit_together(endpoints: Endpoints) -> None:
    """The default mode: one transaction, whose number the event and the business row share."""
    sales = endpoints.make("Sales")
    await endpoints.backend.execute("create table business (entry text, txid bigint default txid_current())")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute("insert into business values (%s)", [message.order_id])
        await context.append(LOG, message.order_id)

    await processed(endpoints, sales, "42")

    table = (await endpoints.backend.values("select queue_data_pfx from pgq.queue"))[0]
    txids = await endpoints.backend.values(f"select ev_txid from {table}")
    assert txids == await endpoints.backend.values("select txid from business")


@in_all_modes_failing
async def test_an_event_for_a_log_that_is_missing_fails_its_message_and_nothing_else(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.append(LOG if message.order_id == "good" else "nowhere", message.order_id)

    await processed(endpoints, sales, "bad", "good")

    assert await appended(endpoints.backend) == ["good"]
    (failed,) = await endpoints.backend.rows(ERROR)
    assert failed.body == b'{"order_id":"bad"}'
    assert failed.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.LogNotFoundError"
    assert "rowbus log create" in (failed.headers[Header.EXCEPTION_MESSAGE] or "")


async def test_data_that_cannot_be_stored_is_refused_where_it_is_appended(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales")
    raised: list[type[BaseException]] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        for bad in ("\0", object(), b"\xff"):
            with pytest.raises(MessageSerializationError) as caught:
                await context.append(LOG, bad)
            raised.append(caught.type)

    await processed(endpoints, sales, "42")

    assert len(raised) == 3


async def test_a_log_may_also_be_appended_to_at_once_for_the_events_number(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    numbers: list[int] = []

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        log = rowbus.AsyncLog(context.connection, LOG)
        numbers.append(await log.append(message.order_id))
        numbers.append(await log.append_many([message.order_id, message.order_id]))
        if message.order_id == "bad":
            raise ValueError

    @sales.handler
    def place_in_thread(message: PlaceOrder, context: rowbus.SyncContext) -> None:
        numbers.append(rowbus.Log(context.connection, LOG).append("in a thread"))

    await processed(endpoints, sales, "bad", "good")

    assert sorted(await appended(endpoints.backend)) == ["good", "good", "good", "in a thread"]


async def test_handlers_that_append_side_by_side_do_not_wait_for_each_other(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", concurrency=2)
    both = asyncio.Barrier(2)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await rowbus.AsyncLog(context.connection, LOG).append(message.order_id)
        async with asyncio.timeout(10):
            await both.wait()

    await processed(endpoints, sales, "1", "2")

    assert sorted(await appended(endpoints.backend)) == ["1", "2"]


# ------------------------------------------------------------------------------------------------------ in unit tests


async def test_run_handlers_shows_what_was_appended() -> None:
    sales = rowbus.Endpoint("Sales")

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.append(LOG, type="order_placed", data={"order": message.order_id})
        await context.send("Billing", message)
        if message.order_id == "bad":
            raise ValueError

    outcome = await run_handlers(sales, PlaceOrder("42"))
    assert outcome.events == (AppendedEvent(LOG, "order_placed", '{"order":"42"}'),)
    assert outcome.events[0].json() == {"order": "42"}
    assert len(outcome.sends) == 1

    failed = await run_handlers(sales, PlaceOrder("bad"))
    assert failed.events == ()
