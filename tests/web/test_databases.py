"""The page on every database: the overview, delayed messages and subscriptions, to read and to act on."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from urllib.parse import unquote

import httpx
import pytest

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.transport.delayed.installer import create_delayed
from rowbus.transport.pubsub.table import create_subscriptions
from rowbus.transport.recoverability.failures.table import failures_table
from tests.conformance.backend import Backend
from tests.conformance.on_postgresql import PostgreSQL
from tests.conformance.on_sqlserver import SqlServer
from tests.web.conftest import browser, confirm, site_of
from tests.web.failures import text_of

HEADERS = json.dumps({Header.MESSAGE_ID: "reminder-1", Header.ENCLOSED_MESSAGE_TYPES: "Shop.RemindToPay"})
BODY = b'{"order_id": "R1"}'
BYTES = b"\xff\xfe no text"


def failed_headers(message_id: str, queue: QueueAddress) -> str:
    """Return the headers of a message that failed in a queue, with and without escapes of JSON's."""
    headers = {
        Header.MESSAGE_ID: message_id,
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder",
        Header.EXCEPTION_TYPE: "shop.OutOfStockError",
        Header.EXCEPTION_MESSAGE: "nó tents",
        Header.FAILED_QUEUE: str(queue),
        Header.TIME_OF_FAILURE: "2026-05-01 12:00:00:000000 Z",
    }
    return json.dumps(headers, ensure_ascii=message_id.endswith("1"))


@pytest.fixture
async def tables(backend: Backend) -> dict[str, QueueAddress]:
    """Make queues, a table of delayed messages and one of subscriptions; return their addresses."""
    names = ("Sales", "Billing", "Sales.Delayed", "SubscriptionRouting")
    made = {name: backend.queue(name) for name in names}
    for name in ("Sales", "Billing"):
        await backend.create_queue(name)
    session = await backend.database.connect()
    try:
        await create_delayed(session, made["Sales.Delayed"])
        await create_subscriptions(session, made["SubscriptionRouting"])
    finally:
        await session.close()
    return made


@pytest.fixture
async def client(backend: Backend, tables: dict[str, QueueAddress]) -> AsyncIterator[httpx.AsyncClient]:
    assert tables
    async with browser(backend.dsn) as client:
        yield client


async def shown(client: httpx.AsyncClient, path: str, **query: str) -> str:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, text_of(answer.text)
    return answer.text


def rows_of(page: str) -> list[str]:
    """Return the rows that a page leads to."""
    return [unquote(row) for row in re.findall(r"row=([^&\"]+)", page)]


def is_named(listed: QueueAddress, written: QueueAddress) -> bool:
    """Say whether it is this table; Babelfish lists names in small letters."""
    return str(listed).lower() == str(written).lower()


async def test_the_overview_shows_queues_and_delayed_messages(
    backend: Backend, tables: dict[str, QueueAddress]
) -> None:
    await backend.insert("Sales", HEADERS)
    await backend.insert_delayed("Sales.Delayed", HEADERS, BODY, due_in=600)
    async with browser(backend.dsn) as client:
        page = await shown(client, "/")
        snapshot = site_of(client).sampler.snapshot
        doctor = await shown(client, "/doctor")
        measured = await shown(client, "/metrics")

    assert snapshot.notes == {}
    (sales,) = [one for one in snapshot.queues if is_named(one.address, tables["Sales"])]
    assert (sales.depth, sales.is_exact) == (1, True)
    (waiting,) = [one for one in snapshot.delayed if is_named(one.address, tables["Sales.Delayed"])]
    assert (waiting.state.waiting, waiting.state.overdue) == (1, 0)
    assert "rowbus_queue_depth" in measured
    assert ">sales" in page.lower()
    assert "finding" in doctor.lower()


async def test_a_delayed_message_is_found_read_and_cancelled(
    backend: Backend, tables: dict[str, QueueAddress], client: httpx.AsyncClient
) -> None:
    table = str(tables["Sales.Delayed"])
    for due_in in (600, -5):
        await backend.insert_delayed("Sales.Delayed", HEADERS, BODY, due_in=due_in)
    listed = await shown(client, "/delayed/table", table=table, text="reminder-1")
    rows = rows_of(listed)
    opened = await shown(client, "/delayed/message", table=table, row=rows[-1])
    ended = await confirm(client, "/delayed/cancel", {"table": table, "row": rows[-1]})

    assert len(rows) == 2
    assert "&#34;order_id&#34;: &#34;R1&#34;" in opened
    assert "Cancel …" in opened
    assert "The message is cancelled." in ended.text
    assert [row.due_in < 0 for row in await backend.delayed_rows("Sales.Delayed")] == [True]


async def test_a_delayed_message_is_sent_now(
    backend: Backend, tables: dict[str, QueueAddress], client: httpx.AsyncClient
) -> None:
    table = str(tables["Sales.Delayed"])
    await backend.insert_delayed("Sales.Delayed", HEADERS, BODY, due_in=600)
    (row,) = rows_of(await shown(client, "/delayed/table", table=table))
    ended = await confirm(client, "/delayed/send-now", {"table": table, "row": row})

    assert "The message is in its queue." in ended.text
    assert await backend.delayed_rows("Sales.Delayed") == []
    assert [row.body for row in await backend.rows("Sales")] == [BODY]


