"""Each change of a captured table says what caused it: the message, its handler, the saga, the event, or a request.

Invariant of every test: what caused one change is never said of another.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import psycopg
import pytest

import rowbus
from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header
from tests.conformance.transport import eventually
from tests.log.orders import QUICK, SCRIPT, Given, Orders, note, several, until

SHOP = """
select pgq.create_queue('shop');
create table orders (id text primary key, note text);
create table stock (id text primary key, note text);
select pgq.capture_table('orders', 'shop'), pgq.capture_table('stock', 'shop');
"""
MODES = [rowbus.TransactionMode.RECEIVE_ONLY, rowbus.TransactionMode.SENDS_ATOMIC_WITH_RECEIVE]
in_transaction_modes = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
INSERT = "insert into orders values (%s, %s)"
FORGOTTEN = "select current_setting('rowbus.cause', true), current_setting('rowbus.message_id', true)"


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@pytest.fixture
def log_script() -> str:
    return SHOP


class Shop:
    """An endpoint Sales, and what the log says of each row."""

    def __init__(self, dsn: str, connection: psycopg.Connection, **settings: Any) -> None:  # noqa: ANN401 - the endpoint's own
        has_none = settings.get("transaction_mode") is rowbus.TransactionMode.NONE
        given: dict[str, Any] = {"concurrency": 1, "peek_delay": timedelta(milliseconds=100), **settings}
        self.connection = connection
        self.sales = rowbus.Endpoint(
            "Sales",
            database=dsn,
            settings=rowbus.EndpointSettings(**given),
            recoverability=rowbus.Recoverability(immediate=0 if has_none else 2, delayed=0),
        )

    async def process(self, *orders: str, headers: dict[str, str] | None = None) -> list[str]:
        """Have orders wait when the endpoint starts, until it has dealt with all; return their message ids."""
        await self.sales.install()
        client = rowbus.Client(self.connection)
        ids = [client.send("Sales", PlaceOrder(order), headers=headers or {}) for order in orders]
        async with self.sales:
            await eventually(self._is_empty)
        return ids

    async def _is_empty(self) -> bool:
        return self.connection.execute('select count(*) from "Sales"').fetchall() == [(0,)]

    def changes(self, log: str = "shop") -> list[tuple[str, dict[str, Any], rowbus.Cause]]:
        """Return the table, the row and the cause of each change."""
        found = self.connection.execute(
            "select ev_extra1, ev_data::json, ev_extra4 from pgq.event_template"
            " where ev_extra1 is not null and ev_type like '{\"op\":%%' order by ev_id"
        ).fetchall()
        return [(table, row, rowbus.read_cause(cause)) for table, row, cause in found]


@pytest.fixture
def shop(log_database: str, pgq: psycopg.Connection) -> Shop:
    return Shop(log_database, pgq)


async def _writes(order: PlaceOrder, context: rowbus.Context) -> None:
    await context.connection.execute(INSERT, [order.order_id, "written"])


def _writes_in_a_thread(order: PlaceOrder, context: rowbus.SyncContext) -> None:
    context.connection.execute(INSERT, [order.order_id, "written"])


async def _writes_in_a_pipeline(order: PlaceOrder, context: rowbus.Context) -> None:
    async with context.connection.pipeline():
        await context.connection.execute(INSERT, [order.order_id, "written"])


async def _writes_in_a_block(order: PlaceOrder, context: rowbus.Context) -> None:
    async with context.connection.transaction():
        await context.connection.execute(INSERT, [order.order_id, "written"])


async def _copies(order: PlaceOrder, context: rowbus.Context) -> None:
    async with context.connection.cursor().copy("copy orders from stdin") as copy:
        await copy.write_row([order.order_id, "written"])


async def _writes_by_a_task(order: PlaceOrder, context: rowbus.Context) -> None:
    await asyncio.create_task(_writes(order, context))


WAYS = [
    _writes,
    _writes_in_a_thread,
    _writes_in_a_pipeline,
    _writes_in_a_block,
    _copies,
    _writes_by_a_task,
]


@in_transaction_modes
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_change_names_its_own_message_and_handler(
    log_database: str,
    pgq: psycopg.Connection,
    mode: rowbus.TransactionMode,
    way: Callable[..., Any],
    batch_size: int,
) -> None:
    shop = Shop(log_database, pgq, transaction_mode=mode, batch_size=batch_size)
    shop.sales.handler(way)
    orders = [str(number) for number in range(5)]
    ids = await shop.process(*orders)

    handler = f"{__name__}.{way.__name__}"
    assert {row["id"]: cause for _, row, cause in shop.changes()} == {
        order: rowbus.Cause(message_id, message_id, "Shop.PlaceOrder", handler, "Sales")
        for order, message_id in zip(orders, ids, strict=True)
    }


async def test_the_settings_are_there_for_triggers_of_ones_own(shop: Shop) -> None:
    said: list[Any] = []

    @shop.sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        names = ("message_id", "conversation_id", "message_type", "handler", "endpoint", "user", "request")
        query = "select " + ", ".join(f"current_setting('rowbus.{name}')" for name in names)
        cursor = await context.connection.execute(query.encode())
        said.append(await cursor.fetchone())

    [message_id] = await shop.process("1", headers={Header.USER: "ann", Header.REQUEST: "POST /orders"})
    handler = f"{__name__}.{place.__qualname__}"
    assert said == [(message_id, message_id, "Shop.PlaceOrder", handler, "Sales", "ann", "POST /orders")]


async def test_each_handler_of_a_message_is_named_and_so_is_a_step_before_them(shop: Shop) -> None:
    async def step(context: rowbus.StepContext, proceed: rowbus.Proceed) -> None:
        await context.connection.execute(INSERT, ["by the step", ""])
        await proceed()

    async def first(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(INSERT, ["by the first", ""])

    async def second(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(INSERT, ["by the second", ""])

    shop.sales.use(step)
    shop.sales.handler(first)
    shop.sales.handler(second)
    [message_id] = await shop.process("1")
    assert [(row["id"], cause.message_id, cause.handler) for _, row, cause in shop.changes()] == [
        ("by the step", message_id, None),
        ("by the first", message_id, f"{__name__}.{first.__qualname__}"),
        ("by the second", message_id, f"{__name__}.{second.__qualname__}"),
    ]


async def test_a_second_attempt_says_it_again(shop: Shop) -> None:
    attempts: list[str] = []

    @shop.sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(INSERT, [order.order_id, ""])
        attempts.append(order.order_id)
        if len(attempts) == 1:
            raise ValueError(order.order_id)

    [message_id] = await shop.process("1")
    assert [(row["id"], cause.message_id) for _, row, cause in shop.changes()] == [("1", message_id)]


async def test_what_leaves_with_a_batch_is_caused_by_none_of_its_messages(
    log_database: str, pgq: psycopg.Connection
) -> None:
    shop = Shop(log_database, pgq, batch_size=10)

    @shop.sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        if order.order_id != "no statement":
            await context.connection.execute(INSERT, [order.order_id, ""])
        await context.send("Billing", order)

    for statement in rowbus.queue_sql("Billing"):
        pgq.execute(statement.encode())
    pgq.execute("select pgq.capture_table('\"Billing\"', 'shop', 'json', '{insert-only}')")
    await shop.process("1", "2", "no statement")
    assert [
        cause.message_id is not None for table, _, cause in shop.changes() if table == "public.orders"
    ] == [
        True,
        True,
    ]
    assert {cause for table, _, cause in shop.changes() if table == "public.Billing"} == {rowbus.Cause()}


async def test_outside_of_a_transaction_nothing_is_said(log_database: str, pgq: psycopg.Connection) -> None:
    shop = Shop(log_database, pgq, transaction_mode=rowbus.TransactionMode.NONE)
    shop.sales.handler(_writes)
    await shop.process("1", "2")
    assert [cause for _, _, cause in shop.changes()] == [rowbus.Cause()] * 2


HOSTILE = [
    'it\'s "quoted" \\ back',
    "\u0000nul",
    "größe 日本 😀",
    "x" * 5_000,
    "'); drop table orders; --",
    "%s %(x)s $1 {0}",
    "line\nbreak\t\x1b[31m",
]


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_no_text_of_a_sender_stops_or_changes_what_is_said(shop: Shop, hostile: str) -> None:
    shop.sales.handler(_writes)
    await shop.sales.install()
    headers = {
        Header.MESSAGE_ID: hostile,
        Header.CONVERSATION_ID: hostile,
        Header.ENCLOSED_MESSAGE_TYPES: "Shop.PlaceOrder",
        Header.USER: hostile,
    }
    shop.connection.execute(
        'insert into "Sales" (id, headers, body) values (%s, %s, %s)',
        [uuid.uuid4(), json.dumps(headers), b'{"order_id":"1"}'],
    )
    await shop.process()
    [(_, row, cause)] = shop.changes()
    assert (row["id"], cause.message_id, cause.conversation_id, cause.user) == ("1", *[hostile] * 3)


@dataclass
class State:
    order_id: str = ""
    times: int = 0


class Placing(rowbus.Saga[State], name="Shop.Placing"):
    @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
    async def place(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
        self.state.times += 1


@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_sagas_state_names_the_message_that_changed_it(
    log_database: str, pgq: psycopg.Connection, batch_size: int
) -> None:
    shop = Shop(log_database, pgq, batch_size=batch_size)
    shop.sales.add(Placing)
    await shop.sales.install()
    [(table,)] = pgq.execute(
        "select format('%I', relname) from pg_class where relkind = 'r' and relname ilike '%placing%'"
    ).fetchall()
    pgq.execute("select pgq.capture_table(%s::text::regclass, 'shop')", [table])
    ids = await shop.process("1", "2", "1")

    assert {cause.message_id for _, _, cause in shop.changes()} == set(ids)
    assert {cause.endpoint for _, _, cause in shop.changes()} == {"Sales"}


@pytest.mark.every_version
@pytest.mark.parametrize("format_", ["json", "url", "sql"])
@pytest.mark.parametrize("arguments", ["{}", "{when=true}"])
def test_every_format_tells_it_with_generated_code_and_without(
    pgq: psycopg.Connection, format_: str, arguments: str
) -> None:
    pgq.execute("create table t (id int primary key, note text)")
    pgq.execute("select pgq.capture_table('t', 'shop', %s, %s::text[])", [format_, arguments])
    with pgq.transaction():
        rowbus.cause(pgq, user="ann", request="7")
        pgq.execute("insert into t values (1, 'a'), (2, 'b')")
        pgq.execute("update t set note = 'c' where id = 1")
        pgq.execute("update t set id = 3 where id = 1")
        pgq.execute("delete from t where id = 2")
        pgq.execute("truncate t")
    pgq.execute("insert into t values (4, 'd')")
    told = [cause for (cause,) in pgq.execute("select ev_extra4 from pgq.event_template order by ev_id")]
    assert [rowbus.read_cause(cause).user for cause in told] == ["ann"] * 7 + [None]
    assert told[-1] is None


@pytest.mark.every_version
@pytest.mark.parametrize(
    "arguments, told",
    [
        ("{}", "ann"),
        ("{no-cause}", None),
        ("{as-pgq}", None),
        ("{ev_extra4='mine'}", "mine"),
        ("{as-pgq,backup}", None),
    ],
)
def test_a_capture_tells_causes_unless_it_is_asked_not_to(
    pgq: psycopg.Connection, arguments: str, told: str | None
) -> None:
    pgq.execute("create table t (id int primary key, note text)")
    pgq.execute("select pgq.capture_table('t', 'shop', 'json', %s::text[])", [arguments])
    with pgq.transaction():
        rowbus.cause(pgq, user="ann")
        pgq.execute("insert into t values (1, 'a')")
    [(found,)] = pgq.execute("select ev_extra4 from pgq.event_template").fetchall()
    assert (rowbus.read_cause(found).user or found) == told


def test_capturing_again_begins_and_ends_it(pgq: psycopg.Connection) -> None:
    for arguments, told in (("{no-cause}", None), ("{}", "ann"), ("{no-cause}", None)):
        pgq.execute("select pgq.capture_table('orders', 'shop', 'json', %s::text[])", [arguments])
        with pgq.transaction():
            rowbus.cause(pgq, user="ann")
            pgq.execute(INSERT, [str(uuid.uuid4()), ""])
        query = "select ev_extra4 from pgq.event_template order by ev_id desc limit 1"
        assert rowbus.read_cause(pgq.execute(query).fetchall()[0][0]).user == told


def test_a_request_holds_for_its_transaction_alone(pgq: psycopg.Connection) -> None:
    with pgq.transaction():
        headers = rowbus.cause(pgq, user="ann", request="POST /orders")
        pgq.execute(INSERT, ["1", ""])
    pgq.execute(INSERT, ["2", ""])

    told = [cause for (cause,) in pgq.execute("select ev_extra4 from pgq.event_template order by ev_id")]
    assert [rowbus.read_cause(cause) for cause in told] == [
        rowbus.Cause(user="ann", request="POST /orders"),
        rowbus.Cause(),
    ]
    assert headers == {"Rowbus.User": "ann", "Rowbus.Request": "POST /orders"}
    assert pgq.execute(FORGOTTEN).fetchone() in {("", ""), (None, None)}


async def test_the_asynchronous_one_does_the_same(log_database: str, pgq: psycopg.Connection) -> None:
    async with await psycopg.AsyncConnection.connect(log_database) as connection:
        headers = await rowbus.cause_async(connection, user="ann")
        await connection.execute(INSERT, ["1", ""])
    [(told,)] = pgq.execute("select ev_extra4 from pgq.event_template").fetchall()
    assert (rowbus.read_cause(told), headers) == (rowbus.Cause(user="ann"), {"Rowbus.User": "ann"})


def test_outside_of_a_transaction_it_is_refused(pgq: psycopg.Connection) -> None:
    with pytest.raises(ConfigurationError, match="for a transaction"):
        rowbus.cause(pgq, user="ann")
    with pgq.transaction(), pytest.raises(ConfigurationError, match="user is 7; give a text"):
        rowbus.cause(pgq, user=cast("Any", 7))


async def test_within_a_handler_its_message_stays_the_cause(shop: Shop) -> None:
    @shop.sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await rowbus.cause_async(context.connection, user="ann")
        await context.connection.execute(INSERT, [order.order_id, ""])

    [message_id] = await shop.process("1")
    assert [(cause.message_id, cause.user) for _, _, cause in shop.changes()] == [(message_id, "ann")]


async def test_who_asked_is_carried_from_message_to_message(shop: Shop) -> None:
    @shop.sales.handler
    async def place(order: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute(INSERT, [order.order_id, ""])
        if order.order_id == "first":
            await context.send("Sales", PlaceOrder("second"))

    with shop.connection.transaction():
        headers = rowbus.cause(shop.connection, user="ann", request="r1")
    await shop.process("first", headers=headers)
    assert [(row["id"], cause.user, cause.request) for _, row, cause in shop.changes()] == [
        ("first", "ann", "r1"),
        ("second", "ann", "r1"),
    ]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("sync", [False, True])
async def test_a_consumer_names_its_events(
    log_database: str, pgq: psycopg.Connection, *, batch: bool, sync: bool
) -> None:
    pgq.execute(SCRIPT.encode())
    pgq.execute("select pgq.capture_table('seen', 'shop', 'json', '{pkey=at}')")
    orders = Orders(log_database, pgq)
    log = orders.log()

    async def on_the_loop(given: Given, context: rowbus.LogContext) -> None:
        await note(context, *several(given))

    def in_a_thread(given: Given, context: rowbus.SyncLogContext) -> None:
        for event in several(given):
            context.connection.execute("insert into seen (data) values (%s)", [event.data])

    function = in_a_thread if sync else on_the_loop
    log.consumer("one", batch=batch, settings=QUICK)(function)
    async with log:
        orders.deliver("a", "b")
        await orders.finished()

    ids = [number for (number,) in orders.all("select ev_id from pgq.event_template where ev_type = 'order'")]
    names = [f"orders/{ids[0]}-{ids[1]}"] * 2 if batch else [f"orders/{number}" for number in ids]
    handler = f"{__name__}.{function.__qualname__}"
    assert _told(pgq, "public.seen") == [rowbus.Cause(name, None, "order", handler, "one") for name in names]


async def test_a_consumer_of_captured_rows_goes_on_with_their_conversation(
    log_database: str, pgq: psycopg.Connection
) -> None:
    shop = Shop(log_database, pgq)
    shop.sales.handler(_writes)
    [message_id] = await shop.process("1", headers={Header.USER: "ann"})
    log = rowbus.Log(log_database, "shop")
    pgq.execute("select pgq.register_consumer_at('shop', 'one', 1)")

    @log.consumer("one", settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        if event.extra1 == "public.orders":
            await context.connection.execute("insert into stock values ('1', '')")

    pgq.execute("select pgq.force_tick('shop'), pgq.ticker('shop')")
    async with log:
        await until(lambda: len(_told(pgq, "public.stock")) > 0)
    [cause] = _told(pgq, "public.stock")
    assert (cause.conversation_id, cause.user, cause.endpoint) == (message_id, "ann", "one")


def _told(connection: psycopg.Connection, table: str) -> list[rowbus.Cause]:
    """Return the causes of a table's changes, in their order."""
    query = "select ev_extra4 from pgq.event_template where ev_extra1 = %s order by ev_id"
    return [rowbus.read_cause(cause) for (cause,) in connection.execute(query, [table])]
