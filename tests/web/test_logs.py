"""Logs in the browser: consumers and their lag, events as they come, rewinding with a preview, dead letters."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import psycopg
import pytest
from starlette.requests import Request

from rowbus.log.event import Event
from rowbus.messages.address import QueueAddress
from rowbus.transport.lanes.lane_table import lock_of
from rowbus.web.contents import text_content
from rowbus.web.logs import dead_letters, events
from rowbus.web.logs.events import shown_event
from rowbus.web.settings import WebSettings
from rowbus.web.visit import Visit
from rowbus.web.visitors import Person
from tests.fixtures.every import every
from tests.web.conftest import browser, confirm, key_of, token_of
from tests.web.failures import text_of
from tests.web.shop import HOSTILE, LOG, Shop, assert_is_text

LANE = QueueAddress("pgq", "orders/billing#1")
CONSUMER = {"log": LOG, "consumer": "revenue"}

HAS_SHOP = True  # in `database`


@pytest.fixture
def shop(database: str) -> Shop:
    shop = Shop(database)
    shop.tick()
    return shop


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(shop.dsn) as client:
        yield client


def letters(shop: Shop) -> object:
    return shop.ask("select count(*) from pgq.dead_letter")[0][0]


def position(shop: Shop) -> object:
    return shop.ask("select last_tick from pgq.get_consumer_info('orders', 'revenue')")[0][0]


def visit_of(client: httpx.AsyncClient, query: str) -> Visit:
    """Return a request that was not made by HTTP."""
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/logs/tail",
        "headers": [],
        "query_string": query.encode(),
    }
    return Visit(client.site, Request(scope), Person("ann"), "logs.stream")  # type: ignore[attr-defined] # a note of ours


async def test_a_log_is_shown_with_its_consumers_and_how_far_they_are_behind(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    shop.append(("a", "1"), ("a", "2"), ("a", "3"))
    with psycopg.connect(shop.dsn) as leader:
        leader.execute("select 1")
        shown = (await client.get("/logs/log", params={"log": LOG})).text

    row = re.findall(r"<td [^>]*class=\"n\">([^<]*)</td>", shown)
    assert row[0] == "3"
    assert "none that can be seen" in shown
    assert "Rewind …" in shown


async def test_a_consumer_with_lanes_is_one_that_opens(shop: Shop, client: httpx.AsyncClient) -> None:
    for name in ("billing#0", "billing#1"):
        shop.ask("select pgq.register_consumer('orders', %s)", name)
    shop.append(("a", "1"))
    shop.give_up("billing#1", "no total")
    holder = psycopg.connect(shop.dsn)
    holder.execute("select pg_advisory_lock(hashtextextended(%s, 0))", [lock_of(LANE)])
    shown = text_of((await client.get("/logs/log", params={"log": LOG})).text)
    await client.site.sampler.look()  # type: ignore[attr-defined] # a note of ours
    overview = text_of((await client.get("/")).text)
    holder.close()

    assert re.search(r"billing 2 lanes billing#0: 1 event behind.* billing#1: 0 events behind, led by", shown)
    assert "1 of 2 lanes" in shown
    assert "billing and 2 lanes" in overview


async def test_a_log_that_is_not_there_is_said_to_be_missing(client: httpx.AsyncClient) -> None:
    for path in ("/logs/log", "/logs/tail"):
        answer = await client.get(path, params={"log": HOSTILE})
        assert answer.status_code >= 400
        assert_is_text(answer)


async def test_the_tail_shows_the_latest_events_decoded_the_newest_first(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    shop.append(*(("old", str(number)) for number in range(150)))
    shop.append(("order", '{"id":7,"lines":[1.50]}'), ("I:id", "id=7&name=Ann+B%C3%A9la&note"))
    shown = (await client.get("/logs/tail", params={"log": LOG})).text
    kinds = re.findall(r'<p class="head"><span class="tag">([^<]+)</span>', shown)

    assert kinds[:3] == ["I:id", "order", "old"]
    assert len(kinds) == 100
    assert "name: Ann Béla\nnote is null" in shown
    assert "&#34;lines&#34;:[1.50]" in shown  # what writing it anew would change is shown as it is


@every(
    "data",
    ['{"a":"b%20=c&d"}', "[a=b%20]", '<a b="c%20&d"/>', "a=b%20 c=d", f"a={'%20' * 34_000}"],
    ids=lambda data: str(data)[:20],
)
def test_what_only_looks_like_pairs_is_shown_as_it_is(data: str) -> None:
    event = Event(1, datetime.now(UTC), 1, None, "order", data)

    assert shown_event(event, ()).content == text_content(data, ())


async def test_events_are_sent_as_they_come_each_once(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.append(("old", "0"))
    visit = visit_of(client, "")
    ((now,),) = shop.ask("select max(tick_id) from pgq.tick")
    stream = events.following(visit, LOG, int(str(now)), period=0)
    assert (await anext(stream)).startswith(":")
    assert await anext(stream) == ": none\n\n"
    shop.append(("new", HOSTILE))
    text = await anext(stream)
    while text.startswith(": none"):
        text = await anext(stream)

    assert "new" in text
    assert "old" not in text
    assert "<script>" not in text
    assert all(line.startswith(("id: ", "data: ")) for line in text.rstrip("\n").split("\n"))
    assert await anext(stream) == ": none\n\n"
    await stream.aclose()


async def test_a_stream_ends_after_its_time_and_there_are_so_many(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    visit = visit_of(client, "log=orders")
    assert [text async for text in events.following(visit, LOG, None, longest=0)] == [
        ": events as they come\n\n"
    ]
    monkeypatch.setattr(events, "MOST_STREAMS", 0)

    assert (await client.get("/logs/tail/events", params={"log": LOG})).status_code == 503


async def test_a_rewind_says_how_many_events_come_again_and_then_moves(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    shop.append(("a", "1"), ("a", "2"), ("a", "3"))
    shop.give_up("revenue", "bad")
    before = position(shop)
    shown = (await client.get("/logs/rewind", params={**CONSUMER, "to": "start"})).text
    (tick,) = re.findall(r'name="tick" value="(\d+)"', shown)
    assert "3 events are given to it again." in shown
    assert position(shop) == before
    assert "handle an event twice" in await asked_before_moving(client, tick)
    ended = (await confirm(client, "/logs/rewind/move", {**CONSUMER, "tick": tick})).text

    assert f"revenue goes on behind tick {tick}." in ended
    assert position(shop) == int(tick)
    ahead = (await client.get("/logs/rewind", params={**CONSUMER, "to": "end"})).text
    assert "3 events are skipped" in ahead
    (tick,) = re.findall(r'name="tick" value="(\d+)"', ahead)
    assert "handle an event twice" not in await asked_before_moving(client, tick)


async def asked_before_moving(client: httpx.AsyncClient, tick: str) -> str:
    """Return the question that is asked before the consumer moves."""
    form = {"csrf": token_of(client), **CONSUMER, "tick": tick}
    return (await client.post("/logs/rewind/move", data=form)).text


async def test_a_consumer_with_a_batch_in_hand_is_not_moved(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.append(("a", "1"))
    shop.ask("select pgq.next_batch('orders', 'revenue')")
    before = position(shop)
    ended = (await confirm(client, "/logs/rewind/move", {**CONSUMER, "tick": str(before)})).text

    assert "has a batch in hand" in ended
    assert position(shop) == before


@every(
    "to", ["yesterday", "99999999999999999999", "12345678", "1999-01-01", "0001-01-01T00:00+23:59", HOSTILE]
)
async def test_a_position_that_is_none_is_explained(client: httpx.AsyncClient, to: str) -> None:
    shown = await client.get("/logs/rewind", params={**CONSUMER, "to": to})

    assert shown.status_code == 200
    assert 'role="alert"' in shown.text
    assert_is_text(shown)
    forged = await client.post("/logs/rewind/move", data={"csrf": token_of(client), **CONSUMER, "tick": to})
    assert (forged.status_code, "is not retained" in forged.text) == (400, True)


async def test_dead_letters_are_replayed_one_or_all_and_discarded(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    for number in range(4):
        shop.append(("a", str(number)))
        shop.give_up("revenue", "bad")
    shown = (await client.get("/logs/dead-letters", params=CONSUMER)).text
    first = re.findall(r'name="letter" value="(\d+)"', shown)[0]
    one = (await confirm(client, "/logs/dead-letters/replay", {**CONSUMER, "letter": first})).text
    assert "1 event will be delivered again." in one
    assert letters(shop) == 3
    assert shop.ask("select count(*) from pgq.retry_queue") == [(1,)]
    every = (await confirm(client, "/logs/dead-letters/replay", {**CONSUMER, "all": "yes"})).text
    assert "3 events will be delivered again." in every
    shop.append(("a", "again"))
    shop.give_up("revenue", "bad")
    gone = (await confirm(client, "/logs/dead-letters/discard", {**CONSUMER, "all": "yes"})).text

    assert "1 dead letter deleted." in gone
    assert letters(shop) == 0
    assert "There are none" in (await client.get("/logs/dead-letters", params=CONSUMER)).text


@pytest.mark.parametrize("path", ["/logs/dead-letters/replay", "/logs/dead-letters/discard"])
async def test_meaning_none_of_them_does_nothing(shop: Shop, client: httpx.AsyncClient, path: str) -> None:
    shop.append(("a", "1"))
    shop.give_up("revenue", "bad")
    for form in (CONSUMER, {**CONSUMER, "letter": "all"}, {**CONSUMER, "letter": "9" * 30}):
        ended = (await confirm(client, path, form)).text

        assert "Nothing was done" in ended
        assert letters(shop) == 1


def give_up(shop: Shop, *numbers: int) -> None:
    """Have the consumer give up on events with these orders."""
    for number in numbers:
        shop.append(("order", f'{{"order": "R{number}", "lines": [1.50]}}'))
        shop.give_up("revenue", f"R{number} has no total\n  in revenue.py, line {number}")


async def numbers(client: httpx.AsyncClient, **query: str) -> list[str]:
    """Return the numbers of the dead letters that the page lists."""
    shown = (await client.get("/logs/dead-letters", params={**CONSUMER, **query})).text
    return re.findall(r'name="letter" value="(\d+)"', shown)


def noted(shop: Shop) -> list[tuple[object, ...]]:
    return shop.ask('select action, queue, subject, done, state from "Rowbus.Operations" order by began')


async def test_one_dead_letter_is_opened_and_discarded(shop: Shop, client: httpx.AsyncClient) -> None:
    give_up(shop, 1, 2, 3)
    _, second, _ = await numbers(client)
    shown = (await client.get("/logs/dead-letter", params={**CONSUMER, "letter": second})).text
    asked = await client.post(
        "/logs/dead-letters/discard",
        data={**CONSUMER, "letter": second, "csrf": client.site.seals.token("form", key_of(client))},  # type: ignore[attr-defined] # a note of ours
    )
    ended = (await confirm(client, "/logs/dead-letters/discard", {**CONSUMER, "letter": second})).text

    assert '<span class="key">order</span>: <span class="string">&#34;R2&#34;' in shown
    assert "R2 has no total\n  in revenue.py, line 2" in shown
    assert "R1" not in shown
    assert "Discard this dead letter?" in asked.text
    assert "1 event that revenue of log orders has given up on is deleted" in asked.text
    assert "1 dead letter deleted." in ended
    assert shop.ask("select ev_data from pgq.dead_letter where ev_data like '%%R2%%'") == []
    assert letters(shop) == 2
    assert noted(shop) == [
        ("discard dead letters", LOG, f"dead letter {second} of revenue of log orders", 1, "done")
    ]
    gone = await client.get("/logs/dead-letter", params={**CONSUMER, "letter": second})
    assert gone.status_code == 404


async def test_one_dead_letter_is_opened_and_replayed(shop: Shop, client: httpx.AsyncClient) -> None:
    give_up(shop, 1, 2)
    first, _ = await numbers(client)
    shown = (await client.get("/logs/dead-letter", params={**CONSUMER, "letter": first})).text
    (offered,) = set(re.findall(r'name="letter" value="(\d+)"', shown))
    ended = (await confirm(client, "/logs/dead-letters/replay", {**CONSUMER, "letter": offered})).text

    assert "1 event will be delivered again." in ended
    assert shop.ask("select ev_data like '%%R1%%' from pgq.retry_queue") == [(True,)]
    assert noted(shop) == [
        ("replay dead letters", LOG, f"dead letter {first} of revenue of log orders", 1, "done")
    ]


async def test_those_ticked_are_replayed_or_discarded(shop: Shop, client: httpx.AsyncClient) -> None:
    give_up(shop, 1, 2, 3, 4)
    found = await numbers(client)
    replayed = await confirm(client, "/logs/dead-letters/replay", {**CONSUMER, "letter": found[:2]})
    discarded = await confirm(client, "/logs/dead-letters/discard", {**CONSUMER, "letter": found[1:3]})

    assert "2 events will be delivered again." in replayed.text
    assert "1 dead letter deleted." in discarded.text  # the other one was replayed
    assert await numbers(client) == found[3:]
    assert [row[3] for row in noted(shop)] == [2, 1]


async def test_a_dead_letter_of_another_consumer_is_neither_shown_nor_discarded(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    shop.ask("select pgq.register_consumer('orders', 'crm')")
    give_up(shop, 1)
    (number,) = await numbers(client)
    other = {"log": LOG, "consumer": "crm", "letter": number}

    assert (await client.get("/logs/dead-letter", params=other)).status_code == 404
    assert "Nothing was done" in (await confirm(client, "/logs/dead-letters/discard", other)).text
    assert letters(shop) == 1


@every("letter", ["", "0", "x", "-1", "9" * 30, HOSTILE])
async def test_a_number_that_is_none_is_not_there(client: httpx.AsyncClient, letter: str) -> None:
    answer = await client.get("/logs/dead-letter", params={**CONSUMER, "letter": letter})

    assert answer.status_code == 404
    assert_is_text(answer)


async def test_dead_letters_are_listed_page_after_page(
    shop: Shop, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "MOST_SHOWN", 2)
    give_up(shop, 1, 2, 3, 4)
    first = (await client.get("/logs/dead-letters", params=CONSUMER)).text
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = (await client.get(following.replace("&amp;", "&"))).text

    assert "2 of 4." in first
    assert ["R3" in page for page in (first, second)] == [False, True]
    assert 'rel="next"' not in second
    assert (
        "There is none behind"
        in (await client.get("/logs/dead-letters", params={**CONSUMER, "after": "999"})).text
    )


async def test_without_the_function_of_the_newest_schema_none_is_offered_to_be_discarded_alone(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    give_up(shop, 1)
    (number,) = await numbers(client)
    shop.ask("drop function pgq.dead_letter_discard(text, text, bigint[])")
    listed = (await client.get("/logs/dead-letters", params=CONSUMER)).text
    opened = (await client.get("/logs/dead-letter", params={**CONSUMER, "letter": number})).text

    assert "Discard all …" in listed
    assert "Discard those ticked …" not in listed
    assert "Discard …" not in opened
    assert "Replay …" in opened


async def test_a_viewer_sees_no_button_and_does_nothing(shop: Shop) -> None:
    shop.append(("a", "1"))
    shop.give_up("revenue", "bad")
    before = position(shop)
    async with browser(shop.dsn, WebSettings(read_only=True)) as client:
        pages = [
            (await client.get(path, params={**CONSUMER, "to": "start", "letter": "1"})).text
            for path in ("/logs/log", "/logs/rewind", "/logs/dead-letters", "/logs/dead-letter")
        ]
        for path in ("/logs/dead-letters/replay", "/logs/dead-letters/discard", "/logs/rewind/move"):
            await confirm(client, path, {**CONSUMER, "all": "yes", "tick": "1"}, expect=403)

    assert not any(word in page for page in pages for word in ("Rewind …", "Move it …", "Replay", "Discard"))
    assert (letters(shop), position(shop)) == (1, before)


async def test_a_role_that_may_only_look_has_its_buttons_disabled_with_the_grant(shop: Shop) -> None:
    shop.append(("a", "1"))
    shop.give_up("revenue", "bad")
    with shop.viewing() as dsn:
        role = psycopg.conninfo.conninfo_to_dict(dsn)["user"]
        shop.ask(f"grant usage on schema pgq to {role}")
        for view in ("log_status", "consumer_status"):
            shop.ask(f"grant select on pgq.{view} to {role}")
        shop.ask(f"grant select on all tables in schema pgq to {role}")
        async with browser(dsn) as client:
            shown = (await client.get("/logs/dead-letters", params=CONSUMER)).text
            opened = (await client.get("/logs/dead-letter", params={**CONSUMER, "letter": "1"})).text

    for page in (shown, opened):
        assert "bad" in page
        assert (
            page.count('<button type="button" disabled>') == page.count("Replay") + page.count("Discard") == 2
        )
        assert "schema grants --log --operate" in page
        assert "checkbox" not in page


async def test_forms_without_the_token_are_refused(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.append(("a", "1"))
    shop.give_up("revenue", "bad")
    for path in ("/logs/dead-letters/replay", "/logs/dead-letters/discard", "/logs/rewind/move"):
        form = {**CONSUMER, "all": "yes", "tick": "1", "confirmed": "yes"}
        assert (await client.post(path, data=form)).status_code == 403
    assert letters(shop) == 1


async def test_what_is_hostile_is_shown_as_text(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.ask("select pgq.register_consumer('orders', %s)", HOSTILE)
    shop.append((HOSTILE, HOSTILE))
    shop.give_up(HOSTILE, HOSTILE)
    named = {"log": LOG, "consumer": HOSTILE}
    pages = [
        await client.get("/logs/log", params={"log": LOG}),
        await client.get("/logs/tail", params={"log": LOG}),
        await client.get("/logs/rewind", params={**named, "to": "start"}),
        await client.get("/logs/dead-letters", params=named),
        await client.get("/logs/dead-letter", params={**named, "letter": "1"}),
        await confirm(client, "/logs/dead-letters/replay", {**named, "all": "yes"}),
    ]

    for page in pages:
        assert page.status_code == 200
        assert_is_text(page)


async def test_what_is_masked_is_not_shown(shop: Shop) -> None:
    shop.append(("a", '{"card": "4111", "order": "R1"}'), ("I:id", "card=4111"))
    shop.give_up("revenue", "bad")
    async with browser(shop.dsn, WebSettings(mask=("$.card",))) as client:
        for path in ("/logs/tail", "/logs/dead-letters", "/logs/dead-letter"):
            shown = (await client.get(path, params={**CONSUMER, "letter": "1"})).text
            assert "4111" not in shown
            assert "R1" in shown


async def test_a_database_without_logs_says_what_to_do(empty_database: str) -> None:
    async with browser(empty_database) as client:
        assert "rowbus log create" in (await client.get("/logs")).text
