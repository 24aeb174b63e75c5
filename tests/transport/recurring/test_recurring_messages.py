"""Recurring messages on every database: each tick once, in the transaction that notes it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.transport.pauses.table import PauseSubject, pause_now, pauses_address, pauses_table
from rowbus.transport.recurring.schedule import CatchUp, Interval
from rowbus.transport.recurring.table import recurring_address, recurring_table
from tests.conformance.transport import eventually
from tests.fixtures.every import every as rows

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.transport.recurring.table import RecurringTable, ScheduleRow
    from tests.conformance.endpoints import Endpoints

OFTEN = timedelta(milliseconds=200)
HOURLY = timedelta(hours=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@rowbus.command("Recurring.Report")
@dataclass
class Report:
    tick: str


@rowbus.command("Recurring.Refresh")
@dataclass
class Refresh:
    pass


@rowbus.event("Recurring.Incident")
@dataclass
class Incident:
    pass


def counting(endpoint: rowbus.Endpoint, seen: Counter[str]) -> None:
    @endpoint.handler
    async def report(message: Report) -> None:
        seen[message.tick] += 1


def every(endpoint: rowbus.Endpoint, when: str | timedelta, **options: Any) -> None:  # noqa: ANN401 - the decorator's own
    @endpoint.every(when, **options)
    def report(tick: datetime) -> Report:
        return Report(tick.isoformat())


def table_of(endpoint: rowbus.Endpoint) -> RecurringTable:
    return recurring_table(recurring_address(endpoint.name, endpoint.addresses))


async def rows_of(endpoints: Endpoints, endpoint: rowbus.Endpoint) -> list[ScheduleRow]:
    session = await endpoints.backend.database.connect()
    try:
        return await session.run(table_of(endpoint).list())
    finally:
        await session.close()


async def put_back(session: AsyncSession, table: RecurringTable, due: datetime) -> None:
    """Have a schedule wait for a tick of long ago, as if nothing had run since."""
    (row,) = await session.run(table.list())
    assert await session.run(table.advance(row, due, None))


async def test_each_tick_is_sent_once_by_three_instances(endpoints: Endpoints) -> None:
    seen: Counter[str] = Counter()
    instances = [endpoints.make("Sales") for _ in range(3)]
    for instance in instances:
        every(instance, OFTEN)
        counting(instance, seen)
        await instance.start()

    async def enough() -> bool:
        return len(seen) >= 10

    await eventually(enough)
    await asyncio.gather(*(instance.stop() for instance in instances))

    (row,) = await rows_of(endpoints, instances[0])
    assert set(seen.values()) == {1}
    moments = sorted(map(datetime.fromisoformat, seen))
    assert moments == [moments[0] + number * OFTEN for number in range(len(moments))]
    assert row.last_sent is not None
    assert row.last_sent >= moments[-1]
    assert row.next_due == row.last_sent + OFTEN
    assert row.schedule == "every 0:00:00.200000"


async def test_a_class_without_fields_is_a_recurring_message_and_none_is_none(endpoints: Endpoints) -> None:
    billing = endpoints.make("Billing")
    await billing.install()
    sales = endpoints.make("Sales")
    sales.every(OFTEN, to="Billing")(Refresh)
    asked: list[datetime] = []

    @sales.every(OFTEN, name="nothing")
    def nothing(tick: datetime) -> None:
        asked.append(tick)

    async def enough() -> bool:
        return len(asked) >= 3 and await endpoints.backend.count("Billing") >= 3

    async with sales:
        await eventually(enough)

    headers = (await endpoints.backend.rows("Billing"))[0].headers
    assert headers["NServiceBus.EnclosedMessageTypes"] == "Recurring.Refresh"
    assert headers["NServiceBus.OriginatingEndpoint"] == "Sales"
    assert await endpoints.backend.count("Sales") == 0


async def test_a_tick_whose_message_cannot_be_sent_is_sent_later_and_holds_up_no_other(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Counter[str] = Counter()
    sales = endpoints.make("Sales")
    every(sales, OFTEN, name="missing", to="Billing")
    every(sales, OFTEN, name="there")
    counting(sales, seen)

    async def enough() -> bool:
        return len(seen) >= 2

    with caplog.at_level(logging.ERROR):
        async with sales:
            await eventually(enough)
            first = min((row for row in await rows_of(endpoints, sales) if row.name == "missing"), key=str)
            assert first.last_sent is None
            await endpoints.backend.create_queue("Billing")

            async def has_come() -> bool:
                return await endpoints.backend.count("Billing") >= 2

            await eventually(has_come)

    assert "Could not send the recurring message missing" in caplog.text
    body = (await endpoints.backend.rows("Billing"))[0].body
    assert first.next_due.isoformat().encode() in (body or b"")


@pytest.mark.parametrize("catch_up, sent", [("skip", 0), ("one", 1), ("all", 250)])
async def test_missed_ticks_are_sent_as_the_policy_says(
    endpoints: Endpoints, catch_up: CatchUp, sent: int
) -> None:
    sales = endpoints.make("Sales")
    every(sales, HOURLY, catch_up=catch_up, to="Billing")
    await endpoints.backend.create_queue("Billing")
    async with sales:
        pass
    missed = Interval(HOURLY).until(datetime.now(UTC)) - 249 * HOURLY
    session = await endpoints.backend.database.connect()
    await put_back(session, table_of(sales), missed)

    async def is_caught_up() -> bool:
        (row,) = await session.run(table_of(sales).list())
        return row.next_due > row.at

    async with sales:
        await eventually(is_caught_up)
    await session.close()

    now = datetime.now(UTC)
    if now - Interval(HOURLY).until(now) > timedelta(
        minutes=2
    ):  # else the last tick is not missed, or another came
        assert await endpoints.backend.count("Billing") == sent


async def test_a_schedule_that_waits_for_too_long_a_time_waits_for_its_next_tick(
    endpoints: Endpoints,
) -> None:
    """The server's clock was an hour ahead when a tick was sent."""
    seen: Counter[str] = Counter()
    sales = endpoints.make("Sales")
    every(sales, OFTEN)
    counting(sales, seen)
    async with sales:
        pass
    session = await endpoints.backend.database.connect()
    await put_back(session, table_of(sales), Interval(OFTEN).until(datetime.now(UTC)) + HOURLY)
    await session.close()
    seen.clear()

    async def has_come() -> bool:
        return bool(seen)

    async with sales:
        await eventually(has_come)


