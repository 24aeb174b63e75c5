"""Promises to handlers, whether their message came through PostgreSQL or through `rowbus.testing`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec
import pydantic
import pytest

from rowbus import Context, Endpoint, Mutator, SyncContext, command, message
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.messages.message_names import enclosed_types
from tests.testing.transports import Transport

pytestmark = pytest.mark.one_version


@command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@message("Shop.Receipt")
@dataclass
class Receipt:
    order_id: str


@command("Shop.ChargeCard", parents=("Shop.ICharge",))
class ChargeCard(msgspec.Struct):
    order_id: str
    amount: float = 0.0


@command("Shop.Audit")
class Audit(pydantic.BaseModel):
    what: str


ORDER = PlaceOrder("42")


class OutOfStockError(Exception):
    pass


# ------------------------------------------------------------------------------------------------------------- replies


async def test_a_reply_goes_to_where_the_sender_wants_it(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.reply(Receipt(order.order_id))

    result = await transport.handle(sales, ORDER, reply_to="Client")

    ((queue, headers, body),) = result.arrived
    assert queue == "Client"
    assert body == b'{"order_id":"42"}'
    assert headers[Header.MESSAGE_INTENT] == "Reply"
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.Receipt"
    assert result.error is None


async def test_a_reply_to_nobody_is_the_handlers_error(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        assert context.reply_to is None
        await context.reply(Receipt(order.order_id))

    result = await transport.handle(sales, ORDER, reply_to=None)

    assert result == ([], "rowbus.errors.HandlerError")


async def test_a_reply_is_addressed_to_the_saga_that_asked(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.reply(Receipt(order.order_id))
        await context.send("Billing", ChargeCard("42"))

    saga = {Header.ORIGINATING_SAGA_ID: "s-1", Header.ORIGINATING_SAGA_TYPE: "Shop.OrderSaga"}
    result = await transport.handle(sales, ORDER, headers=saga)

    sagas = {
        one.queue: (one.headers.get(Header.SAGA_ID), one.headers.get(Header.SAGA_TYPE))
        for one in result.arrived
    }
    assert sagas == {"Client": ("s-1", "Shop.OrderSaga"), "Billing": (None, None)}


# --------------------------------------------------------------------------------------------------- what leaves when


async def test_what_is_sent_leaves_when_the_handler_succeeds_in_its_order(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        for number in range(3):
            await context.send("Billing", ChargeCard(str(number)))

    result = await transport.handle(sales, ORDER)

    assert result.bodies("Billing") == [b'{"order_id":"%d","amount":0.0}' % number for number in range(3)]


async def test_what_is_sent_is_discarded_when_the_handler_fails(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("42"))
        await context.reply(Receipt("42"))
        raise OutOfStockError

    result = await transport.handle(sales, ORDER)

    assert result.arrived == []
    assert (result.error or "").endswith("OutOfStockError")


async def test_what_is_sent_immediately_is_kept_when_the_handler_fails(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("discarded"))
        await context.send("Billing", ChargeCard("kept"), immediate=True)
        raise OutOfStockError

    result = await transport.handle(sales, ORDER)

    assert result.bodies("Billing") == [b'{"order_id":"kept","amount":0.0}']
    assert (result.error or "").endswith("OutOfStockError")


async def test_what_is_sent_immediately_leaves_before_the_rest(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("2"))
        await context.send("Billing", ChargeCard("1"), immediate=True)

    result = await transport.handle(sales, ORDER)

    assert [body[13:14] for body in result.bodies("Billing")] == [b"1", b"2"]


async def test_of_equal_message_ids_to_one_queue_the_last_is_sent(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        for number in range(3):
            await context.send("Billing", ChargeCard(str(number)), headers={Header.MESSAGE_ID: "same"})
        await context.send("Client", ChargeCard("other queue"), headers={Header.MESSAGE_ID: "same"})

    result = await transport.handle(sales, ORDER)

    assert result.bodies("Billing") == [b'{"order_id":"2","amount":0.0}']
    assert len(result.bodies("Client")) == 1


async def test_a_second_handler_that_fails_discards_what_the_first_one_sent(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def first(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("42"))

    @sales.handler
    async def second(order: PlaceOrder) -> None:
        raise OutOfStockError

    result = await transport.handle(sales, ORDER)

    assert result.arrived == []
    assert (result.error or "").endswith("OutOfStockError")


async def test_all_handlers_of_a_message_handle_it_in_their_order(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def first(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("first"))

    @sales.handler
    def second(order: PlaceOrder, context: SyncContext) -> None:
        context.send("Billing", ChargeCard("second"))

    result = await transport.handle(sales, ORDER)

    assert [msgspec.json.decode(body)["order_id"] for body in result.bodies("Billing")] == ["first", "second"]


# ------------------------------------------------------------------------------------------------------------- threads


async def test_handlers_in_threads_send_reply_and_fail_alike(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    def place(order: PlaceOrder, context: SyncContext) -> None:
        context.reply(Receipt("42"))
        context.send("Billing", ChargeCard("42"))

    result = await transport.handle(sales, ORDER)

    assert sorted((one.queue, one.headers[Header.MESSAGE_INTENT]) for one in result.arrived) == [
        ("Billing", "Send"),
        ("Client", "Reply"),
    ]


async def test_handlers_in_threads_keep_only_what_they_sent_immediately_when_they_fail(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    def place(order: PlaceOrder, context: SyncContext) -> None:
        context.send("Billing", ChargeCard("discarded"))
        context.send("Billing", ChargeCard("kept"), immediate=True)
        raise OutOfStockError

    result = await transport.handle(sales, ORDER)

    assert result.bodies("Billing") == [b'{"order_id":"kept","amount":0.0}']
    assert (result.error or "").endswith("OutOfStockError")


# ------------------------------------------------------------------------------------------------------------- headers


async def test_what_a_handler_sends_has_all_its_headers(transport: Transport, sales: Endpoint) -> None:
    ids: list[str] = []

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        ids.extend([context.message_id, await context.send("Billing", ChargeCard("42"))])

    incoming = {
        Header.CONVERSATION_ID: "conversation",
        Header.CORRELATION_ID: "correlation",
        "traceparent": "00-1-2-01",
    }
    result = await transport.handle(sales, ORDER, headers=incoming)

    ((_, headers, _),) = result.arrived
    expected = {
        Header.MESSAGE_ID: ids[1],
        Header.MESSAGE_INTENT: "Send",
        Header.CONTENT_TYPE: "application/json",
        Header.ENCLOSED_MESSAGE_TYPES: enclosed_types(("Shop.ChargeCard", "Shop.ICharge")),
        Header.CONVERSATION_ID: "conversation",
        Header.CORRELATION_ID: "correlation",
        Header.RELATED_TO: ids[0],
        Header.REPLY_TO_ADDRESS: '"public"."Sales"',
        Header.ORIGINATING_ENDPOINT: "Sales",
        Header.TRACEPARENT: "00-1-2-01",
        Header.START_NEW_TRACE: "False",
    }
    assert {name: headers[name] for name in expected} == expected
    of_the_machine = {
        Header.ORIGINATING_MACHINE,
        Header.ORIGINATING_HOST_ID,
        Header.TIME_SENT,
        Header.VERSION,
    }
    assert set(headers) == {*expected, *of_the_machine}


async def test_a_handlers_own_headers_and_time_to_be_received_are_added(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send(
            "Billing", ChargeCard("42"), headers={"a": "b"}, time_to_be_received=timedelta(minutes=5)
        )

    result = await transport.handle(sales, ORDER)

    ((_, headers, _),) = result.arrived
    assert headers["a"] == "b"
    assert headers[Header.TIME_TO_BE_RECEIVED] == "00:05:00"


async def test_a_new_conversation_is_begun_on_request_only(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("42"), new_conversation=True)
        await context.send(
            "Billing", ChargeCard("42"), headers={Header.CONVERSATION_ID: "mine"}, immediate=True
        )

    result = await transport.handle(sales, ORDER)

    assert result == ([], "rowbus.errors.InvalidHeaderError")


async def test_the_new_conversation_names_the_one_it_left(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("42"), new_conversation=True)

    result = await transport.handle(sales, ORDER, headers={Header.CONVERSATION_ID: "old"})

    ((_, headers, _),) = result.arrived
    assert headers[Header.PREVIOUS_CONVERSATION_ID] == "old"
    assert headers[Header.CONVERSATION_ID] == headers[Header.MESSAGE_ID]


async def test_an_ambiguous_destination_is_the_handlers_error(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Shop.Billing", ChargeCard("42"))

    assert await transport.handle(sales, ORDER) == ([], "rowbus.errors.InvalidAddressError")


async def test_a_delay_beside_a_time_to_be_received_is_the_handlers_error(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        minutes = timedelta(minutes=5)
        await context.send("Billing", ChargeCard("42"), delay=minutes, time_to_be_received=minutes)

    assert await transport.handle(sales, ORDER) == ([], "rowbus.errors.InvalidHeaderError")


async def test_a_delayed_message_does_not_arrive_at_once(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", ChargeCard("42"), delay=timedelta(minutes=5))
        await context.send("Billing", ChargeCard("43"), delay=timedelta())

    assert (await transport.handle(sales, ORDER)).bodies("Billing") == [b'{"order_id":"43","amount":0.0}']


class Nameless(Mutator):
    """Has messages come without an id, which no sender of ours leaves out."""

    def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
        headers[Header.MESSAGE_ID] = None
        return body


async def test_a_message_without_an_id_gets_one_before_its_handlers_see_it(
    transport: Transport, sales: Endpoint
) -> None:
    seen: list[str] = []

    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        seen.extend([context.message_id, context.headers[Header.MESSAGE_ID] or ""])
        await context.reply(Receipt("42"))

    sales.use(Nameless())

    result = await transport.handle(sales, ORDER)

    assert seen[0] == seen[1] != ""
    assert result.arrived[0].headers[Header.RELATED_TO] == seen[0]


# -------------------------------------------------------------------------------------------------------------- events


async def test_an_event_goes_to_the_subscribers(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.publish({"order_id": order.order_id}, type=("Shop.OrderPlaced", "Shop.OrderEvent"))

    result = await transport.handle(sales, ORDER)

    assert result.bodies("subscribers") == [b'{"order_id":"42"}']
    headers = result.arrived[0].headers
    assert headers[Header.MESSAGE_INTENT] == "Publish"
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == enclosed_types(("Shop.OrderPlaced", "Shop.OrderEvent"))


async def test_a_def_handler_publishes_in_the_same_way(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    def place(order: PlaceOrder, context: SyncContext) -> None:
        context.publish({}, type="Shop.OrderPlaced")

    assert (await transport.handle(sales, ORDER)).bodies("subscribers") == [b"{}"]


async def test_events_of_a_handler_that_fails_do_not_leave_except_immediate_ones(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.publish({"immediate": True}, type="Shop.OrderPlaced", immediate=True)
        await context.publish({"immediate": False}, type="Shop.OrderPlaced")
        raise ValueError

    result = await transport.handle(sales, ORDER)

    assert result.error == "ValueError"
    assert result.bodies("subscribers") == [b'{"immediate":true}']


async def test_replies_go_to_whom_a_handler_names(transport: Transport, sales: Endpoint) -> None:
    @sales.handler
    async def place(order: PlaceOrder, context: Context) -> None:
        await context.send("Billing", {}, type="Shop.ChargeCard", reply_to="Client")

    result = await transport.handle(sales, ORDER)

    assert result.arrived[0].headers[Header.REPLY_TO_ADDRESS] == '"public"."Client"'


# -------------------------------------------------------------------------------------------------------------- bodies


async def test_each_handler_gets_the_message_as_its_own_kind_of_object(
    transport: Transport, sales: Endpoint
) -> None:
    seen: list[object] = []

    @sales.handler
    async def as_dataclass(order: PlaceOrder) -> None:
        seen.append(order)

    @sales.handler("Shop.PlaceOrder")
    async def as_dict(order: dict[str, Any]) -> None:
        seen.append(order)

    @sales.handler("Shop.PlaceOrder")
    async def as_bytes(order: bytes) -> None:
        seen.append(order)

    await transport.handle(sales, b'\xef\xbb\xbf{"order_id":"42"}', type="Shop.PlaceOrder")

    assert seen == [ORDER, {"order_id": "42"}, b'\xef\xbb\xbf{"order_id":"42"}']


@pytest.mark.parametrize("sent", [ChargeCard("42", 9.5), Audit(what="all")], ids=["struct", "pydantic"])
async def test_structs_and_pydantic_models_arrive_as_they_were_sent(
    transport: Transport, sales: Endpoint, sent: ChargeCard | Audit
) -> None:
    seen: list[object] = []

    @sales.handler
    async def charge(message: ChargeCard) -> None:
        seen.append(message)

    @sales.handler
    def audit(message: Audit) -> None:
        seen.append(message)

    await transport.handle(sales, sent)

    assert seen == [sent]


async def test_a_message_can_be_handled_as_its_parent(transport: Transport, sales: Endpoint) -> None:
    seen: list[object] = []

    @sales.handler("Shop.ICharge")
    async def note(message: dict[str, Any], context: Context) -> None:
        seen.append(parse_enclosed_types(context.headers[Header.ENCLOSED_MESSAGE_TYPES]))

    await transport.handle(sales, ChargeCard("42"))

    assert seen == [("Shop.ChargeCard", "Shop.ICharge")]


async def test_a_message_nobody_handles_is_an_unknown_type(transport: Transport, sales: Endpoint) -> None:
    assert await transport.handle(sales, ORDER) == ([], "rowbus.errors.UnknownMessageTypeError")


async def test_a_body_that_does_not_fit_is_a_deserialization_error(
    transport: Transport, sales: Endpoint
) -> None:
    @sales.handler
    async def place(order: PlaceOrder) -> None:
        raise AssertionError("it cannot be called")

    result = await transport.handle(sales, b"not JSON", type="Shop.PlaceOrder")

    assert result == ([], "rowbus.errors.MessageDeserializationError")


@pytest.mark.parametrize("headers", [{}, {Header.CONTROL_MESSAGE: "True"}], ids=["empty", "control"])
async def test_a_message_without_a_body_is_handled_by_doing_nothing(
    transport: Transport, sales: Endpoint, headers: dict[str, str]
) -> None:
    @sales.handler
    async def place(order: PlaceOrder) -> None:
        raise AssertionError("it cannot be called")

    assert await transport.handle(sales, b"", type="Shop.PlaceOrder", headers=headers) == ([], None)