async def test_a_dead_subscription_is_marked_and_ended(
    backend: Backend, tables: dict[str, QueueAddress], client: httpx.AsyncClient
) -> None:
    await backend.subscribe("Billing", "Shop.OrderPlaced")
    await backend.subscribe("Loyalty", "Shop.OrderPlaced")
    page = await shown(client, "/subscriptions")
    named = {"table": str(tables["SubscriptionRouting"]), "topic": "Shop.OrderPlaced"}
    ended = await confirm(client, "/subscriptions/end", {**named, "endpoint": "Loyalty"})
    await confirm(client, "/subscriptions/end", {**named, "endpoint": "Billing"}, expect=503)

    assert (page.count("dead: no such queue"), page.count('tag ok">ok')) == (1, 1)
    assert "Loyalty no longer subscribes" in ended.text
    assert [topic for _, topic in await backend.subscriptions()] == ["Shop.OrderPlaced"]
    assert "end a subscription" in await shown(client, "/operations")


async def test_failed_messages_are_listed_found_read_and_sent_back(
    backend: Backend, tables: dict[str, QueueAddress], client: httpx.AsyncClient
) -> None:
    await backend.create_queue("error")
    queue = str(backend.queue("error"))
    for number, body in enumerate((b'{"order_id": "R1"}', b'{"order_id": "R2"}', BYTES)):
        await backend.insert("error", failed_headers(f"failed-{number}", tables["Sales"]), body)
    grouped = await shown(client, "/failed", queue=queue)
    listed = await shown(client, "/failed", queue=queue, text="R2")
    unescaped = await shown(client, "/failed", queue=queue, text="nó tents")
    (row,) = set(re.findall(r"/failed/message/([0-9a-f-]+)", listed))
    opened = await shown(client, f"/failed/message/{row}", queue=queue)
    ended = await confirm(client, "/failed/retry", {"queue": queue, "which": "ticked", "row": row})

    assert "shop.OutOfStockError" in grouped
    assert "3 messages" in text_of(grouped)
    assert len(set(re.findall(r"/failed/message/([0-9a-f-]+)", unescaped))) == 3
    assert "&#34;order_id&#34;: &#34;R2&#34;" in opened
    assert "1 message sent back" in ended.text
    assert [one.body for one in await backend.rows("Sales")] == [b'{"order_id": "R2"}']
    assert await backend.count("error") == 2


async def test_the_newest_copies_that_hold_a_text_are_found_however_it_is_written(backend: Backend) -> None:
    await backend.create_queue("audit")
    table = failures_table(backend.queue("audit"))
    rows = [
        await backend.insert("audit", failed_headers(f"copy-{number}", backend.queue("Sales")), BODY)
        for number in range(3)
    ]
    session = await backend.database.connect()
    try:
        found = await session.run(table.newest_with("nó tents", looked_at=2, most=5))
    finally:
        await session.close()

    assert [copy.row_id for copy in found] == rows[1:]


async def test_a_failed_message_is_edited_and_sent_back(
    backend: Backend, tables: dict[str, QueueAddress], client: httpx.AsyncClient
) -> None:
    await backend.create_queue("error")
    queue = str(backend.queue("error"))
    row = await backend.insert("error", failed_headers("failed-1", tables["Sales"]), BODY)
    ended = await confirm(client, "/failed/send", {"queue": queue, "row": row, "body": '{"order_id": "R3"}'})

    assert "Sent to" in ended.text
    assert [json.loads(one.body or b"") for one in await backend.rows("Sales")] == [{"order_id": "R3"}]
    assert await backend.count("error") == 0


@pytest.mark.only(SqlServer.name, reason="PostgreSQL has all of it")
async def test_what_is_of_postgresql_alone_is_said(
    backend: Backend, tables: dict[str, QueueAddress], client: httpx.AsyncClient
) -> None:
    await backend.create_queue("error")
    row = await backend.insert("error", failed_headers("failed-1", tables["Sales"]), BODY)
    refused = await confirm(
        client,
        "/failed/discard",
        {"queue": str(backend.queue("error")), "which": "ticked", "row": row},
        expect=400,
    )
    logs = await shown(client, "/logs")
    overview = await shown(client, "/")

    assert "`rowbus errors discard` deletes it for good" in text_of(refused.text)
    assert await backend.count("error") == 1
    assert "Event logs are in PostgreSQL only" in logs
    assert "Which endpoints and programs are connected is shown on PostgreSQL only" in overview


@pytest.mark.only(PostgreSQL.name, reason="others cannot tell")
async def test_on_postgresql_endpoints_and_programs_have_their_place(client: httpx.AsyncClient) -> None:
    overview = await shown(client, "/")

    assert "No endpoint of Rowbus" in overview
    assert "on PostgreSQL only" not in overview
