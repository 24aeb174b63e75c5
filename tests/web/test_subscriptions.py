"""Subscriptions in the browser: who gets what; those that lead nowhere are marked, and only they can be ended."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from rowbus.messages.address import QueueAddress
from rowbus.web.settings import WebSettings
from tests.web.conftest import browser, confirm
from tests.web.shop import BILLING, HOSTILE, ROUTING, Shop, assert_is_text

NOWHERE = QueueAddress("public", "Loyalty")
DEAD = {"table": str(ROUTING), "endpoint": "Loyalty", "topic": "Shop.OrderShipped"}
LIVE = {"table": str(ROUTING), "endpoint": "Billing", "topic": "Shop.OrderShipped"}

HAS_SHOP = True  # in `database`


@pytest.fixture
def shop(database: str) -> Shop:
    shop = Shop(database)
    shop.subscribe("Billing", BILLING, "Shop.OrderShipped")
    shop.subscribe("Loyalty", NOWHERE, "Shop.OrderShipped")
    return shop


@pytest.fixture
async def client(shop: Shop) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(shop.dsn) as client:
        yield client


def endpoints(shop: Shop) -> list[object]:
    return [name for (name,) in shop.ask('select endpoint from "SubscriptionRouting" order by 1')]


async def test_who_gets_what_is_shown_and_the_dead_are_marked(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/subscriptions")).text

    assert "1 dead" in shown
    assert (shown.count("dead: no such queue"), shown.count('tag ok">ok')) == (1, 1)
    assert shown.count(">End …<") == 1


async def test_a_search_is_for_event_endpoint_or_queue(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/subscriptions", params={"text": "loyal"})).text

    assert "Loyalty" in shown
    assert "Billing" not in shown


async def test_a_dead_subscription_is_ended_and_a_live_one_is_not(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    ended = (await confirm(client, "/subscriptions/end", DEAD)).text
    await confirm(client, "/subscriptions/end", LIVE, expect=503)

    assert "Loyalty no longer subscribes" in ended
    assert endpoints(shop) == ["Billing"]


async def test_one_whose_queue_came_into_being_meanwhile_is_not_ended(
    shop: Shop, client: httpx.AsyncClient
) -> None:
    token = client.site.seals.token("form", next(iter(client.cookies.values())).rpartition(".")[0])  # type: ignore[attr-defined] # a note of ours
    shop.ask(f"create table {NOWHERE} (like {BILLING} including all)")
    done = await client.post("/subscriptions/end", data={"csrf": token, "confirmed": "yes", **DEAD})

    assert done.status_code == 503
    assert endpoints(shop) == ["Billing", "Loyalty"]


async def test_a_viewer_sees_no_button_and_does_nothing(shop: Shop) -> None:
    async with browser(shop.dsn, WebSettings(read_only=True)) as client:
        shown = (await client.get("/subscriptions")).text
        await confirm(client, "/subscriptions/end", DEAD, expect=403)

    assert "End …" not in shown
    assert endpoints(shop) == ["Billing", "Loyalty"]


async def test_a_role_that_may_only_look_sees_no_button(shop: Shop) -> None:
    with shop.viewing(ROUTING) as dsn:
        async with browser(dsn) as client:
            shown = (await client.get("/subscriptions")).text

    assert "Loyalty" in shown
    assert "disabled>End …" in shown


async def test_a_form_without_the_token_is_refused(shop: Shop, client: httpx.AsyncClient) -> None:
    assert (await client.post("/subscriptions/end", data={**DEAD, "confirmed": "yes"})).status_code == 403
    assert endpoints(shop) == ["Billing", "Loyalty"]


async def test_what_is_hostile_is_shown_as_text(shop: Shop, client: httpx.AsyncClient) -> None:
    shop.subscribe(HOSTILE, QueueAddress("public", HOSTILE), HOSTILE)
    pages = [
        await client.get("/subscriptions"),
        await client.get("/subscriptions", params={"text": HOSTILE}),
        await confirm(
            client, "/subscriptions/end", {"table": str(ROUTING), "endpoint": HOSTILE, "topic": HOSTILE}
        ),
        await client.get("/operations"),
    ]

    for page in pages:
        assert_is_text(page)
    assert endpoints(shop) == ["Billing", "Loyalty"]


async def test_a_database_without_subscriptions_says_what_to_do(empty_database: str) -> None:
    async with browser(empty_database) as client:
        assert "rowbus subscriptions create" in (await client.get("/subscriptions")).text
