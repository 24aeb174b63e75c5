"""Requests: the answer comes back to who asked, whatever it is; what is not answered says so; nothing is left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, IntEnum

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.transport.requests.client import TIMEOUT
from tests.conformance.backend import Backend
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import LIMIT, eventually, skip, within
from tests.transport.requests.conftest import Clients

BILLING = "Billing"


@rowbus.command("Shop.Messages.Quote")
@dataclass
class Quote:
    sku: str


@rowbus.message("Shop.Messages.Price")
@dataclass
class Price:
    sku: str
    amount: int


class Verdict(IntEnum):
    NO = 0
    YES = 1


class Colour(Enum):
    RED = 1
    BLUE = 2


def answering(endpoints: Endpoints, answer: object) -> rowbus.Endpoint:
    """Return an endpoint that answers each quote so."""
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        await context.reply(answer)

    return billing


@pytest.mark.parametrize(
    "answer, kind",
    [
        (Price("A1", 5), Price),
        (7, int),
        (-1, int),
        (Verdict.YES, Verdict),
        (Colour.BLUE, Colour),
        (rowbus.ReturnCode(2), Colour),
    ],
    ids=str,
)
async def test_a_request_returns_what_its_handler_replies(
    endpoints: Endpoints, clients: Clients, answer: object, kind: type[object]
) -> None:
    async with answering(endpoints, answer), clients.make() as client:
        got = await client.request(BILLING, Quote("A1"), kind, timeout=LIMIT)

    assert type(got) is kind
    assert got == (Colour.BLUE if isinstance(answer, rowbus.ReturnCode) else answer)


async def test_answers_come_to_the_queue_that_is_named_which_stays(
    endpoints: Endpoints, clients: Clients
) -> None:
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)
    asked_by: list[str | None] = []

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        asked_by.append(context.headers.get(Header.REPLY_TO_ADDRESS))
        await context.reply(Price(message.sku, 5))

    async with billing:
        for _life in range(2):  # the second one takes over the queue of the first
            async with clients.make(answer_queue="web_answers") as client:
                assert await client.request(BILLING, Quote("A1"), Price, timeout=LIMIT) == Price("A1", 5)

    assert asked_by == [endpoints.queue("web_answers").canonical] * 2
    assert await clients.queues() == []
    assert "web_answers" in await clients.backend.tables()
    with pytest.raises(rowbus.ConfigurationError, match="ServiceControl"):
        clients.make(answer_queue="error")


async def test_a_def_handler_answers_with_a_number_too(endpoints: Endpoints, clients: Clients) -> None:
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)

    @billing.handler
    def quote(message: Quote, context: rowbus.SyncContext) -> None:
        context.reply(Verdict.YES)

    async with billing, clients.make() as client:
        assert await client.request(BILLING, Quote("A1"), Verdict, timeout=LIMIT) is Verdict.YES


async def test_each_of_many_requests_at_once_gets_its_own_answer(
    endpoints: Endpoints, clients: Clients
) -> None:
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        await context.reply(Price(message.sku, int(message.sku)))

    async with billing, clients.make() as client:
        asked = [client.request(BILLING, Quote(str(number)), Price, timeout=LIMIT) for number in range(100)]
        prices = await within(asyncio.gather(*asked))

    assert [price.amount for price in prices] == list(range(100))


@pytest.mark.parametrize("header", [Header.MESSAGE_ID, Header.CORRELATION_ID])
async def test_a_request_with_an_id_of_its_own_is_answered_once_at_a_time(
    endpoints: Endpoints, clients: Clients, header: str
) -> None:
    own = {header: "order 42"}
    async with answering(endpoints, 7), clients.make() as client:
        assert await client.request(BILLING, Quote("A1"), int, headers=own, timeout=LIMIT) == 7
        first = asyncio.create_task(client.request(BILLING, Quote("A1"), int, headers=own, timeout=LIMIT))
        await asyncio.sleep(0)
        with pytest.raises(rowbus.InvalidHeaderError, match="order 42 waits already"):
            await client.request(BILLING, Quote("A1"), int, headers=own)
        assert await within(first) == 7


async def test_a_request_whose_answer_would_go_elsewhere_is_refused(
    endpoints: Endpoints, clients: Clients
) -> None:
    async with clients.make() as client:
        with pytest.raises(rowbus.InvalidHeaderError, match="cannot name another queue for its answer"):
            await client.request(BILLING, Quote("A1"), int, headers={Header.REPLY_TO_ADDRESS: "Elsewhere"})


async def test_an_answer_of_another_kind_is_an_error_that_names_both(
    endpoints: Endpoints, clients: Clients
) -> None:
    async with answering(endpoints, 7), clients.make() as client:
        with pytest.raises(
            rowbus.MessageDeserializationError, match=r"the number 7, not Shop\.Messages\.Price"
        ):
            await client.request(BILLING, Quote("A1"), Price, timeout=LIMIT)
        with pytest.raises(rowbus.MessageDeserializationError, match=r"the number 7, which is no .*Colour"):
            await client.request(BILLING, Quote("A1"), Colour, timeout=LIMIT)


async def test_a_message_in_place_of_a_number_is_an_error_that_names_both(
    endpoints: Endpoints, clients: Clients
) -> None:
    async with answering(endpoints, Price("A1", 5)), clients.make() as client:
        with pytest.raises(rowbus.MessageDeserializationError, match=r"Shop\.Messages\.Price, not int"):
            await client.request(BILLING, Quote("A1"), int, timeout=LIMIT)
        with pytest.raises(rowbus.MessageDeserializationError, match=r"Shop\.Messages\.Price, not .*Quote"):
            await client.request(BILLING, Quote("A1"), Quote, timeout=LIMIT)


async def unanswered(
    client: rowbus.AsyncRequestClient, is_sent: Callable[[], bool] | Callable[[], Awaitable[bool]]
) -> rowbus.NoAnswerError:
    """Ask for what nobody answers; the time for the answer passes once the request is sent."""
    asking = asyncio.create_task(client.request(BILLING, Quote("A1"), int, timeout=LIMIT))
    await eventually(is_sent)
    skip(LIMIT)
    with pytest.raises(rowbus.NoAnswerError) as caught:
        await asking
    return caught.value


async def test_a_request_that_is_not_answered_in_time_says_where_to_look(
    backend: Backend, clients: Clients
) -> None:
    await backend.create_queue(BILLING)

    async def is_sent() -> bool:
        return await backend.count(BILLING) == 1

    async with clients.make() as client:
        error = await unanswered(client, is_sent)

    assert isinstance(error, TimeoutError)
    assert "has not answered Shop.Messages.Quote" in str(error)
    (row,) = await backend.rows(BILLING)
    assert error.message_id == row.headers[Header.MESSAGE_ID]
    assert error.destination == str(backend.queue(BILLING))


async def test_a_late_answer_is_dropped_with_one_line(
    endpoints: Endpoints, clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rowbus.requests")
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)
    begun, given_up = asyncio.Event(), asyncio.Event()

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        begun.set()
        await given_up.wait()
        await context.reply(7)

    async with billing, clients.make() as client:
        error = await unanswered(client, begun.is_set)
        given_up.set()
        await eventually(lambda: "nothing waits any more" in caplog.text)
        (queue,) = await clients.queues()
        await endpoints.backend.create_queue(ERROR)

    lines = [record.getMessage() for record in caplog.records if "nothing waits" in record.getMessage()]
    assert len(lines) == 1
    assert error.message_id in lines[0]
    assert await endpoints.backend.count(ERROR) == 0
    assert queue.startswith("web.answers-")


async def test_a_handler_cannot_ask_and_is_told_why(endpoints: Endpoints, clients: Clients) -> None:
    client = clients.make()
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)
    told: asyncio.Queue[str] = asyncio.Queue()

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        with pytest.raises(rowbus.HandlerError) as caught:
            await client.request(BILLING, Quote("B2"), Price)
        await told.put(str(caught.value))

    async with billing, client:
        await endpoints.backend.client().send(BILLING, Quote("A1"))
        text = await within(told.get())

    assert "its transaction would stay open" in text
    assert "context.send" in text


async def test_the_queue_of_the_answers_goes_with_its_client(clients: Clients) -> None:
    client = clients.make()
    assert await clients.queues() == []

    await client.start()
    (queue,) = await clients.queues()
    await client.stop()

    assert queue.startswith("web.answers-")
    assert await clients.queues() == []


async def test_a_request_starts_a_client_that_was_not_started(endpoints: Endpoints, clients: Clients) -> None:
    client = clients.make()
    async with answering(endpoints, 7):
        asked = (client.request(BILLING, Quote("A1"), int, timeout=LIMIT) for _ in range(3))
        assert await asyncio.gather(*asked) == [7, 7, 7]
        async with client:
            async with client:
                early = asyncio.ensure_future(client.request(BILLING, Quote("A1"), int, timeout=LIMIT))
            assert await early == 7
        await client.start()
        assert len(await clients.queues()) == 1
        asking = client.request(BILLING, Quote("A1"), int, timeout=LIMIT)
        with pytest.raises(rowbus.ConfigurationError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, asking)


async def test_a_stopped_client_asks_nothing(backend: Backend, clients: Clients) -> None:
    await backend.create_queue(BILLING)
    client = clients.make()
    await client.stop()
    with pytest.raises(rowbus.ConfigurationError, match="is stopped"):
        await client.request(BILLING, Quote("A1"), Price)


async def test_what_waits_when_the_client_stops_is_told(backend: Backend, clients: Clients) -> None:
    await backend.create_queue(BILLING)
    client = clients.make()
    await client.start()
    waiting = asyncio.ensure_future(client.request(BILLING, Quote("A1"), Price, timeout=TIMEOUT))

    async def asked() -> bool:
        return await backend.count(BILLING) == 1

    await eventually(asked)
    await client.stop()
    with pytest.raises(rowbus.NoAnswerError, match="stopped while it waited"):
        await within(waiting)


async def test_a_request_for_a_queue_that_is_missing_fails_at_once(clients: Clients) -> None:
    async with clients.make() as client:
        with pytest.raises(rowbus.QueueNotFoundError):
            await client.request("Nowhere", Quote("A1"), Price, timeout=LIMIT)


async def test_requests_are_answered_after_the_clients_sessions_broke(
    endpoints: Endpoints, clients: Clients
) -> None:
    async with answering(endpoints, 7), clients.make() as client:
        assert await client.request(BILLING, Quote("A1"), int, timeout=LIMIT) == 7
        await endpoints.backend.terminate_sessions()

        async def answered() -> bool:
            try:
                return await client.request(BILLING, Quote("A1"), int, timeout=5) == 7
            except (rowbus.StorageError, rowbus.NoAnswerError):
                return False

        await eventually(answered)


@pytest.mark.parametrize("is_known", [False, True])
async def test_the_answer_for_a_client_that_is_gone_is_dropped_and_the_handler_succeeds(
    endpoints: Endpoints, clients: Clients, caplog: pytest.LogCaptureFixture, *, is_known: bool
) -> None:
    caplog.set_level(logging.INFO, "rowbus.endpoint")
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)
    begun, gone, handled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        if message.sku == "A1":
            begun.set()
            await gone.wait()
        await context.reply(Price("A1", 5))
        if message.sku == "A1":
            handled.set()

    async with billing:
        async with clients.make() as client:
            if is_known:
                await client.request(BILLING, Quote("A2"), Price)
            asking = asyncio.ensure_future(client.request(BILLING, Quote("A1"), Price))
            await within(begun.wait())
            asking.cancel()
        gone.set()
        await within(handled.wait())

        async def consumed() -> bool:
            return await endpoints.backend.count(BILLING) == 0

        await eventually(consumed)
    assert await endpoints.backend.count(ERROR) == 0
    assert caplog.text.count("The answer of message") == 1


async def test_a_number_that_is_no_int32_is_refused(endpoints: Endpoints, clients: Clients) -> None:
    billing = endpoints.make(BILLING, recoverability=NO_RETRIES)
    told: asyncio.Queue[str] = asyncio.Queue()

    @billing.handler
    async def quote(message: Quote, context: rowbus.Context) -> None:
        with pytest.raises(rowbus.MessageSerializationError) as caught:
            await context.reply(2**31)
        await told.put(str(caught.value))
        await context.reply(2**31 - 1)

    async with billing, clients.make() as client:
        assert await client.request(BILLING, Quote("A1"), int, timeout=LIMIT) == 2**31 - 1
        assert "no Int32" in await within(told.get())


async def test_requests_and_answers_go_through_the_clients_mutators(
    endpoints: Endpoints, clients: Clients
) -> None:
    class Reversed(rowbus.Mutator):
        def outgoing(self, headers: dict[str, str | None], body: bytes) -> bytes:
            return body[::-1]

        def incoming(self, headers: dict[str, str | None], body: bytes) -> bytes:
            return body[::-1]

    billing = answering(endpoints, Price("A1", 5))
    billing.use(Reversed())
    async with billing, clients.make(mutators=[Reversed()]) as client:
        assert await client.request(BILLING, Quote("A1"), Price, timeout=LIMIT) == Price("A1", 5)
