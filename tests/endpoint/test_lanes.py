"""Lanes: order by key, priorities and fairness."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.endpoint.lanes import OrderedLanes
from rowbus.errors import ConfigurationError, InvalidHeaderError, MessageSerializationError
from rowbus.messages.headers import Header
from rowbus.running.telemetry.instruments import turn_off, turn_on
from rowbus.transport.lanes.lane_table import lock_of
from rowbus.transport.pauses.table import PauseSubject, pauses_address, pauses_table
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import SENDS_ATOMIC, eventually, never

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="lanes are on PostgreSQL"),
    pytest.mark.parametrize("case", [SENDS_ATOMIC], ids=str),
]

KEYS = [f"order-{number}" for number in range(10)]
Handled = list[tuple[str, str]]
NAME_NO_LANE = ["{}", '{"Rowbus.Key": "'] + [
    f'{{"Rowbus.Key": "{text}"}}' for text in (r"a\u0000", r"\ud800", r"\udc00\ud800", r"\q", r"\u12", "a\nb")
]
"""Headers without a key, or with one that PostgreSQL cannot read; a sender does not hear of it."""
AT_ONCE = rowbus.Recoverability(immediate=2, delayed=1, increase=timedelta(milliseconds=300))


def serve(
    endpoints: Endpoints,
    handled: Handled,
    lanes: rowbus.Lanes | None,
    fail: Callable[[str], bool] = lambda _order_id: False,
    takes: float = 0,
    **settings: Any,  # noqa: ANN401 - those of `Endpoints.make`
) -> rowbus.Endpoint:
    """Make an endpoint that notes keys and ids of what it handles, and fails where it is told to."""
    sales = endpoints.make("Sales", lanes=lanes, **settings)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        if fail(message.order_id):
            raise ValueError(message.order_id)
        await asyncio.sleep(takes)
        key = context.headers.get(Header.KEY) or context.headers.get(Header.PRIORITY) or ""
        handled.append((key, message.order_id))

    return sales


def number_of(key: str, lanes: int) -> int:
    """Return the lane of a key, as docs/wire-format.md#lanes has any language find it."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") % lanes


def by_key(handled: Handled) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for key, order_id in handled:
        found[key].append(order_id)
    return dict(found)


async def send_numbered(sender: rowbus.Endpoint, count: int) -> dict[str, list[str]]:
    for number in range(count):
        for key in KEYS:
            await sender.send("Sales", PlaceOrder(f"{key}/{number}"), key=key)
    return {key: [f"{key}/{number}" for number in range(count)] for key in KEYS}


async def send_at_once(endpoints: Endpoints, count: int) -> dict[str, list[str]]:
    async with endpoints.backend.another_connection() as connection:
        client = rowbus.AsyncClient(connection, schema=endpoints.backend.schema)
        for number in range(count):
            for key in KEYS:
                await client.send("Sales", PlaceOrder(f"{key}/{number}"), key=key)
        await connection.commit()
    return {key: [f"{key}/{number}" for number in range(count)] for key in KEYS}


def held(sales: rowbus.Endpoint) -> set[int]:
    """Return the lanes with order that an endpoint has."""
    ordered = sales._lifetime.run and sales._lifetime.run._ordered  # pyright: ignore[reportPrivateUsage]
    assert isinstance(ordered, OrderedLanes)
    return set(ordered.serving)


async def test_the_lanes_are_divided_and_messages_of_a_key_keep_their_order(endpoints: Endpoints) -> None:
    handled: Handled = []
    first, second = (serve(endpoints, handled, rowbus.by_key(5)) for _ in range(2))
    async with first:
        await eventually(lambda: held(first) == {0, 1, 2, 3, 4})
        sending = asyncio.create_task(send_numbered(first, 20))
        async with second:
            await eventually(lambda: {len(held(first)), len(held(second))} == {2, 3})
            assert held(first) | held(second) == {0, 1, 2, 3, 4}
        sent = await sending
        await eventually(lambda: len(handled) == 200)
        await eventually(lambda: held(first) == {0, 1, 2, 3, 4})
    assert by_key(handled) == sent


async def test_a_lane_stays_its_processes_whatever_a_handler_leaves_in_the_session(
    endpoints: Endpoints,
) -> None:
    handled: list[str] = []
    sales = endpoints.make("Sales", lanes=rowbus.by_key(1))
    lane = lock_of(endpoints.queue("Sales#0"))

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.connection.execute("create temporary table mine (id text) on commit drop")
        await context.connection.execute("select pg_advisory_lock(42)")
        handled.append(message.order_id)

    async with sales, endpoints.backend.another_connection() as connection:

        async def is_free(lock: str) -> bool:
            answer = await connection.execute(f"select pg_try_advisory_lock({lock})")
            return bool(await answer.fetchone() == (True,))

        await send_numbered(sales, 1)
        await eventually(lambda: len(handled) == len(KEYS))
        await eventually(lambda: is_free("42"))
        assert not await is_free(f"hashtextextended('{lane}', 0)")


