"""Rows as .NET writes them, handled by an endpoint; and our rows, judged by what .NET asks of them.

Source: docs/wire-format.md#headers.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.backend import Backend, StoredRow
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.golden import Golden
from tests.conformance.transport import eventually, within
from tests.fixtures.places import GOLDEN

WITHOUT_HANDLING = {"control_message_subscribe", "no_headers"}
WITHOUT_TYPE = {"empty_headers_text", "xml_body"}
HANDLED = sorted({path.stem for path in GOLDEN.glob("*.json")} - WITHOUT_HANDLING - WITHOUT_TYPE)

SERVICE_CONTROL = "Particular.ServiceControl"


class Handled(NamedTuple):
    """Arguments that a handler was given."""

    message: dict[str, Any]
    context: rowbus.Context


class Sales:
    """The endpoint that the golden rows are for; its handlers take the types that .NET names in them."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.endpoint = endpoints.make(
            "Sales", recoverability=NO_RETRIES, allowed_destinations=rowbus.AllowedDestinations.ANY_QUEUE
        )
        self.backend = endpoints.backend
        self.handled: asyncio.Queue[Handled] = asyncio.Queue()

        @self.endpoint.handler("Shop.Messages.PlaceOrder", "Shop.Messages.IOrderEvent")
        async def handle(message: dict[str, Any], context: rowbus.Context) -> None:
            await self.handled.put(Handled(message, context))

    async def receives(self, golden: Golden) -> str:
        return await self.backend.insert(self.endpoint.address, golden.headers_text, golden.body)

    async def wait_until_done(self) -> None:
        async def done() -> bool:
            return await self.backend.count(self.endpoint.address) == 0

        await eventually(done)


@pytest.fixture
async def sales(endpoints: Endpoints) -> AsyncIterator[Sales]:
    sales = Sales(endpoints)
    await endpoints.backend.create_queue(SERVICE_CONTROL)  # where a row that was retried is acknowledged
    async with sales.endpoint:
        yield sales


@pytest.mark.parametrize("name", HANDLED)
async def test_a_row_as_dotnet_writes_it_is_handled(sales: Sales, name: str) -> None:
    golden = Golden.read(name, sales.backend)

    await sales.receives(golden)

    message, context = await within(sales.handled.get())
    await sales.wait_until_done()
    expected = dict(golden.expected_headers)
    expected.pop(Header.FORWARD_DESTINATION, None)  # the transport's own, and nobody else's business
    assert context.headers == expected
    assert context.body == golden.body
    assert message == json.loads(golden.body.decode("utf-8-sig"))
    assert set(message) <= {"OrderId", "Total", "Customer"}
    assert context.message_id == expected[Header.MESSAGE_ID]
    assert await sales.backend.count(ERROR) == 0


@pytest.mark.parametrize("name", sorted(WITHOUT_HANDLING))
async def test_a_row_without_anything_to_handle_is_consumed(sales: Sales, name: str) -> None:
    await sales.receives(Golden.read(name, sales.backend))

    await sales.wait_until_done()
    assert sales.handled.empty()
    assert await sales.backend.count(ERROR) == 0


@pytest.mark.parametrize("name", sorted(WITHOUT_TYPE))
async def test_a_row_that_does_not_say_what_it_is_goes_to_the_error_queue_with_the_reason(
    sales: Sales, name: str
) -> None:
    golden = Golden.read(name, sales.backend)

    row_id = await sales.receives(golden)

    await sales.wait_until_done()
    (row,) = await sales.backend.rows(ERROR)
    assert row.body == golden.body
    assert row.headers.items() >= golden.expected_headers.items()
    assert row.headers[Header.MESSAGE_ID] == golden.expected_headers.get(Header.MESSAGE_ID, row_id)
    assert row.headers[Header.FAILED_QUEUE] == sales.endpoint.address.canonical
    assert row.headers[Header.EXCEPTION_TYPE] == "rowbus.errors.UnknownMessageTypeError"
    assert "does not say what it is" in str(row.headers[Header.EXCEPTION_MESSAGE])
    assert "Shop.Messages.PlaceOrder" in str(row.headers[Header.EXCEPTION_MESSAGE])


