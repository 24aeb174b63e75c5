"""Bridges: messages drained into a log, events sent to a queue: each in one transaction, unchanged on the way."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

import rowbus
from rowbus.bridges import BATCH_SIZE, QueueDrain
from rowbus.database.postgresql.database import Database
from rowbus.errors import LogNotFoundError, QueueNotFoundError
from rowbus.log.archive import archived_message
from rowbus.messages.address import QueueAddress
from rowbus.transport.composition import identity_of
from rowbus.transport.queues.installer import create_queue
from tests.conformance.transport import eventually

ERROR = QueueAddress("public", "error")
BILLING = QueueAddress("public", "Billing")
PATIENCE = 90.0

Message = tuple[str, bytes | None]  # header text and body

HEADERS = '{"NServiceBus.MessageId":"1", "NServiceBus.EnclosedMessageTypes":"Shop.PlaceOrder"}'
MESSAGES: list[Message] = [
    (HEADERS, b'{"order":1}'),
    ('{"NServiceBus.MessageId":"2"}', b"\xff\x00"),
    ('{ "NServiceBus.MessageId" : "3" }', b""),
    ("not JSON", b"\xef\xbb\xbftext"),
    ("", None),
]


@dataclass
class Bench:
    """A database with a log `orders` and queues `error` and `Billing`."""

    dsn: str
    connection: psycopg.AsyncConnection[tuple[Any, ...]]

    async def values(self, query: str, *parameters: object) -> list[Any]:
        cursor = await self.connection.execute(query.encode(), parameters or None)
        return await cursor.fetchall() if cursor.description else []

    async def put(self, address: QueueAddress, messages: list[Message]) -> None:
        """Insert messages as other software might."""
        query = sql.SQL("insert into {} (id, headers, body) values (%s, %s, %s)").format(_table(address))
        for headers, body in messages:
            await self.connection.execute(query, [uuid.uuid4(), headers, body])

    async def messages(self, address: QueueAddress) -> list[Message]:
        cursor = await self.connection.execute(
            sql.SQL("select headers, body from {} order by seq").format(_table(address))
        )
        return [(headers, body) for headers, body in await cursor.fetchall()]

    async def events(self) -> list[rowbus.Event]:
        """Return the committed events of the log."""
        ((table,),) = await self.values("select queue_data_pfx from pgq.queue")
        columns = (
            "ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        )
        return [
            rowbus.Event(*row) for row in await self.values(f"select {columns} from {table} order by ev_id")
        ]

    async def tick(self) -> None:
        """Make events ready for consumers."""
        await self.values("select pgq.force_tick('orders')")
        await self.values("select pgq.ticker('orders')")

    def drain(self, batch_size: int = BATCH_SIZE) -> QueueDrain:
        return QueueDrain(Database(self.dsn), ERROR, "orders", batch_size=batch_size)


def _table(address: QueueAddress) -> sql.Identifier:
    return sql.Identifier(address.schema, address.table)


@pytest.fixture
def log_script() -> str:
    return "select pgq.create_queue('orders')"


@pytest.fixture
async def bench(log_database: str) -> AsyncIterator[Bench]:
    async with await psycopg.AsyncConnection.connect(log_database, autocommit=True) as connection:
        session = await Database(log_database).connect()
        for address in (ERROR, BILLING):
            await create_queue(session, address)
        await session.close()
        yield Bench(log_database, connection)


def kept(events: list[rowbus.Event]) -> list[Message]:
    found = [archived_message(event) for event in events]
    return [(message.headers, message.body) for message in found if message is not None]


# ------------------------------------------------------------------------------------------------------ from a queue


async def test_draining_moves_every_message_and_keeps_it_as_it_was(bench: Bench) -> None:
    await bench.put(ERROR, MESSAGES)

    assert await rowbus.drain_queue("error", "orders", database=bench.dsn, batch_size=2) == len(MESSAGES)

    assert await bench.messages(ERROR) == []
    events = await bench.events()
    assert kept(events) == MESSAGES
    assert [event.type for event in events] == ["Shop.PlaceOrder", None, None, None, None]
    assert {event.extra3 for event in events} == {'"public"."error"'}


async def test_a_batch_leaves_the_queue_and_arrives_in_the_log_in_one_transaction(bench: Bench) -> None:
    await bench.put(ERROR, MESSAGES)
    await bench.values("create table removed (txid bigint)")
    await bench.values(
        "create function note() returns trigger language plpgsql as"
        " $$ begin insert into removed values (txid_current()); return null; end $$"
    )
    await bench.values("create trigger note after delete on error for each row execute function note()")

    await bench.drain(batch_size=3).drain()

    removed = [txid for (txid,) in await bench.values("select txid from removed order by txid")]
    assert removed == sorted(event.txid for event in await bench.events())
    assert len(set(removed)) == 2


async def test_messages_in_somebodys_hands_stay(bench: Bench) -> None:
    await bench.put(ERROR, MESSAGES)
    async with await psycopg.AsyncConnection.connect(bench.dsn) as other:
        await other.execute("select from error where headers = %s for update", [HEADERS])
        assert await bench.drain().drain() == len(MESSAGES) - 1

    assert await bench.messages(ERROR) == MESSAGES[:1]


async def test_a_missing_log_or_queue_is_named_and_nothing_is_moved(bench: Bench) -> None:
    await bench.put(ERROR, MESSAGES)

    with pytest.raises(LogNotFoundError, match="rowbus log create"):
        await rowbus.drain_queue("error", "nowhere", database=bench.dsn)
    with pytest.raises(QueueNotFoundError):
        await rowbus.drain_queue("nowhere", "orders", database=bench.dsn)

    assert await bench.messages(ERROR) == MESSAGES
    assert await bench.events() == []


async def test_a_message_that_comes_below_the_last_position_is_drained_too(bench: Bench) -> None:
    """One that another transaction gave back, or that was committed late, while others were drained."""
    await bench.put(ERROR, MESSAGES[:1] * 40)
    drain = bench.drain(batch_size=30)
    async with await psycopg.AsyncConnection.connect(bench.dsn) as other:
        await other.execute("select from error order by seq limit 1 for update")
        session = await Database(bench.dsn).connect()
        await drain._move(session, -(2**31))
        await session.close()

    assert await drain.drain() == 10
    assert await bench.messages(ERROR) == []


@asynccontextmanager
async def following(drain: QueueDrain) -> AsyncIterator[None]:
    await drain.start()
    try:
        yield
    finally:
        await drain.stop(PATIENCE)


async def test_following_moves_what_comes(bench: Bench) -> None:
    drain = bench.drain()
    async with following(drain), await psycopg.AsyncConnection.connect(bench.dsn, autocommit=True) as sender:
        for count in range(1, 4):
            await rowbus.AsyncClient(sender).send("error", {"n": count}, type="Shop.Order")

            async def moved(wanted: int = count) -> bool:
                return len(await bench.events()) == wanted

            await eventually(moved)

    assert drain.moved == 3


async def test_following_outlives_a_broken_connection(bench: Bench) -> None:
    async with following(bench.drain()):
        await bench.values(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await bench.put(ERROR, MESSAGES)

        async def moved() -> bool:
            return len(await bench.events()) == len(MESSAGES)

        await eventually(moved)

    assert await bench.messages(ERROR) == []


async def test_following_does_not_begin_where_something_is_missing(bench: Bench) -> None:
    await bench.put(ERROR, MESSAGES[:1])
    drain = QueueDrain(Database(bench.dsn), ERROR, "nowhere")
    with pytest.raises(LogNotFoundError):
        await drain.start()
    await drain.stop()

    assert await bench.messages(ERROR) == MESSAGES[:1]


# -------------------------------------------------------------------------------------------------------- to a queue

FAST = rowbus.ConsumerSettings(poll_delay=timedelta(milliseconds=20), max_retries=0)


@rowbus.command("Shop.Bill")
@dataclass
class Bill:
    order: int


async def forwarded(
    bench: Bench, wanted: int, message: Callable[[rowbus.Event], object] | None = None, **sender: str
) -> list[Message]:
    """Forward events until so many messages are in the queue; return them."""
    log = rowbus.AsyncLog(bench.dsn, "orders")
    rowbus.forward_events(log, "bridge", "Billing", message=message, settings=FAST, **sender)

    async def arrived() -> bool:
        await bench.tick()
        return len(await bench.messages(BILLING)) >= wanted

    async with log:
        await eventually(arrived)
    return await bench.messages(BILLING)


async def registered(bench: Bench) -> None:
    await bench.values("select pgq.register_consumer('orders', 'bridge')")


async def test_what_was_drained_is_sent_as_it_was(bench: Bench) -> None:
    await registered(bench)
    there = MESSAGES[:3]
    await bench.put(ERROR, there)
    await bench.drain().drain()

    found = await forwarded(bench, len(there))

    assert [body for _, body in found] == [body for _, body in there]
    assert [headers_of(text) for text, _ in found] == [headers_of(text) for text, _ in there]


def headers_of(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


async def test_an_event_becomes_a_message_of_its_type_with_its_data(bench: Bench) -> None:
    await registered(bench)
    await rowbus.AsyncLog(bench.connection, "orders").append({"order": 1}, type="Shop.OrderPlaced")
    await rowbus.AsyncLog(bench.connection, "orders").append("plain", type="Shop.Note")

    (first, first_body), (second, second_body) = await forwarded(bench, 2)

    assert (first_body, second_body) == (b'{"order":1}', b"plain")
    headers = headers_of(first)
    assert headers["NServiceBus.EnclosedMessageTypes"] == "Shop.OrderPlaced"
    assert headers["NServiceBus.ContentType"] == "application/json"
    assert (headers["Rowbus.Log"], headers["Rowbus.EventId"]) == ("orders", "1")
    assert headers_of(second)["NServiceBus.ContentType"] == "text/plain"
    assert identity_of().originating_headers().items() <= headers.items()


async def test_a_message_made_of_an_event_says_who_sends_it(bench: Bench) -> None:
    await registered(bench)
    await rowbus.AsyncLog(bench.connection, "orders").append({"order": 1}, type="Shop.OrderPlaced")

    ((text, _),) = await forwarded(
        bench, 1, endpoint="Bridge", machine="machine-9", host_id="0696488b-a526-b5ea-d0a4-fd9bb712ddbd"
    )

    headers = headers_of(text)
    assert headers["NServiceBus.OriginatingEndpoint"] == "Bridge"
    assert headers["NServiceBus.OriginatingMachine"] == "machine-9"
    assert headers["$.diagnostics.originating.hostid"] == "0696488ba526b5ead0a4fd9bb712ddbd"


async def test_a_function_makes_the_message_or_none(bench: Bench) -> None:
    await registered(bench)
    await rowbus.AsyncLog(bench.connection, "orders").append_many(("kind", {"order": n}) for n in range(6))

    def bill(event: rowbus.Event) -> object:
        data = event.json()
        assert isinstance(data, dict)
        order = data["order"]
        if order % 3 == 0:
            return None
        return Bill(order) if order % 3 == 1 else {"named": "by the event"}

    found = await forwarded(bench, 4, message=bill)

    types = [headers_of(text)["NServiceBus.EnclosedMessageTypes"] for text, _ in found]
    assert types == ["Shop.Bill", "kind", "Shop.Bill", "kind"]
    assert found[0][1] == b'{"order":1}'


async def test_an_event_that_makes_no_message_becomes_a_dead_letter_and_holds_nobody_up(bench: Bench) -> None:
    await registered(bench)
    await rowbus.AsyncLog(bench.connection, "orders").append_many(
        [("good", "1"), (None, "bad"), ("good", "2")]
    )

    found = await forwarded(bench, 2)

    assert [body for _, body in found] == [b"1", b"2"]
    (dead,) = await rowbus.AsyncLog(bench.dsn, "orders").dead_letters("bridge")
    assert dead.event.data == "bad"
    assert "no type" in dead.reason


async def test_a_message_and_the_consumers_position_commit_together(bench: Bench) -> None:
    await registered(bench)
    await rowbus.AsyncLog(bench.connection, "orders").append("1", type="good")
    await bench.values("create table noted (place text, txid bigint)")
    await bench.values(
        "create function note() returns trigger language plpgsql security definer as"
        " $$ begin insert into public.noted values (tg_table_name, txid_current()); return null; end $$"
    )
    await bench.values('create trigger note after insert on "Billing" for each row execute function note()')
    await bench.values(
        "create trigger note after update of sub_last_tick on pgq.subscription for each row execute function note()"
    )

    await forwarded(bench, 1)

    noted = await bench.values("select place, txid from noted")
    sent = [txid for place, txid in noted if place == "Billing"]
    assert len(sent) == 1
    assert ("subscription", *sent) in noted
