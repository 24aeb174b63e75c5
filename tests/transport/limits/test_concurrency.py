"""Limits of concurrency: what all instances of an endpoint have in hand of a key at a time."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.only("PostgreSQL", reason="limits of concurrency work on PostgreSQL alone")
BY_CUSTOMER = rowbus.Concurrency(2, by="customer")


@rowbus.command("Places.Charge", key="order")
@dataclass
class Charge:
    customer: str | None
    number: int = 0
    order: str = "1"


@rowbus.command("Places.Reading")
@dataclass
class Reading:
    made: ClassVar[list[int]] = []
    number: int

    def __post_init__(self) -> None:
        self.made.append(self.number)


class Hands:
    """Handlers that hold their messages until they are told to go on, and what they have and had in hand."""

    def __init__(self) -> None:
        self.now: Counter[str | None] = Counter()
        self.most: Counter[str | None] = Counter()
        self.done: list[tuple[str | None, int]] = []
        self.go_on = asyncio.Event()
        self.fails = False

    def serve(self, endpoint: rowbus.Endpoint, limit: rowbus.Concurrency = BY_CUSTOMER) -> rowbus.Endpoint:
        @endpoint.handler(limit=limit)
        async def charge(message: Charge, _context: rowbus.Context) -> None:
            self.now[message.customer] += 1
            self.most[message.customer] = max(self.most[message.customer], self.now[message.customer])
            try:
                if message.customer == "A":
                    await self.go_on.wait()
                if self.fails:
                    raise ValueError("no")
            finally:
                self.now[message.customer] -= 1
            self.done.append((message.customer, message.number))

        return endpoint

    async def has_done(self, count: int) -> None:
        await eventually(lambda: len(self.done) >= count)
        assert len(self.done) == len(set(self.done)) == count


async def send(endpoints: Endpoints, messages: Sequence[Charge]) -> None:
    async with endpoints.backend.transaction():
        for message in messages:
            await endpoints.backend.client().send("Sales", message)


async def deferred(endpoints: Endpoints, count: int) -> None:
    async def are_deferred() -> bool:
        return await endpoints.backend.count("Sales.Delayed") >= count

    await eventually(are_deferred)


async def test_two_instances_together_have_so_many_of_a_key_in_hand(endpoints: Endpoints) -> None:
    hands = Hands()
    instances = [hands.serve(endpoints.make("Sales")) for _ in range(2)]
    await instances[0].install()
    await send(endpoints, [*(Charge("A", number) for number in range(7)), Charge("B"), Charge("C")])
    for instance in instances:
        await instance.start()
    await eventually(lambda: {customer for customer, _number in hands.done} == {"B", "C"})
    await eventually(lambda: hands.now["A"] == 2)
    rows = await endpoints.backend.delayed_rows("Sales.Delayed")
    hands.go_on.set()
    await hands.has_done(9)

    assert hands.most["A"] == 2
    assert {row.headers[Header.RATE_LIMITED] for row in rows} <= {"Places.Charge/A"}
    assert await endpoints.backend.count("error") == 0


async def test_waiting_for_a_place_counts_no_attempt(endpoints: Endpoints) -> None:
    hands = Hands()
    sales = hands.serve(
        endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=0, delayed=0)),
        rowbus.Concurrency(1),
    )
    async with sales:
        await send(endpoints, [Charge("A", number) for number in range(3)])
        await eventually(lambda: hands.now["A"] == 1)
        await deferred(endpoints, 1)
        hands.go_on.set()
        await hands.has_done(3)
    assert hands.most["A"] == 1
    assert await endpoints.backend.count("error") == 0


async def test_messages_of_a_batch_are_one_after_the_other_and_need_one_place(endpoints: Endpoints) -> None:
    hands = Hands()
    hands.go_on.set()
    sales = hands.serve(endpoints.make("Sales", batch_size=10, concurrency=1), rowbus.Concurrency(1))
    await sales.install()
    await send(endpoints, [Charge("AB"[number % 2], number) for number in range(30)])
    async with sales:
        await hands.has_done(30)
    assert [number for _customer, number in hands.done] == list(range(30))  # none was deferred


async def test_a_message_is_read_once_for_its_key_and_its_handler_and_anew_for_each_retry(
    endpoints: Endpoints,
) -> None:
    Reading.made.clear()
    seen = list[int]()
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))

    @sales.handler(limit=rowbus.Concurrency(1, by="number"))
    async def count(message: Reading) -> None:
        seen.append(message.number)
        message.number += 1
        if len(seen) == 1:
            raise ValueError("once more")

    async with sales:
        await endpoints.backend.client().send("Sales", {"number": 7}, type="Places.Reading")
        await eventually(lambda: len(seen) == 2)
    assert seen == [7, 7]
    assert Reading.made == [7, 7]


async def test_who_finds_no_place_leaves_the_others_of_its_batch(endpoints: Endpoints) -> None:
    hands = Hands()
    first = hands.serve(endpoints.make("Sales", concurrency=1), rowbus.Concurrency(1, by="customer"))
    await first.install()
    await send(endpoints, [Charge("A", 0)])
    await first.start()
    await eventually(lambda: hands.now["A"] == 1)
    second = hands.serve(
        endpoints.make("Sales", concurrency=1, batch_size=10), rowbus.Concurrency(1, by="customer")
    )
    await send(endpoints, [Charge("A", 1), Charge("B", 2), Charge("A", 3), Charge("C", 4)])
    await second.start()
    await hands.has_done(2)
    assert sorted(hands.done) == [("B", 2), ("C", 4)]
    hands.go_on.set()
    await hands.has_done(5)
    assert hands.most["A"] == 1


async def test_a_place_is_kept_through_immediate_retries_and_free_after_the_last(
    endpoints: Endpoints,
) -> None:
    hands = Hands()
    hands.fails = True
    hands.go_on.set()
    sales = hands.serve(
        endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=2, delayed=0)),
        rowbus.Concurrency(1),
    )
    async with sales:
        await send(endpoints, [Charge("A", number) for number in range(4)])

        async def failed() -> bool:
            return await endpoints.backend.count("error") == 4

        await eventually(failed)
        assert hands.most["A"] == 1
        hands.fails = False
        await send(endpoints, [Charge("A", 9)])
        await hands.has_done(1)


async def test_failures_of_one_that_waits_for_its_place_again_are_not_forgotten(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    """Its place is taken at the moment in which its first attempt is rolled back."""
    caplog.set_level(logging.DEBUG, "rowbus.limits")
    hands, calls = Hands(), 0
    sales = endpoints.make(
        "Sales",
        failure_handling=rowbus.FailureHandling.ROLLBACK,
        recoverability=rowbus.Recoverability(immediate=1, delayed=0),
    )

    @sales.handler(limit=rowbus.Concurrency(1))
    async def charge(_message: Charge) -> None:
        nonlocal calls
        calls += 1
        await hands.go_on.wait()
        raise ValueError("no")

    async def is_waited_for() -> bool:
        waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        return await endpoints.backend.values(waiting) == [1]

    async def failed() -> bool:
        return await endpoints.backend.count("error") == 1

    place = f"hashtextextended('rowbus place ' || '{sales.address} Places.Charge', 1)"
    async with sales, await psycopg.AsyncConnection.connect(endpoints.backend.dsn) as other:
        await send(endpoints, [Charge("A")])
        await eventually(lambda: calls == 1)
        taking = asyncio.create_task(other.execute(f"select pg_advisory_xact_lock({place})"))
        await eventually(is_waited_for)
        hands.go_on.set()
        await taking
        await eventually(lambda: "1 messages of" in caplog.text)
        assert await endpoints.backend.count("Sales.Delayed") == 0
        await other.rollback()
        await eventually(failed)
    assert calls == 2


async def test_a_message_that_waits_for_its_place_keeps_its_time_to_be_received(endpoints: Endpoints) -> None:
    hands = Hands()
    sales = hands.serve(endpoints.make("Sales"), rowbus.Concurrency(1))
    async with sales:
        await send(endpoints, [Charge("A", 0)])
        await eventually(lambda: hands.now["A"] == 1)
        await endpoints.backend.client().send("Sales", Charge("A", 1), time_to_be_received=timedelta(hours=1))
        await endpoints.backend.client().send(
            "Sales", Charge("A", 2), time_to_be_received=timedelta(milliseconds=20)
        )

        async def is_deferred() -> bool:
            rows = await endpoints.backend.delayed_rows("Sales.Delayed")
            return any(Header.EXPIRES in row.headers for row in rows)

        await eventually(is_deferred)

        async def expired() -> bool:
            # First where they wait: one that moves between the two looks would be in neither.
            waiting = await endpoints.backend.count("Sales.Delayed"), await endpoints.backend.count("Sales")
            return sum(waiting) == 2  # the one in hand, and the one that has an hour

        await eventually(expired)
        hands.go_on.set()
        await hands.has_done(2)
    assert sorted(hands.done) == [("A", 0), ("A", 1)]


async def test_a_message_without_the_field_fails_and_one_that_has_null_there_has_a_key(
    endpoints: Endpoints,
) -> None:
    hands = Hands()
    hands.go_on.set()
    sales = hands.serve(
        endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=0, delayed=0)),
        rowbus.Concurrency(1, by="customer"),
    )

    @sales.handler("Places.Other", limit=rowbus.Concurrency(1, by="customer"))
    async def other(message: dict[str, Any]) -> None:
        hands.done.append((None, 7))

    async with sales:
        await send(endpoints, [Charge(None, 5)])
        await endpoints.backend.client().send("Sales", {"customer": "A"}, type="Places.Other")
        await endpoints.backend.client().send("Sales", {"client": "A"}, type="Places.Other")

        async def failed() -> bool:
            return await endpoints.backend.count("error") == 1

        await eventually(failed)
        await hands.has_done(2)
    (row,) = await endpoints.backend.rows("error")
    reason = row.headers["NServiceBus.ExceptionInfo.Message"]
    assert reason is not None
    assert "The limit of Places.Other is by customer, and this message has no such field" in reason


@pytest.mark.parametrize("batch_size", [1, 10])
async def test_a_lane_with_order_waits_with_its_first_message(endpoints: Endpoints, batch_size: int) -> None:
    """Two keys of order share a customer, who has one place: neither is overtaken by its own later messages."""
    hands = Hands()
    lanes = rowbus.by_key(4)
    instances = [
        hands.serve(
            endpoints.make("Sales", lanes=lanes, batch_size=batch_size),
            rowbus.Concurrency(1, by="customer"),
        )
        for _ in range(2)
    ]
    await instances[0].install()
    for number in range(12):
        orders = [Charge("A", number * 4 + order, f"order-{order}") for order in range(4)]
        await send(endpoints, [*orders, Charge("B", number, "order-0")])
    for instance in instances:
        await instance.start()
    await eventually(lambda: hands.now["A"] == 1)
    hands.go_on.set()
    await hands.has_done(60)

    assert hands.most["A"] == 1
    for order in range(4):
        numbers = [number for customer, number in hands.done if customer == "A" and number % 4 == order]
        assert numbers == sorted(numbers)
    b = [number for customer, number in hands.done if customer == "B"]
    assert b == sorted(b)
    assert await endpoints.backend.count("Sales.Delayed") == 0


async def test_lanes_that_take_turns_keep_limits_too(endpoints: Endpoints) -> None:
    hands = Hands()
    sales = hands.serve(endpoints.make("Sales", lanes=rowbus.fair(lanes=4)))
    await sales.install()
    await send(endpoints, [Charge("AB"[number % 2], number, str(number % 4)) for number in range(24)])
    async with sales:
        await eventually(lambda: hands.now["A"] == 2)
        await eventually(lambda: len([one for one in hands.done if one[0] == "B"]) == 12)
        hands.go_on.set()
        await hands.has_done(24)
    assert hands.most["A"] == 2
    assert hands.most["B"] <= 2
