"""Lanes of a consumer of a log: processes share the events by their keys, and each key keeps its order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import pytest

import rowbus
from rowbus.settings import ConsumerSettings
from tests.fixtures.every import every
from tests.log.orders import QUICK, Orders, note, until

pytestmark = pytest.mark.one_version

LANES = 4
KEYS = "abcdefgh"


class Process:
    """A log with one consumer in lanes, as a process of its own would have it."""

    def __init__(
        self, orders: Orders, lanes: rowbus.Lanes | None, settings: ConsumerSettings = QUICK
    ) -> None:
        self.log = orders.log()
        self.handled = list[rowbus.Event]()

        @self.log.consumer("one", key="extra1", lanes=lanes, settings=settings)
        async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
            await note(context, event)
            self.handled.append(event)


def deliver(orders: Orders, number: int) -> None:
    """Deliver an event of each key."""
    for key in KEYS:
        orders.put(f"{key} {number}", key=key)
    orders.tick()


async def test_processes_share_the_events_and_take_over_and_each_key_keeps_its_order(orders: Orders) -> None:
    first, second = Process(orders, rowbus.by_key(LANES)), Process(orders, rowbus.by_key(LANES))
    rounds = itertools.count()

    async def go_on_until(is_so: Callable[[], object]) -> None:
        while not is_so():
            number = next(rounds)
            deliver(orders, number)
            await until(lambda: len(orders.seen()) == (number + 1) * len(KEYS))  # noqa: B023 - called at once

    await first.log.start()
    async with second.log:
        await go_on_until(lambda: first.handled and second.handled)
        await first.log.stop()
        await go_on_until(lambda: {event.extra1 for event in second.handled} == set(KEYS))

    done = defaultdict[str, list[int]](list)
    for key, number in map(str.split, orders.seen()):
        done[key].append(int(number))
    count = next(rounds)
    assert done == {key: list(range(count)) for key in KEYS}


async def test_an_event_that_is_retried_stays_in_its_lane_ahead_of_later_ones_of_its_key(
    orders: Orders,
) -> None:
    log, failed = orders.log(), list[str]()

    @log.consumer("one", key="extra1", lanes=rowbus.by_key(LANES), settings=QUICK)
    async def one(event: rowbus.Event, context: rowbus.LogContext) -> None:
        await note(context, event)
        if event.extra1 == "a" and event.data not in failed:
            failed.append(event.data or "")
            raise ValueError(event.data)

    def is_done() -> bool:
        orders.redeliver()  # the ticker's work
        return len(orders.seen()) == 2 * len(KEYS)

    async with log:
        deliver(orders, 0)
        deliver(orders, 1)
        await until(is_done)

    assert [text for text in orders.seen() if text.startswith("a")] == ["a 0", "a 1"]


@every("lanes", [rowbus.by_key(2), None])
async def test_another_number_of_lanes_is_refused(orders: Orders, lanes: rowbus.Lanes | None) -> None:
    async with Process(orders, rowbus.by_key(LANES)).log:
        pass
    with pytest.raises(rowbus.ConfigurationError, match="one#0, one#1, one#2, one#3, and now asks for one"):
        await Process(orders, lanes).log.start()


@every(
    "lanes, settings, match",
    [
        (rowbus.fair(lanes=4), QUICK, "give lanes=rowbus.by_key"),
        (rowbus.by_key(4), replace(QUICK, workers=2), "more lanes instead of workers"),
        (rowbus.by_key(4), replace(QUICK, whole_batches=True), "one transaction"),
        (rowbus.by_key(4), replace(QUICK, stand_by=False), "belongs to one session"),
    ],
)
def test_what_lanes_cannot_have_is_refused(
    orders: Orders, lanes: rowbus.Lanes, settings: ConsumerSettings, match: str
) -> None:
    with pytest.raises(rowbus.ConfigurationError, match=match):
        Process(orders, lanes, settings)
