"""The overview, on a real database."""

from __future__ import annotations

import asyncio
import re
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.messages.address import QueueAddress
from rowbus.transport.queues.diagnosis import Finding, Level
from rowbus.transport.queues.shape import QueueShape
from rowbus.web import overview
from rowbus.web.overview import Endpoint, endpoints, page_of, queues_wanted, to_do, with_lanes
from rowbus.web.sampling.snapshot import QueueFigures, Snapshot, instances
from rowbus.web.settings import WebSettings
from rowbus.web.site import Site
from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.spark_driver import driver_of_spark
from tests.web.conftest import browser, confirm, site_of, token_of
from tests.web.shop import Shop

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
    assert '#messages">1</a></td>' in shown
    assert "error queue" in shown


async def test_acknowledgements_for_servicecontrol_are_no_failures(
    database: str, rowbus: CommandLine, ask: Ask
) -> None:
    rowbus("queue", "create", "error")
    failure = '{"NServiceBus.FailedQ": "Sales"}'
    acknowledgement = '{"NServiceBus.ControlMessage": "True", "ServiceControl.Retry.Successful": "now"}'
    for headers in (failure, acknowledgement, acknowledgement):
        ask(f"""insert into "error" (id, headers, body) values (gen_random_uuid(), '{headers}', '')""")
    async with browser(database, WebSettings(period=0.05)) as client, asyncio.timeout(30):
        while "In 1 group<" not in (page := (await client.get("/")).text):  # noqa: ASYNC110 - the index is filled in the background
            await asyncio.sleep(0.05)
    assert re.search(r"Failed</span><span class=.figure.>1</span>", page)


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


def test_a_queue_of_unknown_depth_comes_after_those_with_messages() -> None:
    depths = {"Archive": None, "Billing": 1, "Sales": 2}
    queues = [
        QueueFigures(QueueShape(QueueAddress("public", name), (), (), None), depth)
        for name, depth in depths.items()
    ]

    found = queues_wanted(queues, text="", order="depth")

    assert [queue.address.table for queue in found] == ["Sales", "Billing", "Archive"]


def test_of_many_queues_what_needs_attention_comes_first_and_fifty_are_a_page() -> None:
    names = [f"Quiet{number}" for number in range(116)] + ["audit", "Sales", "error", "Billing"]
    depths = {"audit": 9, "Sales": 5, "error": 1, "Billing": 3}
    queues = [
        QueueFigures(QueueShape(QueueAddress("public", name), (), (), None), depths.get(name, 0))
        for name in names
    ]

    found = queues_wanted(queues, text="", order="", troubled={'"public"."Billing"'})
    parts = [page_of(found, asked) for asked in ("", "2", "3", "99", "x")]

    assert [queue.address.table for queue in found[:3]] == ["Billing", "error", "Sales"]
    assert [(len(some), number, pages) for some, number, pages in parts] == [
        (50, 1, 3),
        (50, 2, 3),
        (20, 3, 3),
        (20, 3, 3),
        (50, 1, 3),
    ]


@pytest.mark.one_version
async def test_a_filter_stays_on_the_next_page(database: str, ask: Ask) -> None:
    columns = "id uuid primary key, expires timestamp, headers text not null, body bytea, seq serial unique"
    ask(
        f"do $$ begin for n in 1..60 loop execute 'create table \"Sales' || n || '\" ({columns})'; end loop; end $$"
    )
    async with browser(database) as client:
        first = (await client.get("/", params={"q": "Sales"})).text

    assert first.count('href="/?q=Sales&amp;page=2"') == 1
    assert "1 to 50 of 60" in first


def test_an_endpoints_lanes_are_counted_with_it_and_open_below_it() -> None:
    def figures(name: str, depth: int, **more: object) -> QueueFigures:
        shape = QueueShape(QueueAddress("public", name), (), (), None)
        return QueueFigures(shape, depth, in_hand=1, **more)  # type: ignore[arg-type]  # each by its name

    early, late = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC)
    queues = [
        figures("Other#1", 9),
        figures("Sales", 1, oldest_sent=late, rate_in=1.0),
        figures("Sales#0", 2, oldest_sent=early),
        figures("Sales#1", 4, is_exact=False, rate_in=2.0),
    ]

    other, sales = with_lanes(queues)

    assert other is queues[0]
    assert (sales.depth, sales.is_exact, sales.in_hand, sales.rate_in) == (7, False, 3, 3.0)
    assert (sales.oldest_sent, sales.lanes) == (early, tuple(queues[2:]))


