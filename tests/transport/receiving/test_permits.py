"""Permits: slots wait for permission to receive, no slot waits in vain, and a turn is never lost."""

from __future__ import annotations

import asyncio

import pytest

from rowbus.transport.receiving.decisions import Round
from rowbus.transport.receiving.rounds import Permits


def always() -> bool:
    return True


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def slots(permits: Permits, count: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(permits.take(1, always)) for _ in range(count)]


def served(tasks: list[asyncio.Task[int]]) -> int:
    return sum(task.done() and not task.cancelled() and task.result() > 0 for task in tasks)


@pytest.fixture
def permits() -> Permits:
    return Permits()


async def test_without_a_round_slots_wait(permits: Permits) -> None:
    waiting = slots(permits, 2)
    await settled()

    assert not any(task.done() for task in waiting)
    assert permits.try_take(1) == 0
    permits.close()
    await asyncio.gather(*waiting)


async def test_a_new_round_lets_one_slot_go(permits: Permits) -> None:
    waiting = slots(permits, 4)
    await settled()

    permits.open(Round(concurrency=4))
    await settled()

    assert served(waiting) == 1
    permits.close()
    await asyncio.gather(*waiting)


async def test_every_find_lets_more_slots_go(permits: Permits) -> None:
    waiting = slots(permits, 7)
    permits.open(Round(concurrency=8))
    going = []
    for _ in range(3):
        await settled()
        going.append(served(waiting))
        permits.received(1)

    await settled()
    going.append(served(waiting))

    assert going == [1, 3, 5, 7]
    permits.close()
    await asyncio.gather(*waiting)


async def test_an_empty_receive_ends_the_round_and_the_slots_wait_for_the_next(permits: Permits) -> None:
    waiting = slots(permits, 2)
    permits.open(Round(concurrency=2))
    await settled()

    permits.received(0)

    await asyncio.wait_for(permits.over.wait(), 1)
    assert served(waiting) == 1
    permits.open(Round(concurrency=2))
    await settled()
    assert served(waiting) == 2


async def test_the_round_is_over_only_when_its_last_receive_is_done(permits: Permits) -> None:
    permits.open(Round(concurrency=2))
    permits.try_take(1)
    permits.received(1)
    permits.try_take(1)
    permits.try_take(1)
    over = asyncio.create_task(permits.over.wait())

    permits.received(0)
    await settled()
    assert not over.done()

    permits.received(0)
    await asyncio.wait_for(over, 1)


async def test_closing_sends_all_waiting_slots_away_with_nothing(permits: Permits) -> None:
    waiting = slots(permits, 3)
    await settled()

    permits.close()

    assert await asyncio.gather(*waiting) == [0, 0, 0]
    assert await permits.take(1, always) == 0
    assert permits.try_take(1) == 0


async def test_closing_ends_the_round(permits: Permits) -> None:
    permits.open(Round(concurrency=2))
    permits.try_take(1)

    permits.close()

    await asyncio.wait_for(permits.over.wait(), 1)


async def test_a_round_that_begins_after_closing_is_over_at_once(permits: Permits) -> None:
    permits.close()  # while the receiver was peeking

    permits.open(Round(concurrency=2))

    await asyncio.wait_for(permits.over.wait(), 1)


async def test_a_slot_no_longer_wanted_leaves_and_passes_its_turn_on(permits: Permits) -> None:
    wanted = True
    leaving = asyncio.create_task(permits.take(1, lambda: wanted))
    await settled()
    staying = slots(permits, 1)
    await settled()

    wanted = False
    permits.open(Round(concurrency=1))  # wakes one: the first
    await settled()

    assert await leaving == 0
    assert served(staying) == 1


async def test_waking_all_has_the_unwanted_leave_at_once(permits: Permits) -> None:
    wanted = True
    leaving = asyncio.create_task(permits.take(1, lambda: wanted))
    staying = slots(permits, 1)
    await settled()

    wanted = False
    permits.wake_all()

    assert await asyncio.wait_for(leaving, 1) == 0
    assert not staying[0].done()
    permits.close()
    await staying[0]


async def test_a_cancelled_slot_passes_its_turn_on(permits: Permits) -> None:
    first, second = slots(permits, 2)
    await settled()

    permits.open(Round(concurrency=1))  # the turn is the first one's
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await settled()

    assert served([second]) == 1


async def test_a_slot_cancelled_while_it_waits_does_not_take_a_turn_with_it(permits: Permits) -> None:
    first, second = slots(permits, 2)
    await settled()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    permits.open(Round(concurrency=1))
    await settled()

    assert served([second]) == 1


async def test_a_batch_gets_what_the_round_has_left(permits: Permits) -> None:
    permits.open(Round(concurrency=1, records=7))

    assert await permits.take(5, always) == 5
    permits.received(5)
    assert permits.try_take(5) == 2


async def test_a_receive_that_travels_with_a_commit_holds_up_no_further_round(permits: Permits) -> None:
    first, second = Round(concurrency=2), Round(concurrency=2)
    permits.open(first)
    permits.try_take(1)
    permits.received(1)
    travel, begun = permits.try_travel(1), permits.try_take(1)
    assert travel is not None
    assert begun == 1
    waiting = asyncio.create_task(permits.only_travels.wait())

    await settled()
    assert not waiting.done()
    permits.received(0)
    await asyncio.wait_for(waiting, 1)
    permits.open(second)
    permits.received(1, travel)

    assert (first.received, second.received, second.receiving) == (2, 0, 0)
    assert first.over
    assert first.only_travels
    assert permits.try_take(1) == 1


async def test_a_slot_with_a_permit_need_not_look_once_another_has_found_nothing(permits: Permits) -> None:
    """It may have waited for its turn meanwhile."""
    permits.open(Round(concurrency=2))
    permits.try_take(1)
    permits.received(1)
    assert (permits.try_take(1), permits.try_take(1)) == (1, 1)
    was_void = permits.are_void
    permits.received(0)
    assert (was_void, permits.are_void) == (False, True)
    permits.received(0)
    await permits.over.wait()
    permits.open(Round(concurrency=2))
    assert not permits.are_void