@pytest.mark.only("PostgreSQL", reason="the row is PostgreSQL's; SQL Server's addresses are quoted otherwise")
async def test_a_reply_to_dotnet_goes_to_the_quoted_address_it_gave(sales: Sales) -> None:
    await sales.backend.execute('create schema "my ""own"" schema"')
    address = rowbus.QueueAddress('my "own" schema', 'Shop.Żółw / "1"')
    await sales.backend.create_queue(address)

    @sales.endpoint.handler("Shop.Messages.PlaceOrder")
    async def answer(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(OrderAccepted(message["OrderId"]))

    await sales.receives(Golden.read("quoted_address", sales.backend))

    await sales.wait_until_done()
    assert [row.body for row in await sales.backend.rows(address)] == [b'{"order_id":"52"}']


async def test_a_message_that_failed_again_after_servicecontrol_sent_it_back_can_be_sent_back_again(
    endpoints: Endpoints,
) -> None:
    sales = Sales(endpoints)

    @sales.endpoint.handler("Shop.Messages.PlaceOrder")
    async def fail(message: dict[str, Any]) -> None:
        raise ValueError("again")

    golden = Golden.read("servicecontrol_retry", endpoints.backend)
    async with sales.endpoint:
        await sales.receives(golden)
        await sales.wait_until_done()
    (row,) = await sales.backend.rows(ERROR)
    assert row.headers.items() >= golden.expected_headers.items()
    assert row.headers[Header.FAILED_QUEUE] == sales.endpoint.address.canonical


# --- our rows

COMPACT = re.compile(r"\{(\"([^\"\\]|\\.)+\":\"([^\"\\]|\\.)*\",?)+\}")
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{6} Z")
CANONICAL = {
    "PostgreSQL": re.compile(r'"([^"]|"")+"\."([^"]|"")+"'),
    "SQL Server": re.compile(r"[^@]+@\[([^\]]|\]\])+\]@\[([^\]]|\]\])+\]"),
}
OF_A_PYTHON_ROW = {
    "NServiceBus.MessageId",
    "NServiceBus.EnclosedMessageTypes",
    "NServiceBus.ContentType",
    "NServiceBus.MessageIntent",
    "NServiceBus.TimeSent",
}
OF_AN_ENDPOINT = {
    *OF_A_PYTHON_ROW,
    "NServiceBus.ReplyToAddress",
    "NServiceBus.OriginatingEndpoint",
    "NServiceBus.OriginatingMachine",
    "$.diagnostics.originating.hostid",
    "NServiceBus.ConversationId",
    "NServiceBus.CorrelationId",
    "NServiceBus.Version",
}
OF_A_HANDLER = {*OF_AN_ENDPOINT, "NServiceBus.RelatedTo"}
OF_SERVICECONTROL = {
    "NServiceBus.MessageId",
    "NServiceBus.FailedQ",
    "NServiceBus.TimeOfFailure",
    "NServiceBus.ExceptionInfo.ExceptionType",
    "NServiceBus.ExceptionInfo.Message",
    "NServiceBus.ExceptionInfo.StackTrace",
    "NServiceBus.ProcessingMachine",
    "NServiceBus.ProcessingEndpoint",
    "$.diagnostics.hostid",
    "$.diagnostics.hostdisplayname",
}
ORDER = PlaceOrder('Żółw / "1" 🚀')
NOTE = {"Note": 'Żółw / "1" 🚀 \0\x1f\u2028'}
Send = Callable[[Endpoints, rowbus.Endpoint], Awaitable[object]]


async def client_send(endpoints: Endpoints, _web: rowbus.Endpoint) -> None:
    await endpoints.backend.client().send("Billing", ORDER, headers=NOTE)


async def client_send_many(endpoints: Endpoints, _web: rowbus.Endpoint) -> None:
    await endpoints.backend.client().send_many("Billing", [ORDER], headers=NOTE)


async def endpoint_send(_endpoints: Endpoints, web: rowbus.Endpoint) -> None:
    await web.send("Billing", ORDER, headers=NOTE)


async def context_send(_endpoints: Endpoints, web: rowbus.Endpoint) -> None:
    await web.send("Web", PlaceOrder("send"))


async def context_send_immediately(_endpoints: Endpoints, web: rowbus.Endpoint) -> None:
    await web.send("Web", PlaceOrder("immediate"))


async def context_reply(endpoints: Endpoints, _web: rowbus.Endpoint) -> None:
    client = endpoints.backend.client(reply_to="Billing")
    await client.send("Web", PlaceOrder("reply"))


async def failure(endpoints: Endpoints, _web: rowbus.Endpoint) -> None:
    client = endpoints.backend.client(reply_to="Billing")
    await client.send("Web", PlaceOrder("fail"), headers=NOTE)


def make_web(endpoints: Endpoints) -> rowbus.Endpoint:
    web = endpoints.make("Web", error_queue="Billing", recoverability=NO_RETRIES)

    @web.handler
    async def handle(message: PlaceOrder, context: rowbus.Context) -> None:
        match message.order_id:
            case "fail":
                raise ValueError("Żółw 🚀")
            case "reply":
                await context.reply(ORDER, type="Shop.Messages.PlaceOrder", headers=NOTE)
            case kind:
                await context.send("Billing", ORDER, headers=NOTE, immediate=kind == "immediate")

    return web


async def row_from(send: Send, endpoints: Endpoints) -> StoredRow:
    await endpoints.backend.create_queue("Billing")
    async with make_web(endpoints) as web:
        await send(endpoints, web)

        async def sent() -> bool:
            return await endpoints.backend.count("Billing") == 1

        await eventually(sent)
    (row,) = await endpoints.backend.rows("Billing")
    return row


@pytest.mark.parametrize(
    "send, required",
    [
        (client_send, OF_A_PYTHON_ROW),
        (client_send_many, OF_A_PYTHON_ROW),
        (endpoint_send, OF_AN_ENDPOINT),
        (context_send, OF_A_HANDLER),
        (context_send_immediately, OF_A_HANDLER),
        (context_reply, OF_A_HANDLER),
        (failure, {*OF_A_PYTHON_ROW, *OF_SERVICECONTROL}),
    ],
)
async def test_our_rows_are_what_dotnet_asks_for(
    endpoints: Endpoints, send: Send, required: set[str]
) -> None:
    row = await row_from(send, endpoints)
    headers = row.headers

    assert row.headers_text.isascii()
    assert COMPACT.fullmatch(row.headers_text), row.headers_text
    assert required <= set(headers)
    assert all(headers[name] for name in required)
    assert str(uuid.UUID(headers[Header.MESSAGE_ID])) == headers[Header.MESSAGE_ID]
    assert row.id != headers[Header.MESSAGE_ID]
    assert row.expires_in is None
    assert headers[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.Messages.PlaceOrder"
    assert headers[Header.CONTENT_TYPE] == "application/json"
    assert headers[Header.MESSAGE_INTENT] == ("Reply" if send is context_reply else "Send")
    assert row.body is not None
    assert json.loads(row.body)["order_id"] in {ORDER.order_id, "fail"}
    for name in {Header.TIME_SENT, Header.TIME_OF_FAILURE} & set(headers):
        assert TIMESTAMP.fullmatch(str(headers[name]))
    for name in {Header.REPLY_TO_ADDRESS, Header.FAILED_QUEUE} & set(headers):
        assert CANONICAL[endpoints.backend.name].fullmatch(str(headers[name]))
    for name in {"$.diagnostics.originating.hostid", "$.diagnostics.hostid"} & set(headers):
        assert re.fullmatch("[0-9a-f]{32}", str(headers[name]))
    note = (
        NOTE["Note"].replace("\0", "\\x00") if send is failure else NOTE["Note"]
    )  # ServiceControl's store has no NUL
    assert headers["Note"] == note


@pytest.mark.parametrize("many", [False, True], ids=["send", "send_many"])
async def test_an_empty_body_is_never_null_and_a_time_to_be_received_is_the_databases(
    backend: Backend, *, many: bool
) -> None:
    await backend.create_queue("Billing")
    client = backend.client()
    if backend.name == "PostgreSQL":  # SQL Server's sessions have no time zone
        await backend.execute("set timezone to 'Asia/Tokyo'")

    lasting = timedelta(days=40)  # longer than the 32-bit milliseconds of the original
    if many:
        await client.send_many("Billing", [b""], type="Shop.Messages.Ping", time_to_be_received=lasting)
    else:
        await client.send("Billing", b"", type="Shop.Messages.Ping", time_to_be_received=lasting)

    (row,) = await backend.rows("Billing")
    assert row.body == b""
    assert row.expires_in == pytest.approx(lasting.total_seconds(), abs=20)
    assert row.headers[Header.TIME_TO_BE_RECEIVED] == "40.00:00:00"