def test_only_findings_that_are_not_in_order_are_to_do() -> None:
    findings = tuple(Finding(level, "Sales", level.name) for level in Level)

    assert [finding.level for finding in to_do(Snapshot(findings=findings))] == [
        level for level in Level if level.name != "OK"
    ]


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
async def test_an_unreachable_database_is_said_and_its_address_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with browser("postgresql://ada:sesame@127.0.0.1:1/shop") as client:
        answer = await client.get("/")
        site: Site = client.site  # type: ignore[attr-defined]  # a note of the fixture's
        await site.sampler.look()

    assert answer.status_code == 200
    assert "cannot be reached" in answer.text
    assert "sesame" not in answer.text + caplog.text
    assert [one.levelname for one in caplog.records if "Looking at the database" in one.message] == [
        "WARNING"
    ]


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
            await _shows(client, r"lake</a> <span class=\"tag\">Spark query</span></th>")
        await _shows(
            client,
            r"lake</a> <span class=\"tag\">Spark query</span> <span class=\"faint\">no driver runs</span>",
        )


async def _shows(client: httpx.AsyncClient, pattern: str) -> None:
    """Wait until the overview has something: it is written from the latest look."""
    async with asyncio.timeout(30):
        while not re.search(pattern, (await client.get("/")).text):  # noqa: ASYNC110 - the page changes by itself
            await asyncio.sleep(0.05)


async def working(client: httpx.AsyncClient, wanted: dict[str, int]) -> list[Endpoint]:
    """Wait until the page shows these endpoints, each with as many processes, and no other."""
    async with asyncio.timeout(60):
        while True:
            await client.get("/")
            site_of(client).sampler.hasten()
            await asyncio.sleep(0.02)
            found = endpoints(site_of(client).sampler.snapshot)
            if {one.queue.address.table: one.processes for one in found} == wanted:
                return found


def idle(name: str, dsn: str) -> rowbus.Endpoint:
    return rowbus.Endpoint(name, database=dsn, settings=rowbus.EndpointSettings(concurrency=1))


def test_groups_of_failures_are_counted_once_all_error_queues_were_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def groups(*counts: int | None) -> int | None:
        queues = [SimpleNamespace(depth=1, groups=count) for count in counts]
        visit: Any = SimpleNamespace(site=None, snapshot=SimpleNamespace(error_queues=lambda: queues))
        return overview._groups(visit)

    kept = SimpleNamespace(groups=lambda _site, queue: queue.groups)
    monkeypatch.setattr(overview, "indexes", lambda _site: kept)
    assert [groups(2, 3), groups(2, None), groups()] == [5, None, None]


def test_a_look_at_the_instances_does_not_count_itself(database: str) -> None:
    with (
        psycopg.connect(database, application_name="rowbus Sales"),
        Database(make_conninfo(database, application_name="rowbus Billing")).session() as looking,
    ):
        assert [found.name for found in looking.run(instances())] == ["rowbus Sales"]


async def test_live_instances_are_shown_for_each_endpoint(database: str) -> None:
    elsewhere = make_conninfo(
        database, keepalives_idle="77"
    )  # a connection of its own, as another process has
    began = datetime.now(UTC) - timedelta(minutes=1)
    async with browser(database, WebSettings(period=0.05)) as client:
        async with idle("Sales", database), idle("Billing", database):
            await working(client, {"Sales": 1, "Billing": 1})
            async with idle("Sales", elsewhere):
                billing, sales = await working(client, {"Sales": 2, "Billing": 1})
                shown = (await client.get("/")).text
            await working(client, {"Sales": 1, "Billing": 1})
        await working(client, {})

    assert billing.places == ["the server's machine"]
    assert sales.places == ["the server's machine (2)"]
    assert billing.since is not None
    assert sales.since is not None
    assert sales.latest is not None
    assert began < sales.since == billing.since < sales.latest  # the first two share a connection
    assert "the server&#39;s machine (2)" in shown
    assert "pg_read_all_stats" not in shown


async def test_one_that_stops_while_others_of_its_process_go_on_is_gone(database: str) -> None:
    async with browser(database, WebSettings(period=0.05)) as client, idle("Sales", database):
        async with idle("Billing", database):
            await working(client, {"Sales": 1, "Billing": 1})
        await working(client, {"Sales": 1})


async def test_an_endpoint_that_went_stays_red_with_what_waits_for_it(database: str) -> None:
    async with browser(database, WebSettings(period=0.05)) as client:
        async with idle("Sales", database):
            await working(client, {"Sales": 1})
        with psycopg.connect(database) as connection:
            rowbus.Client(connection).send("Sales", {}, type="Shop.Place")
        async with asyncio.timeout(60):
            while "1 wait" not in (shown := (await client.get("/")).text):
                pass

        async with idle("Sales", database):
            await working(client, {"Sales": 1})
            back = (await client.get("/")).text

    assert 'class="notice fail"' in shown
    assert "gone since" in shown
    assert "last from the server&#39;s machine" in shown
    assert "gone since" not in back


