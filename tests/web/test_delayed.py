"""Delayed messages in the browser: what is due when, search, one message, cancel it, send it now."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import psycopg
import pytest

from rowbus.web.delayed import bars, read_place, spans, write_place
from rowbus.web.settings import WebSettings
from tests.fixtures.every import every
from tests.web.conftest import browser, confirm, key_of
from tests.web.shop import DELAYED, HOSTILE, SALES, Shop, assert_is_text

TABLE = {"table": str(DELAYED)}
SOON = timedelta(minutes=5)

HAS_SHOP = True  # in `database`


@pytest.fixture
def shop(database: str) -> Shop:
    return Shop(database)


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(shop.dsn) as client:
        yield client


async def row_of(client: httpx.AsyncClient, text: str) -> dict[str, str]:
    """Return the form fields of the one message that a search finds."""
    shown = (await client.get("/delayed/table", params={**TABLE, "text": text})).text
    (row,) = set(re.findall(r"row=([0-9a-f-]{36})", shown))
    return {**TABLE, "row": row}


def waiting(shop: Shop) -> object:
    return shop.ask('select count(*) from "Sales.Delayed"')[0][0]


async def test_the_list_shows_what_is_due_when(shop: Shop, client: httpx.AsyncClient) -> None:
    for number, due in enumerate((-9, 30, 30, 90)):
        shop.delay(timedelta(seconds=due), f"R{number}")
    shown = (await client.get("/delayed/table", params=TABLE)).text
    rows = re.findall(r'<th scope="row">([^<]+)</th>.*?width="([\d.]+)".*?class="n">(\d+)<', shown, re.DOTALL)

    assert rows[:3] == [
        ("overdue", "50.0", "1"),
        ("within a minute", "100.0", "2"),
        ("in 1 to 10 minutes", "50.0", "1"),
    ]
    assert re.search(r"\d+ s overdue", shown)
    assert shown.index("reminder-R0") < shown.index("reminder-R3")


async def test_a_search_by_id_type_or_destination_and_a_page_after_a_page(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    for number in range(60):
        shop.delay(SOON, f"R{number:02}")
    shop.delay(SOON, "other", kind="Shop.Escalate", to=SALES)
    first = (await client.get("/delayed/table", params=TABLE)).text
    (following,) = re.findall(r'href="([^"]+after=[^"]+)"', first)
    second = (await client.get(following.replace("&amp;", "&"))).text
    pages = [set(re.findall(r"reminder-(\w+)<", page)) for page in (first, second)]

    assert [len(page) for page in pages] == [50, 11]
    assert len(pages[0] | pages[1]) == 61
    for text in ("reminder-other", "shop.escalate", "Sales"):
        found = (await client.get("/delayed/table", params={**TABLE, "text": text})).text
        assert "reminder-other" in found
        assert "reminder-R00" not in found
    assert (
        "No message from here on" in (await client.get("/delayed/table", params={**TABLE, "text": "%"})).text
    )


async def test_one_message_is_cancelled(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.delay(SOON, "R1")
    form = await row_of(client, "reminder-R1")
    asked = (await client.get("/delayed/message", params=form)).text
    token = client.site.seals.token("form", key_of(client))  # type: ignore[attr-defined] # a note of ours
    question = (await client.post("/delayed/cancel", data={**form, "csrf": token})).text
    ended = (await confirm(client, "/delayed/cancel", form)).text

    assert '<button class="grave">Cancel it' in question
    assert "&#34;order_id&#34;: &#34;R1&#34;" in asked
    assert "The message is cancelled." in ended
    assert waiting(shop) == 0
    noted = shop.ask('select action, queue, done, state, result from "Rowbus.Operations"')
    assert noted == [("cancel a delayed message", str(DELAYED), 1, "done", "The message is cancelled.")]
    assert (await client.get("/delayed/message", params=form)).status_code == 404
    assert (await client.post("/delayed/cancel", data=form)).status_code == 403


async def test_one_message_is_sent_now(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.delay(SOON, "R1")
    form = await row_of(client, "reminder-R1")
    ended = (await confirm(client, "/delayed/send-now", form)).text

    assert "The message is in its queue." in ended
    assert (waiting(shop), shop.ask('select count(*) from "Billing"')) == (0, [(1,)])


async def test_a_message_in_the_hands_of_a_mover_is_left_to_it(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.delay(SOON, "R1")
    form = await row_of(client, "reminder-R1")
    with psycopg.connect(shop.dsn) as mover:
        mover.execute('select from "Sales.Delayed" for update')
        ended = (await confirm(client, "/delayed/send-now", form)).text

    assert "Nothing was done" in ended
    assert waiting(shop) == 1


async def test_a_delayed_retry_is_not_offered_to_be_cancelled(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.delay(SOON, "R1", headers={"NServiceBus.Retries": "1"})
    form = await row_of(client, "reminder-R1")
    shown = (await client.get("/delayed/message", params=form)).text

    assert "Send now …" in shown
    assert "Cancel …" not in shown


async def test_a_viewer_sees_no_button_and_does_nothing(shop: Shop) -> None:
    shop.delay(SOON, "R1")
    async with browser(shop.dsn, WebSettings(read_only=True)) as client:
        form = await row_of(client, "reminder-R1")
        shown = (await client.get("/delayed/message", params=form)).text
        for path in ("/delayed/cancel", "/delayed/send-now"):
            await confirm(client, path, form, expect=403)

    assert "<button" not in shown.partition("<main")[2].partition("</main>")[0]
    assert waiting(shop) == 1


async def test_a_role_that_may_only_look_sees_no_button(shop: Shop) -> None:
    shop.delay(SOON, "R1")
    with shop.viewing(DELAYED) as dsn:
        async with browser(dsn) as client:
            shown = (await client.get("/delayed/message", params=await row_of(client, "reminder-R1"))).text

    assert "Shop.RemindToPay" in shown
    assert "disabled>Send now …" in shown


async def test_what_is_hostile_is_shown_as_text(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.delay(SOON, HOSTILE, kind=HOSTILE, body=HOSTILE.encode(), headers={"X-" + HOSTILE: HOSTILE})
    ((row_id,),) = shop.ask('select id::text from "Sales.Delayed"')
    pages = [
        await client.get("/delayed/table", params={**TABLE, "text": HOSTILE}),
        await client.get("/delayed/table", params=TABLE),
        await client.get("/delayed/message", params={**TABLE, "row": str(row_id)}),
        await client.get("/delayed/table", params={"table": HOSTILE}),
        await client.get("/delayed/table", params={**TABLE, "after": HOSTILE}),
        await client.get("/delayed/message", params={**TABLE, "row": HOSTILE}),
    ]

    assert [page.status_code for page in pages] == [200, 200, 200, 404, 200, 404]
    for page in pages:
        assert_is_text(page)
    assert "\\x1b[31m" in re.sub("<[^>]+>", "", pages[2].text)


async def test_only_tables_of_delayed_messages_are_looked_into(shop: Shop, client: httpx.AsyncClient) -> None:
    for table in ('"public"."Sales"', "pg_catalog.pg_authid", ""):
        assert (await client.get("/delayed/table", params={"table": table})).status_code == 404


async def test_what_is_masked_is_not_shown(shop: Shop) -> None:
    shop.delay(SOON, "R1", body=b'{"card": "4111", "order": "R1"}')
    async with browser(shop.dsn, WebSettings(mask=("$.card",))) as client:
        shown = (await client.get("/delayed/message", params=await row_of(client, "reminder-R1"))).text

    assert "4111" not in shown
    assert "R1" in shown


@every("text", ["", "x", "2026-01-01~x", "~", "2026-01-01T00:00:00+00:00"])
def test_a_text_that_is_no_place_means_the_beginning(text: str) -> None:
    assert read_place(text) is None


def test_a_place_is_read_as_it_was_written() -> None:
    place = read_place("2026-01-01T00:00:00.000001+00:00~7@x")

    assert place is not None
    assert read_place(write_place(place)) == place


def test_spans_follow_one_another_without_a_gap() -> None:
    place = read_place("2026-01-01T00:00:00+00:00~1")
    assert place is not None
    found = list(spans(place.due))

    assert [one.last for one in found[:-1]] == [one.first for one in found[1:]]
    assert (found[0].first, found[-1].last) == (None, None)


def test_a_bar_can_be_seen_wherever_there_is_a_message() -> None:
    found = bars([("a", 0), ("b", 1), ("c", 100_000)])

    assert [bar.width for bar in found] == [0.0, 1.0, 100.0]
    assert found[2].shown == "100,000 or more"
