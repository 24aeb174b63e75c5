"""A queue in the browser, its messages, its endpoint, and what that has in hand; a queue is emptied, and sent to."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import dataclass

import psycopg

import rowbus
from rowbus.messages.bodies.json_bodies import JSON
from rowbus.messages.headers import Header
from rowbus.web.settings import WebSettings
from tests.conformance.transport import eventually
from tests.fixtures.command_line import Ask
from tests.web.conftest import browser, confirm, token_of
from tests.web.failures import ErrorQueue, text_of
from tests.web.shop import BILLING, SALES, Shop

NAME = {"name": str(SALES)}


@rowbus.command("Shop.Place")
@dataclass
class Place:
    pass


@rowbus.command("Shop.Order")
@dataclass
class Order:
    amount: int


@rowbus.command("Shop.Report")
@dataclass
class Report:
    pass


HAS_SHOP = True  # in `database`


async def test_a_queue_shows_what_waits_and_who_sends_and_a_message_opens(database: str) -> None:
    shop = Shop(database)
    shop.subscribe("Sales", SALES, "Shop.CardCharged")
    queue = ErrorQueue(database)
    row = queue.add(
        "order-1", to="Sales", more={Header.ORIGINATING_ENDPOINT: "Website"}, body=b'{"order": "A-17"}'
    )
    queue.connection.close()
    async with browser(database) as client:
        shown = text_of((await client.get("/queue", params=NAME)).text)
        message = text_of((await client.get("/queue/message", params={**NAME, "row": row})).text)
        gone = [
            (await client.get("/queue/message", params={**NAME, "row": other})).status_code
            for other in ("x", "00000000-0000-0000-0000-000000000000")
        ]
        none = [
            (await client.get("/queue", params={"name": name})).status_code
            for name in ("", "Nothing", '"public"."Sales.Delayed"', "pg_catalog.pg_class")
        ]

    assert "Website (1 message)" in shown
    assert "Shop.CardCharged" in shown
    assert "order-1" in shown
    assert "A-17" in message
    assert (gone, none) == ([404, 404], [404, 404, 404, 404])


async def test_a_queue_is_emptied_and_it_is_noted(database: str, ask: Ask) -> None:
    with psycopg.connect(database) as connection:
        for _ in range(3):
            rowbus.Client(connection).send("Sales", {}, type="Shop.Place")
    async with browser(database, WebSettings(period=0.05)) as client:
        await client.get("/")
        done = (await confirm(client, "/queue/purge", NAME)).text
        await confirm(client, "/queue/purge", {"name": "Nothing"}, expect=503)

    assert "3 messages were deleted" in done
    assert ask('select count(*) from "Sales"') == [(0,)]
    assert ask('select action, queue, done, state from "Rowbus.Operations"') == [
        ("purge", '"public"."Sales"', 3, "done")
    ]


async def test_an_endpoint_shows_what_it_has_in_hand_since_when_and_where(database: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    sales = rowbus.Endpoint("Sales", database=database)

    @sales.handler
    async def wait(_message: Place) -> None:
        begun.set()
        await go_on.wait()

    with psycopg.connect(database) as connection:
        rowbus.Client(connection).send("Sales", Place())
    async with browser(database, WebSettings(period=0.05)) as client, sales:
        await begun.wait()
        shown = (await client.get("/endpoint", params=NAME)).text
        go_on.set()
        other = (await client.get("/endpoint", params={"name": str(BILLING)})).text

    hands = text_of(shown.partition('id="hands"')[2].partition("</section>")[0])
    assert re.search(r"Shop\.Place 1 \d{4}-.* the server&#39;s machine, session \d+ End the first", hands)
    assert "rowbus Sales" in shown
    assert "Sales.Delayed" in shown
    assert "Nobody receives" in other


async def test_a_message_is_composed_and_sent_as_another_endpoint_would_send_it(
    database: str, ask: Ask
) -> None:
    sales = rowbus.Endpoint("Sales", database=database)

    @sales.handler
    async def order(_message: Order) -> None: ...

    async with sales:
        pass  # its contract is published
    form = {**NAME, "type": "Shop.Order", "body": '{"amount":\r\n1}'}
    async with browser(database) as client:
        draft = (await client.get("/queue/compose", params={**NAME, "type": "Shop.Order"})).text
        nowhere = await client.get("/queue/compose", params={"name": "Nothing"})
        asked = await client.post("/queue/send", data={"csrf": token_of(client), **form, "body": "{}"})
        refused = [
            text_of((await confirm(client, "/queue/send", form | wrong, expect=400)).text)
            for wrong in ({"type": " "}, {"body": "{"})
        ]
        assert ask('select from "Sales"') == []
        await confirm(client, "/queue/send", form)

    assert "amount" in html.unescape(draft).partition("<textarea")[2]
    assert nowhere.status_code == 404
    assert "It does not fit: Sales takes another: `amount`" in html.unescape(asked.text)
    assert "The message has no type" in refused[0]
    assert "JSON" in refused[1]
    ((headers, body),) = ask('select headers::jsonb, body from "Sales"')
    assert (headers[Header.ENCLOSED_MESSAGE_TYPES], headers[Header.CONTENT_TYPE]) == ("Shop.Order", JSON)
    assert headers[Header.MESSAGE_ID]
    assert bytes(body) == b'{"amount":\n1}'


async def test_the_handlers_of_an_endpoint_are_ended_and_the_progress_of_a_long_one_is_shown(
    database: str, ask: Ask
) -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()
    no_retries = rowbus.Recoverability(immediate=0, delayed=0)
    sales = rowbus.Endpoint("Sales", database=database, recoverability=no_retries)
    ids = ["the ordinary", "the long"]
    count = "select headers::json ->> 'NServiceBus.ExceptionInfo.Message' from error"

    @sales.handler
    async def wait(_message: Place) -> None:
        await begun.put("ordinary")
        await asyncio.Event().wait()

    @sales.handler(long=True)
    async def report(_message: Report, context: rowbus.LongContext) -> None:
        await context.progress(0.4, "page 12 of 30")
        await begun.put("long")
        await asyncio.Event().wait()

    async with sales, browser(database, WebSettings(period=0.05)) as client:
        for message, message_id in zip((Place(), Report()), ids, strict=True):
            await sales.send("Sales", message, headers={Header.MESSAGE_ID: message_id})
            await begun.get()
        shown = text_of((await client.get("/endpoint", params=NAME)).text)
        answers = [
            (await confirm(client, "/endpoint/cancel", NAME | {"message": message_id})).text
            for message_id in [*ids, "nobody"]
        ]
        await eventually(lambda: len(ask(count)) == 2)

    assert re.search(r"the long Shop\.Report \S+ \d{4}-.* 0 40 % page 12 of 30 End it", shown)
    assert [("ends within two seconds" in text, "No handler runs" in text) for text in answers] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert [text.endswith(": on the web page") for (text,) in ask(count)] == [True, True]
