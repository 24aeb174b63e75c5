"""The overview, on a real database."""

from __future__ import annotations

import asyncio
import re
import time

import httpx
import psycopg
import pytest
from psycopg import sql

from rowbus.messages.address import QueueAddress
from rowbus.web.sampling.snapshot import Snapshot
from rowbus.web.settings import WebSettings
from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.spark_driver import driver_of_spark
from tests.web.conftest import browser, site_of

HOSTILE = "<script>alert(1)</script>\u202e"
SALES = QueueAddress("public", "Sales")


async def test_a_queue_is_shown_with_its_depth_and_age(database: str, rowbus: CommandLine) -> None:
    rowbus("queue", "create", "Sales", "error")
    rowbus("queue", "send", "Sales", "{}", "--type", "Shop.PlaceOrder")

    async with browser(database) as client:
        snapshot = (
            site_of(client).sampler.snapshot if (await client.get("/")).status_code == 200 else Snapshot()
        )
        shown = (await client.get("/")).text

    sales = snapshot.queue(SALES)
    assert sales is not None
    assert (sales.depth, sales.is_exact, sales.in_hand, sales.may_change) == (1, True, 0, True)
    assert sales.oldest_sent is not None
    assert ">Sales" in shown
    assert 'class="n">1</td>' in shown
    assert "error queue" in shown


async def test_rates_come_from_what_the_server_counts(database: str, rowbus: CommandLine) -> None:
    rowbus("queue", "create", "Sales")
    async with browser(database, WebSettings(period=0.05)) as client:
        await client.get("/")
        assert rowbus("queue", "send", "Sales", "{}", "--type", "Shop.PlaceOrder").returncode == 0

        async with asyncio.timeout(30):
            while not _rate(client):  # noqa: ASYNC110 - what changes is in the server's statistics
                await asyncio.sleep(0.05)


def _rate(client: httpx.AsyncClient) -> float:
    """Return the highest rate at which the queue was sent to in the last hour."""
    series = site_of(client).sampler.history.series(("in", SALES), time.monotonic())
    return max((value for value in series if value is not None), default=0)


@pytest.mark.one_version
async def test_a_long_queue_is_estimated(database: str, rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales")
    ask("insert into \"Sales\" (id, headers) select gen_random_uuid(), '{}' from generate_series(1, 5000)")
    ask("select pg_stat_force_next_flush()")

    async with browser(database) as client:
        shown = (await client.get("/")).text

    assert "≈ 5,000" in shown


@pytest.mark.one_version
async def test_an_empty_database_says_what_to_do(database: str) -> None:
    async with browser(database) as client:
        shown = (await client.get("/")).text
        assert "rowbus queue create" in shown
        assert "rowbus run" in shown
        assert "No one has done anything" in (await client.get("/operations")).text


@pytest.mark.one_version
async def test_hostile_names_are_shown_as_text(database: str, rowbus: CommandLine) -> None:
    assert rowbus("queue", "create", HOSTILE).returncode == 0
    with psycopg.connect(database, application_name="rowbus <img src=x>\x1b[31m"):
        async with browser(database) as client:
            for path in ("/", "/doctor", "/?q=<script>", '/?sort="><script>'):
                shown = (await client.get(path)).text
                assert "<script>" not in shown
                assert "<img src=x>" not in shown
                assert "\u202e" not in shown
            shown = (await client.get("/")).text

    assert "&lt;script&gt;alert(1)" in shown
    assert "\\u202e" in shown
    assert "&lt;img src=x&gt;" in shown


@pytest.mark.one_version
async def test_a_role_that_only_views_gets_no_buttons(
    database: str, rowbus: CommandLine, role: str, ask: Ask
) -> None:
    rowbus("queue", "create", "Sales", "Secret")
    name = sql.Identifier(role).as_string()
    ask(f'grant select on "Sales" to {name}')

    async with browser(as_role(database, role)) as client:
        shown = (await client.get("/")).text
        snapshot = site_of(client).sampler.snapshot

    assert not snapshot.may_change([SALES])
    assert [queue.shape.readable for queue in snapshot.queues] == [True, False]
    assert "not readable" in shown


@pytest.mark.one_version
async def test_an_unreachable_database_is_said_and_its_address_is_not() -> None:
    async with browser("postgresql://ada:sesame@127.0.0.1:1/shop") as client:
        answer = await client.get("/")

    assert answer.status_code == 200
    assert "cannot be reached" in answer.text
    assert "sesame" not in answer.text


async def test_logs_and_their_consumers_are_shown(database: str, rowbus: CommandLine, ask: Ask) -> None:
    rowbus("log", "install")
    rowbus("log", "create", "orders")
    ask("select pgq.register_consumer('orders', 'crm')")

    async with browser(database) as client:
        shown = (await client.get("/")).text
        judged = (await client.get("/doctor")).text

    assert "orders" in shown
    assert "crm" in shown
    assert "No ticker leads" in shown
    assert "log &#34;orders&#34;" in judged
    assert "Spark query" not in shown


@pytest.mark.one_version
async def test_a_consumer_that_spark_reads_as_is_marked_and_whether_a_driver_runs(
    database: str, rowbus: CommandLine, ask: Ask
) -> None:
    rowbus("log", "install")
    rowbus("log", "create", "orders")
    ask("select pgq.register_consumer('orders', 'lake')")

    async with browser(database, WebSettings(period=0.05)) as client:
        with driver_of_spark(database, "orders", "lake"):
            await _shows(client, r"lake <span class=\"tag\">Spark query</span></th>")
        await _shows(
            client, r"lake <span class=\"tag\">Spark query</span> <span class=\"faint\">no driver runs</span>"
        )


async def _shows(client: httpx.AsyncClient, pattern: str) -> None:
    """Wait until the overview has something: it is written from the latest look."""
    async with asyncio.timeout(30):
        while not re.search(pattern, (await client.get("/")).text):  # noqa: ASYNC110 - the page changes by itself
            await asyncio.sleep(0.05)