async def test_a_schedule_with_another_text_begins_anew_and_the_one_before_stops(
    endpoints: Endpoints,
) -> None:
    old, new, seen = endpoints.make("Sales"), endpoints.make("Sales"), Counter[str]()
    every(old, OFTEN)
    counting(old, seen)
    every(new, "0 7 1 1 *", tz="Europe/Berlin")
    counting(new, seen)

    async with old:

        async def has_come() -> bool:
            return bool(seen)

        await eventually(has_come)
        async with new:
            (row,) = await rows_of(endpoints, new)
            assert row.schedule == "0 7 1 1 * Europe/Berlin"
            assert row.next_due.month == 1
            await asyncio.sleep(0)
        (after,) = await rows_of(endpoints, new)
        assert after.next_due == row.next_due


async def test_without_recurring_messages_there_is_no_table_and_without_install_it_is_required(
    endpoints: Endpoints,
) -> None:
    plain = endpoints.make("Sales")
    async with plain:
        pass
    assert "sales.recurring" not in await endpoints.backend.tables()
    demanding = endpoints.make("Sales", install=False)
    every(demanding, OFTEN)

    with pytest.raises(rowbus.QueueNotFoundError, match="rowbus schema install MODULE:ENDPOINT"):
        await demanding.start()


async def test_a_restart_sends_no_tick_again_and_loses_none(endpoints: Endpoints) -> None:
    seen: Counter[str] = Counter()
    sales = endpoints.make("Sales")
    every(sales, OFTEN)
    counting(sales, seen)

    for _ in range(3):
        before = len(seen)

        async def enough(before: int = before) -> bool:
            return len(seen) >= before + 2

        async with sales:
            await eventually(enough)

    moments = sorted(map(datetime.fromisoformat, seen))
    assert set(seen.values()) == {1}
    assert moments == [moments[0] + number * OFTEN for number in range(len(moments))]


