"""Control messages: answers of .NET's callbacks, sessions of .NET that are put back, and what no handler gets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import rowbus
from rowbus.endpoint.steps.control_messages import PUT_BACK, pause_before
from rowbus.messages.headers import Header, encode_headers, is_control, is_of_a_session
from rowbus.messages.message_types import contract_of
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints
from tests.conformance.transport import eventually, within
from tests.fixtures.dotnet_rows import rows
from tests.fixtures.every import every
from tests.fixtures.shop_types import Colour

SESSION = {
    Header.MESSAGE_ID: "59f1ee8f-7c39-4a66-8e30-000000000001",
    Header.CONTROL_MESSAGE: "True",
    "NServiceBus.TransactionalSession.RemainingCommitDuration": "00:00:15",
    "NServiceBus.TransactionalSession.CommitDelayIncrement": "00:00:02",
    "NServiceBus.TransactionalSession.CommitDelayAttempt": "1",
}


@every("text", ["True", "true", "TRUE"])
def test_any_spelling_of_true_makes_a_control_message(text: str) -> None:
    assert is_control({Header.CONTROL_MESSAGE: text})


@every("text", ["False", "", None, "1"])
def test_another_value_makes_none(text: str | None) -> None:
    assert not is_control({Header.CONTROL_MESSAGE: text})


def test_only_control_messages_belong_to_sessions() -> None:
    assert is_of_a_session(SESSION)
    assert not is_of_a_session({**SESSION, Header.CONTROL_MESSAGE: None})


def test_a_message_waits_longer_each_time_it_is_put_back_up_to_a_minute() -> None:
    assert [pause_before(times) for times in (0, 1, 2, 3, 7, 1000)] == [0, 1, 2, 4, 60, 60]


class Answered:
    """The endpoint Web, which takes answers, beside a queue from which they come."""

    def __init__(self, endpoints: Endpoints) -> None:
        self.backend = endpoints.backend
        self.endpoint = endpoints.make("Web", recoverability=NO_RETRIES)
        self.answers: asyncio.Queue[tuple[int, str | None]] = asyncio.Queue()

        @self.endpoint.handler
        async def answered(answer: rowbus.ReturnCode, context: rowbus.Context) -> None:
            await self.answers.put((answer.code, context.headers[Header.CORRELATION_ID]))


def answers_of_dotnet() -> list[dict[str, str | None]]:
    found = [row.headers for row in rows("callbacks") if row.table == "Web.web01"]
    return [headers for headers in found if headers and headers.get(Header.CONTROL_MESSAGE)]


async def test_an_int_or_enum_answer_of_dotnet_is_handled_as_a_return_code(endpoints: Endpoints) -> None:
    web = Answered(endpoints)
    theirs = answers_of_dotnet()

    async with web.endpoint:
        for headers in theirs:
            await web.backend.insert(web.endpoint.address, encode_headers(headers), b"")
        found = [await within(web.answers.get()) for _ in theirs]

    expected = {(42, theirs[0][Header.CORRELATION_ID]), (2, theirs[1][Header.CORRELATION_ID])}
    assert set(found) == expected
    assert await web.backend.count(ERROR) == 0


async def test_an_answer_that_no_handler_takes_is_consumed_and_logged(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    web = endpoints.make("Web", recoverability=NO_RETRIES)
    (headers, _) = answers_of_dotnet()

    async with web:
        await endpoints.backend.insert(web.address, encode_headers(headers), b"")

        async def consumed() -> bool:
            return await endpoints.backend.count("Web") == 0

        await eventually(consumed)

    assert "with the number 42" in caplog.text
    assert await endpoints.backend.count(ERROR) == 0


async def test_a_return_code_answers_as_dotnet_answers(endpoints: Endpoints) -> None:
    web = endpoints.make("Web", recoverability=NO_RETRIES)

    @web.handler("Shop.AskColour")
    async def ask(message: dict[str, Any], context: rowbus.Context) -> None:
        await context.reply(rowbus.ReturnCode(Colour.Blue))

    await endpoints.backend.create_queue("Asker")
    async with web:
        client = endpoints.backend.client(reply_to="Asker")
        asked = await client.send("Web", {"Question": "which"}, type="Shop.AskColour")

        async def replied() -> bool:
            return await endpoints.backend.count("Asker") == 1

        await eventually(replied)

    (row,) = await endpoints.backend.rows("Asker")
    (_, theirs) = answers_of_dotnet()
    assert set(row.headers) == set(theirs)
    assert row.body == b""
    assert row.headers[Header.RETURN_MESSAGE_ERROR_CODE] == theirs[Header.RETURN_MESSAGE_ERROR_CODE] == "2"
    assert row.headers[Header.CONTROL_MESSAGE] == "True"
    assert row.headers[Header.MESSAGE_INTENT] == "Reply"
    assert row.headers[Header.CORRELATION_ID] == asked


@pytest.mark.parametrize("text", ["True", "true"])
async def test_a_control_message_with_a_body_reaches_no_handler(endpoints: Endpoints, text: str) -> None:
    web = endpoints.make("Web", recoverability=NO_RETRIES)
    headers = {Header.CONTROL_MESSAGE: text, Header.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder"}

    @web.handler("Shop.PlaceOrder")
    async def never(message: dict[str, Any]) -> None:
        raise AssertionError

    async with web:
        await endpoints.backend.insert("Web", encode_headers(headers), b"{}")

        async def consumed() -> bool:
            return await endpoints.backend.count("Web") == 0

        await eventually(consumed)
    assert await endpoints.backend.count(ERROR) == 0


@pytest.mark.parametrize("remembers", [False, True], ids=["plain", "deduplicating"])
async def test_a_sessions_control_message_is_put_back_and_an_error_says_so(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture, *, remembers: bool
) -> None:
    settings: Any = {"deduplicate_for": rowbus.EndpointSettings().peek_delay * 100} if remembers else {}
    web = endpoints.make("Web", recoverability=NO_RETRIES, **settings)
    caplog.set_level(logging.ERROR, "rowbus.endpoint")

    async with web:
        await endpoints.backend.insert("Web", encode_headers(SESSION), b"")

        async def waits_in_the_delayed_table() -> bool:
            return len(await endpoints.backend.delayed_rows("Web.Delayed")) == 1

        await eventually(waits_in_the_delayed_table)
    assert caplog.text.count("belongs to a transactional session of .NET") >= 2
    left: list[Any] = [
        *await endpoints.backend.delayed_rows("Web.Delayed"),
        *await endpoints.backend.rows("Web"),
    ]
    assert len(left) == 1
    kept = {name: value for name, value in left[0].headers.items() if name in SESSION}
    assert kept == SESSION
    assert int(left[0].headers[PUT_BACK] or 0) >= 2
    assert await endpoints.backend.count(ERROR) == 0


async def test_a_session_put_back_is_taken_by_the_instance_it_is_for(endpoints: Endpoints) -> None:
    """Without delayed delivery the message waits in hand, and is in the shared queue after each time."""
    web = endpoints.make("Web", recoverability=NO_RETRIES, delayed_delivery=None)

    async with web:
        await endpoints.backend.insert("Web", encode_headers(SESSION), b"")

        async def put_back() -> bool:
            return any(PUT_BACK in row.headers for row in await endpoints.backend.rows("Web"))

        await eventually(put_back)
    assert await endpoints.backend.count("Web") == 1


def test_a_return_code_has_the_wire_name_of_dotnets_int() -> None:
    assert contract_of(rowbus.ReturnCode).name == "System.Int32"
