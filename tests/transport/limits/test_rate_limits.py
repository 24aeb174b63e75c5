"""Rate limits: what all instances of an endpoint handle together, by the clock of the database."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from rowbus.testing import running
from rowbus.transport.limits.decisions import TokenRequest
from rowbus.transport.limits.rate import Bucket
from rowbus.transport.limits.table import limit_table
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.transport.limits.table import LimitTable
    from tests.conformance.endpoints import Endpoints

pytestmark = pytest.mark.only("PostgreSQL", reason="rate limits work on PostgreSQL alone")
NO_RETRIES = rowbus.Recoverability(immediate=0, delayed=0)


@rowbus.command("Limits.Charge")
@dataclass
class Charge:
    customer: str
    number: int = 0


def customer(message: Charge) -> str:
    return message.customer


async def prepare(endpoints: Endpoints) -> None:
    await endpoints.backend.execute(
        "create table handled (customer text, number integer, at timestamptz not null default clock_timestamp())"
    )


def noting(endpoint: rowbus.Endpoint, limit: rowbus.RateLimit | None = None) -> rowbus.Endpoint:
    @endpoint.handler(limit=limit)
    async def charge(message: Charge, context: rowbus.Context) -> None:
        await context.connection.execute(
            "insert into handled (customer, number) values (%s, %s)", (message.customer, message.number)
        )

    return endpoint


async def send(endpoints: Endpoints, messages: Sequence[Charge]) -> None:
    async with endpoints.backend.transaction():
        for message in messages:
            await endpoints.backend.client().send("Sales", message)


async def handled(endpoints: Endpoints, customer: str = "A") -> list[tuple[int, datetime]]:
    rows = await endpoints.backend.values(
        "select number || ' ' || at from handled where customer = %s order by at", customer
    )
    return [(int(number), datetime.fromisoformat(at)) for number, at in (row.split(" ", 1) for row in rows)]


async def all_handled(endpoints: Endpoints, count: int, customer: str = "A") -> list[datetime]:
    async def done() -> bool:
        return len(await handled(endpoints, customer)) >= count

    await eventually(done)
    times = await handled(endpoints, customer)
    assert len(times) == count
    return [at for _number, at in times]


async def some_handled(endpoints: Endpoints) -> None:
    async def some() -> bool:
        return bool(await handled(endpoints, "A"))

    await eventually(some)


def most_in(times: Sequence[datetime], span: timedelta) -> int:
    return max(sum(first <= other < first + span for other in times) for first in times)


async def table_of(endpoint: rowbus.Endpoint) -> LimitTable:
    assert endpoint.parts.limits is not None
    return limit_table(endpoint.parts.limits)


# ----------------------------------------------------------------------------------------------------------- the tokens


async def test_takers_at_the_same_time_never_get_more_than_the_rate_and_the_burst(
    endpoints: Endpoints,
) -> None:
    sales = noting(endpoints.make("Sales"))
    sales.limit("20/second", burst=5)
    await sales.install()
    assert sales.parts.limits is not None
    bucket = Bucket("", 0.05, 5)
    sessions = [await endpoints.backend.database.connect() for _ in range(6)]
    table = await table_of(sales)
    await sessions[0].run(table.begin([""]))

    async def clock() -> float:
        (now,) = await endpoints.backend.values("select extract(epoch from clock_timestamp())::float8")
        return float(now)

    async def hammer(position: int) -> int:
        taken = 0
        for _ in range(60):
            granted = await sessions[position].run(table.take([TokenRequest(bucket, 1, 0)], defers=False))
            taken += granted[""].waited
        return taken

    began = await clock()
    taken = sum(await asyncio.gather(*map(hammer, range(6))))
    ended = await clock()
    for session in sessions:
        await session.close()

    assert 5 <= taken <= 5 + (ended - began) / 0.05 + 1


async def test_a_token_that_is_given_back_can_be_taken_again(endpoints: Endpoints) -> None:
    sales = noting(endpoints.make("Sales"), rowbus.RateLimit("1/hour"))
    await sales.install()
    table, bucket = await table_of(sales), Bucket("K", 3600.0, 1)
    session = await endpoints.backend.database.connect()
    await session.run(table.begin(["K"]))
    take = table.take([TokenRequest(bucket, 0, 1)], defers=False)

    assert [(await session.run(take))["K"].fresh for _ in range(2)] == [1, 0]
    await session.run(table.give_back([(bucket, 1)]))
    assert (await session.run(take))["K"].fresh == 1
    await session.close()


async def test_a_limit_that_was_changed_counts_from_now_on(endpoints: Endpoints) -> None:
    """A token a day left in the table, or a clock that was ahead, does not hold up ten a second."""
    sales = noting(endpoints.make("Sales"), rowbus.RateLimit("1/day"))
    await sales.install()
    table, before, after = await table_of(sales), Bucket("K", 86400.0, 1), Bucket("K", 0.1, 1)
    session = await endpoints.backend.database.connect()
    await session.run(table.begin(["K"]))
    assert (await session.run(table.take([TokenRequest(before, 0, 1)], defers=False)))["K"].fresh == 1
    refused = (await session.run(table.take([TokenRequest(before, 0, 1)], defers=False)))["K"]
    assert refused.fresh_in > 80000

    changed = (await session.run(table.take([TokenRequest(after, 0, 1)], defers=False)))["K"]
    assert changed.fresh == 1 or changed.fresh_in <= 0.1
    await session.close()


async def test_idle_keys_are_forgotten_and_others_are_not(endpoints: Endpoints) -> None:
    sales = noting(endpoints.make("Sales"), rowbus.RateLimit("1/hour"))
    await sales.install()
    assert sales.parts.limits is not None
    table = await table_of(sales)
    session = await endpoints.backend.database.connect()
    await session.run(table.begin(["idle", "busy"]))
    await endpoints.backend.execute(
        f"update {sales.parts.limits} set arrival = now() - interval '2 minutes', "
        "next_waited = now() - interval '2 minutes', next_fresh = now() - interval '2 minutes' where key = 'idle'"
    )
    assert await session.run(table.sweep(100)) == 1
    await session.close()
    assert await endpoints.backend.values(f"select key from {sales.parts.limits}") == ["busy"]


# ------------------------------------------------------------------------------------------------- one handler's limit


async def test_three_instances_together_keep_a_handlers_limit(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    limit = rowbus.RateLimit("20/second")
    instances = [noting(endpoints.make("Sales"), limit) for _ in range(3)]
    await instances[0].install()
    await send(endpoints, [Charge("A", number) for number in range(30)])
    for instance in instances:
        await instance.start()
    times = await all_handled(endpoints, 30)

    took = (times[-1] - times[0]).total_seconds()
    assert took >= 29 * 0.05 - 0.1
    assert most_in(times, timedelta(seconds=1)) <= 20 + 3  # a token is taken a moment before its handler runs
    assert await endpoints.backend.count("error") == 0


async def test_a_burst_comes_at_once_and_what_follows_keeps_the_rate(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    sales = noting(endpoints.make("Sales"), rowbus.RateLimit("1/second", burst=4))
    await sales.install()
    await send(endpoints, [Charge("A", number) for number in range(6)])
    await sales.start()
    times = await all_handled(endpoints, 6)

    assert (times[3] - times[0]).total_seconds() < 2.5  # one after the other they would take 3 s
    assert (times[5] - times[0]).total_seconds() >= 2 - 0.1


async def test_each_key_has_its_own_limit_and_starves_no_other(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    sales = noting(endpoints.make("Sales", concurrency=1), rowbus.RateLimit("2/second", by=customer))
    await sales.install()
    await send(endpoints, [*(Charge("A", number) for number in range(50)), Charge("B"), Charge("C")])
    await sales.start()
    (b,) = await all_handled(endpoints, 1, "B")
    (c,) = await all_handled(endpoints, 1, "C")

    assert len(await handled(endpoints)) < 25
    assert abs(c - b) < timedelta(seconds=5)


async def test_deferring_counts_no_attempt_and_keeps_the_order_of_a_key(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    sales = noting(endpoints.make("Sales", concurrency=1), rowbus.RateLimit("5/second", by=customer))
    await sales.install()
    await send(endpoints, [Charge("A", number) for number in range(10)])
    await sales.start()

    async def deferred() -> bool:
        return len(await endpoints.backend.delayed_rows(sales.parts.delayed or "")) >= 5

    await eventually(deferred)
    rows = await endpoints.backend.delayed_rows(sales.parts.delayed or "")
    assert {row.headers["Rowbus.RateLimited"] for row in rows} == {"Limits.Charge/A"}
    assert all(not name.startswith("NServiceBus.Retries") for row in rows for name in row.headers)
    await all_handled(endpoints, 10)
    numbers = [number for number, _at in await handled(endpoints)]
    assert max(abs(number - position) for position, number in enumerate(numbers)) <= 3, numbers


async def test_handlers_that_are_slow_run_side_by_side(endpoints: Endpoints) -> None:
    running, most = 0, 0
    sales = endpoints.make("Sales", concurrency=4)

    @sales.handler(limit=rowbus.RateLimit("50/second", burst=4))
    async def charge(_message: Charge, context: rowbus.Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await context.connection.execute("select pg_sleep(0.5)")
        running -= 1

    await sales.install()
    await send(endpoints, [Charge("A", number) for number in range(8)])

    async def enough() -> bool:
        return most >= 3

    async with sales:
        await eventually(enough)


async def test_a_message_that_fails_has_used_its_token(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    await prepare(endpoints)

    @sales.handler(limit=rowbus.RateLimit("2/second"))
    async def charge(message: Charge, context: rowbus.Context) -> None:
        if message.number == 0:
            raise ValueError("no")
        await context.connection.execute("insert into handled (customer, number) values ('A', 1)")

    await sales.install()
    await send(endpoints, [Charge("A", 0)])
    await sales.start()

    async def failed() -> bool:
        return await endpoints.backend.count("error") == 1

    await eventually(failed)
    (used,) = await endpoints.backend.values(f"select arrival::text from {sales.parts.limits}")
    await send(endpoints, [Charge("A", 1)])
    (at,) = await all_handled(endpoints, 1)
    assert at >= datetime.fromisoformat(used)


async def test_a_restart_changes_nothing_about_a_limit(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    limit = rowbus.RateLimit("1/second", by=customer)
    first = noting(endpoints.make("Sales"), limit)
    await first.install()
    await send(endpoints, [Charge("A", 0), Charge("A", 1), Charge("A", 2)])
    await first.start()
    await all_handled(endpoints, 1)
    await first.stop()
    second = noting(endpoints.make("Sales"), limit)
    await second.start()
    times = await all_handled(endpoints, 3)

    assert (times[2] - times[0]).total_seconds() >= 2 - 0.1


async def test_a_deferred_message_expires_when_its_time_to_be_received_is_over(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    first = noting(endpoints.make("Sales"), rowbus.RateLimit("1/hour", by=customer))
    await first.install()
    await first.start()
    for number, hours in enumerate((None, 2, 3, None)):  # the first has the token
        lasts = None if hours is None else timedelta(hours=hours)
        await endpoints.backend.client().send("Sales", Charge("A", number), time_to_be_received=lasts)

        async def deferred(count: int = number) -> bool:
            return await endpoints.backend.count("Sales.Delayed") == count and await no_message(endpoints)

        await eventually(deferred)
    await first.stop()
    headers = [json.loads(row.headers_text) for row in await endpoints.backend.delayed_rows("Sales.Delayed")]
    ends = sorted(each[Header.EXPIRES] for each in headers if Header.EXPIRES in each)
    left = [(parse_timestamp(end) - datetime.now(UTC)) / timedelta(hours=1) for end in ends]
    assert [round(hours) for hours in left] == [2, 3]

    # Their turns have come, a moment after the time of the first of them was over.
    await endpoints.backend.execute(
        f"update {first.parts.delayed} set due = now(), headers = replace(headers, %s, %s)",
        ends[0],
        format_timestamp(datetime.now(UTC) - timedelta(seconds=1)),
    )
    await endpoints.backend.execute(f"delete from {first.parts.limits}")
    # One slot: of two that look at the same message one gives its token back, too late for who had none meanwhile.
    second = noting(endpoints.make("Sales", concurrency=1), rowbus.RateLimit("1/hour", by=customer, burst=2))
    await second.start()
    await all_handled(endpoints, 3)
    await eventually(lambda: no_message(endpoints))

    assert {number for number, _ in await handled(endpoints)} == {0, 2, 3}
    assert await endpoints.backend.count("error") == 0


async def no_message(endpoints: Endpoints) -> bool:
    return await endpoints.backend.count("Sales") == 0


async def test_duplicates_and_batches_keep_to_limits_too(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    settings = {"batch_size": 5, "deduplicate_for": timedelta(hours=1)}
    sales = noting(endpoints.make("Sales", **settings), rowbus.RateLimit("10/second", by=customer, burst=3))  # type: ignore[arg-type]
    await sales.install()
    await send(endpoints, [Charge("AB"[number % 2], number) for number in range(20)])
    await sales.start()
    for key in "AB":
        times = await all_handled(endpoints, 10, key)
        assert (times[-1] - times[0]).total_seconds() >= 0.7 - 0.1
    assert len(set(await handled(endpoints) + await handled(endpoints, "B"))) == 20


async def test_a_message_whose_key_cannot_be_found_fails_with_the_reason(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    noting(sales, rowbus.RateLimit("10/second", by=lambda message: message.nothing))
    await sales.install()
    await send(endpoints, [Charge("A")])
    await sales.start()

    async def failed() -> bool:
        return await endpoints.backend.count("error") == 1

    await eventually(failed)
    (row,) = await endpoints.backend.rows("error")
    assert "nothing" in (row.headers["NServiceBus.ExceptionInfo.Message"] or "")


# -------------------------------------------------------------------------------------------------- a whole endpoint's


async def test_an_endpoint_with_a_limit_receives_slower_and_leaves_messages_where_they_are(
    endpoints: Endpoints,
) -> None:
    await prepare(endpoints)
    instances = [noting(endpoints.make("Sales")) for _ in range(3)]
    for instance in instances:
        instance.limit("10/second")
    await instances[0].install()
    await send(endpoints, [Charge("A", number) for number in range(15)])
    ids = {row.id for row in await endpoints.backend.rows("Sales")}
    for instance in instances:
        await instance.start()
    await some_handled(endpoints)
    waiting = {row.id for row in await endpoints.backend.rows("Sales")}
    assert waiting <= ids
    assert not await endpoints.backend.delayed_rows(instances[0].parts.delayed or "")

    times = await all_handled(endpoints, 15)
    assert (times[-1] - times[0]).total_seconds() >= 14 * 0.1 - 0.1
    assert most_in(times, timedelta(seconds=1)) <= 10 + 3


async def test_a_limited_endpoint_that_waits_stops_at_once(endpoints: Endpoints) -> None:
    await prepare(endpoints)
    sales = noting(endpoints.make("Sales"))
    sales.limit("1/hour")
    await sales.install()
    await send(endpoints, [Charge("A", 0), Charge("A", 1)])
    await sales.start()
    await all_handled(endpoints, 1)
    async with asyncio.timeout(3):
        await sales.stop()
    assert await endpoints.backend.count("Sales") == 1


async def test_draining_in_a_test_does_not_wait_for_the_turns_of_deferred_messages(
    endpoints: Endpoints,
) -> None:
    await prepare(endpoints)
    sales = noting(endpoints.make("Sales"), rowbus.RateLimit("1/hour", by=customer))
    async with running(sales, database=endpoints.backend.dsn) as bus:
        for number in range(4):
            await bus.send("Sales", Charge("A", number))
        await bus.drain()

    assert sorted(number for number, _at in await handled(endpoints)) == [0, 1, 2, 3]