async def test_what_fails_holds_up_its_key_and_no_other(endpoints: Endpoints) -> None:
    """Two attempts at once, then a delay: in both nothing of the key comes before it."""
    handled: Handled = []
    attempts: list[str] = []

    def fail(order_id: str) -> bool:
        attempts.append(order_id)
        return order_id == "order-3/0" and attempts.count("order-3/0") < 5

    sales = serve(endpoints, handled, rowbus.by_key(1), fail, recoverability=AT_ONCE)
    await sales.install()
    sent = await send_at_once(endpoints, 5)
    measured = turn_on()
    try:
        async with sales:
            await eventually(lambda: len(handled) == 50)
    finally:
        turn_off()
    assert {kind: count for (*_, kind), count in measured.retried.values.items()} == {
        "immediate": 3,
        "delayed": 1,
    }
    assert not measured.given_up.values
    assert by_key(handled) == sent
    tries = [place for place, order_id in enumerate(attempts) if order_id == "order-3/0"]
    assert len(tries) == 5
    assert tries[3] - tries[2] > 1, "others go on during the delay"
    assert tries[4] - tries[3] == 1


async def test_what_moves_to_the_error_queue_lets_its_key_go_on_and_comes_back_to_its_lane(
    endpoints: Endpoints,
) -> None:
    handled: Handled = []
    sales = serve(endpoints, handled, rowbus.by_key(4), lambda order_id: order_id == "order-3/0")
    async with sales:
        await send_numbered(sales, 2)
        await eventually(lambda: len(handled) == 19)
    (failed,) = await endpoints.backend.rows("error")
    assert failed.headers[Header.FAILED_QUEUE] == str(endpoints.queue(f"Sales#{number_of('order-3', 4)}"))


async def test_senders_of_a_key_wait_for_each_other(endpoints: Endpoints) -> None:
    """The order is that of commits: who sends second, and would commit first, waits."""
    sales = serve(endpoints, [], rowbus.by_key(4))
    await sales.install()
    backend, done = endpoints.backend, list[str]()

    async def send(key: str) -> None:
        async with backend.another_connection() as connection:
            await rowbus.AsyncClient(connection, schema=backend.schema).send(
                "Sales", PlaceOrder("2"), key=key
            )
            await connection.commit()
        done.append(key)

    async with backend.another_connection() as connection:
        await rowbus.AsyncClient(connection, schema=backend.schema).send("Sales", PlaceOrder("1"), key="a")
        waiting = asyncio.create_task(send("a"))
        await send("b")
        assert done == ["b"]
        await connection.commit()
    await waiting
    rows = await backend.rows(f"Sales#{number_of('a', 4)}")
    assert [json.loads(row.body or b"")["order_id"] for row in rows if row.headers[Header.KEY] == "a"] == [
        "1",
        "2",
    ]


@pytest.mark.parametrize(
    "key, lane",
    [("42", 4), ("customer-7", 14), ("Schlüssel", 0), ('a "quoted" \\ one', 8), ("日本", 12), (" ", 1)],
)
async def test_the_database_finds_the_lane_that_the_wire_format_says(
    endpoints: Endpoints, key: str, lane: int
) -> None:
    """Its examples come first. Others write spaces after the colon, and letters as they are."""
    sales = serve(endpoints, [], rowbus.by_key(16))
    await sales.install()
    async with endpoints.backend.another_connection() as connection:
        await connection.execute("set standard_conforming_strings = off")
        await connection.execute("set session_replication_role = replica")
        await rowbus.AsyncClient(connection, schema=endpoints.backend.schema).send(
            "Sales", PlaceOrder("1"), key=key
        )
        await connection.commit()
    for headers in (json.dumps({Header.KEY: key}, ensure_ascii=False), *NAME_NO_LANE):
        insert = (
            f"insert into {endpoints.queue('Sales')} (id, headers, body) values (gen_random_uuid(), %s, '')"
        )
        await endpoints.backend.execute(insert, headers)
    assert await endpoints.backend.count(f"Sales#{lane}") == 2
    assert await endpoints.backend.count("Sales") == len(NAME_NO_LANE)


async def test_the_urgent_come_first_and_the_others_are_not_forgotten(endpoints: Endpoints) -> None:
    handled: Handled = []
    sales = serve(endpoints, handled, rowbus.by_priority("urgent", "bulk"), takes=0.005, concurrency=1)
    await sales.install()
    async with endpoints.backend.another_connection() as connection:
        client = rowbus.AsyncClient(connection, schema=endpoints.backend.schema)
        for number in range(60):
            await client.send("Sales", PlaceOrder(str(number)), priority="bulk")
        for number in range(40):
            await client.send("Sales", PlaceOrder(str(number)), priority="urgent")
        await client.send("Sales", PlaceOrder("plain"))
        await client.send("Sales", PlaceOrder("odd"), priority="unknown")
        await connection.commit()
    async with sales:
        await eventually(lambda: len(handled) == 102)
    order = [priority for priority, _ in handled]
    assert order.index("urgent") < order.index("bulk")
    assert order[:50].count("urgent") >= 2 * order[:50].count("bulk") > 0