def makes_event() -> Incident | None: ...


def makes_dict() -> dict[str, Any]:
    raise NotImplementedError


def makes_text() -> str:
    raise NotImplementedError


@rows(
    "make, text",
    [
        (Incident, "Incident is an event: it is published to all"),
        (makes_event, "Incident is an event"),
        (makes_dict, "A dict does not say what message it is"),
        (makes_text, "str is the type of no message"),
    ],
)
def test_what_makes_no_message_that_can_be_sent_is_refused(make: Any, text: str) -> None:  # noqa: ANN401 - a class or a function
    with pytest.raises(rowbus.ConfigurationError, match=text):
        rowbus.Endpoint("Sales", database="postgresql://").every(HOURLY)(make)
    rowbus.Endpoint("Sales", database="postgresql://").every(HOURLY, type="Shop.Any")(makes_dict)


def test_what_cannot_make_a_recurring_message_is_refused() -> None:
    sales = rowbus.Endpoint("Sales", database="postgresql://")
    register: Any = sales.every(HOURLY)

    async def later() -> Report:
        raise NotImplementedError

    def greedy(one: object, two: object) -> Report:
        raise NotImplementedError

    with pytest.raises(rowbus.ConfigurationError, match="later must be a `def`"):
        register(later)
    with pytest.raises(rowbus.ConfigurationError, match=r"greedy\(one, two\) must take \(tick\)"):
        register(greedy)
    with pytest.raises(rowbus.ConfigurationError, match="catch_up is 'some'"):
        every(sales, HOURLY, catch_up="some")
    every(sales, HOURLY)
    with pytest.raises(rowbus.ConfigurationError, match="'report' is there already"):
        every(sales, HOURLY)


async def test_a_function_that_panics_stops_no_schedule(endpoints: Endpoints) -> None:
    sales, seen, panics = endpoints.make("Sales"), Counter[str](), Counter[str]()
    counting(sales, seen)
    every(sales, OFTEN)

    class Panic(BaseException):
        """Stands for what PyO3 makes of a Rust panic."""

    @sales.every(OFTEN)
    def broken(_tick: datetime) -> Report:
        panics["broken"] += 1
        raise Panic

    @sales.every(OFTEN)
    def leaving(_tick: datetime) -> Report:
        panics["leaving"] += 1
        sys.exit(1)

    async with sales:
        await eventually(lambda: len(seen) >= 2 and min(panics["broken"], panics["leaving"]) >= 2)


@pytest.mark.only("PostgreSQL", reason="pauses are kept there alone")
async def test_one_that_is_paused_is_sent_no_more_and_the_others_are_until_it_is_resumed(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    seen: Counter[str] = Counter()
    sales = endpoints.make("Sales")
    for name in ("paused", "other"):
        sales.every(OFTEN, name=name)(lambda _tick, name=name: Report(name))
    counting(sales, seen)
    what, address = PauseSubject("recurring", f"{sales.name}/paused"), pauses_address(sales.addresses)

    async with sales:
        await eventually(lambda: _is_true(min(seen["paused"], seen["other"]) > 1))
        with endpoints.backend.database.session() as session:
            pause_now(session, address, what, person="ada", why="a test", until=None)
        await eventually(lambda: _is_true("Sales/paused is paused" in caplog.text))
        (row,) = [row for row in await rows_of(endpoints, sales) if row.name == "paused"]
        others = seen["other"]
        await eventually(lambda: _is_true(seen["other"] > others + 5))
        (later,) = [row for row in await rows_of(endpoints, sales) if row.name == "paused"]
        with endpoints.backend.database.session() as session:
            session.run(pauses_table(address).resume(what))
        before = seen["paused"]
        await eventually(lambda: _is_true(seen["paused"] > before + 1))

    assert later.last_sent == row.last_sent


async def _is_true(value: bool) -> bool:  # noqa: FBT001 - what `eventually` awaits
    return value
