"""Sends of a log's handlers: with every option that handlers of messages have, in their transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

import rowbus
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message_names import enclosed_types
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.queues.postgresql import QueueTable
from tests.log.orders import QUICK, Orders

HOUR = timedelta(hours=1)
Contexts = rowbus.LogContext | rowbus.SyncLogContext
SENDING = ("Billing", {"order": "1"})


class Sent(NamedTuple):
    body: bytes
    headers: dict[str, str | None]


class Queues:
    """Billing, its delayed messages, and the table of subscriptions."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.billing = QueueTable(QueueAddress("public", "Billing"))
        self.routing = SubscriptionRouting(QueueAddress("public", "SubscriptionRouting"))
        delayed = DelayedTable(QueueAddress("public", "Billing.Delayed"))
        for table in (self.billing, delayed, self.routing):
            for statement in table.create():
                orders.connection.execute(statement.query.text, statement.parameters)

    def subscribe(self, topic: str) -> None:
        self._orders.connection.execute(
            'insert into "SubscriptionRouting" values (%s, %s, %s)', ["Billing", '"public"."Billing"', topic]
        )

    def sent(self) -> list[Sent]:
        rows = self._orders.all('select body, headers from "Billing" order by seq')
        return [Sent(bytes(body), decode_headers(headers)) for body, headers in rows]

    def delayed(self) -> list[Sent]:
        rows = self._orders.all('select body, headers from "Billing.Delayed" order by due')
        return [Sent(bytes(body), decode_headers(headers)) for body, headers in rows]


@pytest.fixture
def queues(orders: Orders) -> Queues:
    return Queues(orders)


Verb = Callable[[Contexts], Any]


async def handled(orders: Orders, verb: Verb, *, sync: bool, failing: bool = False) -> None:
    """Have a handler of one event call a verb; a failing one raises then, at its only attempt."""
    log = orders.log()

    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        ids.append(await verb(context))
        if failing:
            raise ValueError

    def one_in_a_thread(event: rowbus.Event, context: rowbus.SyncLogContext) -> None:
        ids.append(verb(context))
        if failing:
            raise ValueError

    ids: list[str] = []
    log.consumer("one", settings=QUICK)(one_in_a_thread if sync else one)
    async with log:
        orders.deliver("event")
        await orders.finished()
    assert ids
    assert all(ids)


in_both_ways = pytest.mark.parametrize("sync", [False, True], ids=["async", "def"])


@in_both_ways
async def test_headers_reply_to_and_time_to_be_received(
    orders: Orders, queues: Queues, *, sync: bool
) -> None:
    def send(context: Contexts) -> Any:  # noqa: ANN401 - an id, perhaps to be awaited
        return context.send(
            *SENDING,
            type="Charge",
            headers={"Tenant": "blue"},
            time_to_be_received=HOUR,
            reply_to="Web",
            new_conversation=True,
        )

    await handled(orders, send, sync=sync)

    ((body, headers),) = queues.sent()
    assert body == b'{"order":"1"}'
    assert headers["Tenant"] == "blue"
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == "Charge"
    assert headers[Header.REPLY_TO_ADDRESS] == '"public"."Web"'
    assert headers[Header.TIME_TO_BE_RECEIVED] == "01:00:00"
    assert headers[Header.CONVERSATION_ID] == headers[Header.MESSAGE_ID]


@in_both_ways
@pytest.mark.parametrize(
    "later",
    [lambda: {"delay": HOUR}, lambda: {"deliver_at": datetime.now(UTC) + HOUR}],
    ids=["delay", "deliver_at"],
)
async def test_a_delayed_message_waits_in_the_table_of_its_destination(
    orders: Orders, queues: Queues, later: Callable[[], dict[str, Any]], *, sync: bool
) -> None:
    await handled(orders, lambda context: context.send(*SENDING, type="Charge", **later()), sync=sync)

    assert queues.sent() == []
    assert [one.body for one in queues.delayed()] == [b'{"order":"1"}']
    ((due,),) = orders.all("""select due - now() > interval '55 minutes' from "Billing.Delayed" """)
    assert due


@in_both_ways
async def test_what_is_sent_or_published_at_once_stays_when_the_handler_fails_and_the_rest_does_not(
    orders: Orders, queues: Queues, *, sync: bool
) -> None:
    queues.subscribe("OrderPlaced")

    def both(context: Contexts) -> Any:  # noqa: ANN401 - as above
        if isinstance(context, rowbus.SyncLogContext):
            context.send(*SENDING, type="Charge")
            context.publish({}, type="OrderPlaced")
            context.publish({"now": True}, type="OrderPlaced", immediate=True)
            return context.send("Billing", {"now": True}, type="Charge", immediate=True)
        return both_async(context)

    async def both_async(context: rowbus.LogContext) -> str:
        await context.send(*SENDING, type="Charge")
        await context.publish({}, type="OrderPlaced")
        await context.publish({"now": True}, type="OrderPlaced", immediate=True)
        return await context.send("Billing", {"now": True}, type="Charge", immediate=True)

    await handled(orders, both, sync=sync, failing=True)

    assert {one.body for one in queues.sent()} == {b'{"now":true}'}
    assert [one.headers[Header.MESSAGE_INTENT] for one in queues.sent()][:2] == ["Publish", "Send"]


@in_both_ways
async def test_an_event_is_published_to_its_subscribers_with_the_position(
    orders: Orders, queues: Queues, *, sync: bool
) -> None:
    queues.subscribe("OrderEvent")

    def publish(context: Contexts) -> Any:  # noqa: ANN401 - as above
        return context.publish({"order": "1"}, type=("OrderPlaced", "OrderEvent"), headers={"Tenant": "blue"})

    await handled(orders, publish, sync=sync)

    ((body, headers),) = queues.sent()
    assert body == b'{"order":"1"}'
    assert headers["Tenant"] == "blue"
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == enclosed_types(("OrderPlaced", "OrderEvent"))


async def test_several_threads_send_at_once_from_one_consumer(orders: Orders, queues: Queues) -> None:
    log = orders.log()

    @log.consumer("one", key="data", settings=rowbus.ConsumerSettings(poll_delay=QUICK.poll_delay, workers=3))
    def one(event: rowbus.Event, context: rowbus.SyncLogContext) -> None:
        context.send("Billing", {"order": event.data}, type="Charge", immediate=True)

    async with log:
        orders.deliver(*map(str, range(9)))
        await orders.finished()
    assert len(queues.sent()) == 9