async def test_a_tenant_with_many_messages_does_not_delay_another(endpoints: Endpoints) -> None:
    handled: Handled = []
    sales = serve(endpoints, handled, rowbus.fair(by="tenant", lanes=8), takes=0.002, concurrency=2)
    await sales.install()
    async with endpoints.backend.another_connection() as connection:
        client = rowbus.AsyncClient(connection, schema=endpoints.backend.schema)
        for number in range(200):
            await client.send("Sales", PlaceOrder(f"big/{number}"), headers={"tenant": "big"})
        await client.send("Sales", PlaceOrder("small/0"), headers={"tenant": "small"})
        await connection.commit()
    async with sales:
        await eventually(lambda: len(handled) == 201)
        names = [task.get_name() for task in asyncio.all_tasks()]
    slots = [sum(name.endswith(f" slot {index}") for name in names) for index in (0, 1)]
    assert slots == [9, 2]  # a queue that received nothing has one
    assert number_of("big", 8) != number_of("small", 8)
    assert [order_id for _, order_id in handled].index("small/0") < 30


async def test_other_lanes_than_the_database_has_are_refused_and_changed_by_a_person(
    endpoints: Endpoints,
) -> None:
    handled: Handled = []
    await serve(endpoints, [], rowbus.by_key(4)).install()
    sales = serve(endpoints, handled, rowbus.by_key(3))
    plain = serve(endpoints, handled, None)
    sent = await send_at_once(endpoints, 5)
    with pytest.raises(
        ConfigurationError, match="4 lanes by key in the database, and its endpoint 3 lanes by key"
    ):
        await sales.start()
    with pytest.raises(ConfigurationError, match="and its endpoint no lanes"):
        await plain.start()
    assert await sales.change_lanes() == 50
    async with sales:
        await eventually(lambda: len(handled) == 50)
    assert by_key(handled) == sent
    assert "Sales#3" not in await endpoints.backend.tables()
    assert await plain.change_lanes() == 0
    async with plain:
        await plain.send("Sales", PlaceOrder("last"), key="a")
        await eventually(lambda: ("a", "last") in handled)


@rowbus.command("Shop.ShipOrder", key="order_id")
class ShipOrder(PlaceOrder):
    """A type with a key."""


async def test_a_type_says_which_field_is_its_key(endpoints: Endpoints) -> None:
    handled: Handled = []
    sales = endpoints.make("Sales", lanes=rowbus.by_key(2))

    @sales.handler
    async def ship(message: ShipOrder, context: rowbus.Context) -> None:
        handled.append((context.headers[Header.KEY] or "", message.order_id))

    async with sales:
        await sales.send("Sales", ShipOrder("42"))
        await sales.send("Sales", ShipOrder("43"), key="other")
        await eventually(lambda: sorted(handled) == [("42", "42"), ("other", "43")])
        with pytest.raises(MessageSerializationError, match="has no order_id"):
            await sales.send("Sales", ShipOrder(""))
        with pytest.raises(InvalidHeaderError, match="key is 5; give text"):
            await sales.send("Sales", ShipOrder("1"), key=5)  # type: ignore[call-overload] # pyright: ignore[reportArgumentType]


async def test_what_would_break_the_order_is_refused(endpoints: Endpoints) -> None:
    limited = endpoints.make("Sales", lanes=rowbus.by_key(2))

    @limited.handler(limit=rowbus.RateLimit("1/second"))
    async def limit(_message: PlaceOrder) -> None: ...

    long = endpoints.make("Sales", lanes=rowbus.by_key(2))

    @long.handler(long=True)
    async def work(_message: PlaceOrder) -> None: ...

    for endpoint in (limited, long):
        with pytest.raises(ConfigurationError, match="cannot keep the order of its lanes"):
            await endpoint.start()


@pytest.mark.parametrize("lanes", [rowbus.by_key(2), rowbus.fair(lanes=2)], ids=str)
async def test_a_purge_at_the_start_empties_the_lanes_too(endpoints: Endpoints, lanes: rowbus.Lanes) -> None:
    handled: Handled = []
    sales = serve(endpoints, handled, lanes, purge_on_startup=True)
    await sales.install()
    await send_at_once(endpoints, 1)
    async with sales:
        await sales.send("Sales", PlaceOrder("new"), key="order-1")
        await eventually(lambda: ("order-1", "new") in handled)
    assert handled == [("order-1", "new")]
    assert await endpoints.backend.count("Sales#0") == await endpoints.backend.count("Sales#1") == 0


async def test_who_pauses_the_queue_pauses_its_lanes(endpoints: Endpoints) -> None:
    handled: Handled = []
    sales = serve(endpoints, handled, rowbus.by_key(2))
    await sales.install()
    pauses = pauses_table(pauses_address(sales.addresses))
    subject = PauseSubject("queue", str(endpoints.queue("Sales")))
    session = await endpoints.backend.database.connect()
    await session.run_all(pauses.create())
    await session.run(pauses.pause(subject, person="ann", why="a test", until=None))
    async with sales:
        await eventually(lambda: held(sales) == {0, 1})
        await send_at_once(endpoints, 1)
        await never(lambda: bool(handled), 0.5)
        await session.run(pauses.resume(subject))
        await eventually(lambda: len(handled) == 10)
    await session.close()