async def test_an_instance_is_shown_again_after_its_connection_was_lost(database: str, ask: Ask) -> None:
    async with browser(database, WebSettings(period=0.05)) as client, idle("Sales", database):
        (before,) = await working(client, {"Sales": 1})
        ask(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'rowbus Sales'"
        )
        async with asyncio.timeout(60):
            while (await working(client, {"Sales": 1}))[0].since == before.since:
                pass


@pytest.mark.one_version
async def test_a_role_that_may_not_see_sessions_is_told(database: str, rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales")
    with Shop(database).viewing(SALES) as dsn:
        async with idle("Sales", database), browser(dsn, WebSettings(period=0.05)) as client:
            (sales,) = await working(client, {"Sales": 1})
            shown = (await client.get("/")).text

    assert (sales.places, sales.since) == (["hidden from this role"], None)
    assert "grant pg_read_all_stats to ROLE" in shown


async def test_an_endpoint_is_scaled_from_the_page_until_that_is_ended(database: str, ask: Ask) -> None:
    form = {"kind": "workers", "name": "Sales", "amount": "4", "why": "<b>a rush</b>", "minutes": ""}
    async with browser(database, WebSettings(period=0.05)) as client:
        await confirm(client, "/pauses/scale", form)
        said = ask('select kind, name, amount, until from "Rowbus.Pauses"')
        listed = (await client.get("/pauses")).text
        for wrong in (
            {"amount": "0"},
            {"amount": "1001"},
            {"amount": "٣"},
            {"kind": "endpoint"},
            {"kind": "limit"},
            {"kind": "limit", "name": "/Shop.PlaceOrder"},
            {"why": ""},
        ):
            refused = await client.post("/pauses/scale", data={"csrf": token_of(client), **form, **wrong})
            assert "That did not work" in refused.text
        await confirm(client, "/pauses/unscale", {"kind": "workers", "name": "Sales"})
        limit = {"kind": "limit", "name": "Sales/Shop.PlaceOrder"}
        await confirm(client, "/pauses/scale", form | limit)
        limited = ask('select kind, name, amount from "Rowbus.Pauses"')
        await confirm(client, "/pauses/unscale", limit)

    assert said == [("workers", "Sales", 4, None)]
    assert limited == [("limit", "Sales/Shop.PlaceOrder", 4)]
    assert "workers of Sales" in listed
    assert "&lt;b&gt;a rush&lt;/b&gt;" in listed
    assert "Nothing is paused." in listed
    assert ask('select count(*) from "Rowbus.Pauses"') == [(0,)]
    assert ask('select action, subject from "Rowbus.Operations" order by began') == [
        ("scale", "workers of Sales: 4, <b>a rush</b>"),
        ("end a scale", "workers of Sales"),
        ("scale", "limit of Sales/Shop.PlaceOrder: 4, <b>a rush</b>"),
        ("end a scale", "limit of Sales/Shop.PlaceOrder"),
    ]


async def test_an_endpoint_is_paused_and_resumed_from_the_page(database: str, ask: Ask) -> None:
    form = {"kind": "endpoint", "name": "Sales", "why": "<b>a deploy</b>", "minutes": "30"}
    async with browser(database, WebSettings(period=0.05)) as client:
        await confirm(client, "/pauses/add", form)
        paused = ask("select kind, name, person like '%by ticket', until > now() from \"Rowbus.Pauses\"")
        listed = (await client.get("/pauses")).text
        async with asyncio.timeout(60):
            while "is paused by" not in (overview := (await client.get("/")).text):
                pass
        await confirm(client, "/pauses/end", {"kind": "endpoint", "name": "Sales"})
        refused = await client.post("/pauses/add", data={"csrf": token_of(client), **form, "minutes": "-1"})

    assert paused == [("endpoint", "Sales", True, True)]
    assert "&lt;b&gt;a deploy&lt;/b&gt;" in listed
    assert "&lt;b&gt;a deploy&lt;/b&gt;" in overview
    assert "The minutes are a number" in refused.text
    assert ask('select count(*) from "Rowbus.Pauses"') == [(0,)]
    assert ask('select action, subject from "Rowbus.Operations" order by began') == [
        ("pause", "endpoint Sales: <b>a deploy</b>"),
        ("resume", "endpoint Sales"),
    ]
