"""Tickets: slots wait for permission to receive, nobody waits in vain, and a turn is never lost."""

from __future__ import annotations

import asyncio

import pytest

from rowbus.transport.receiving.permits import Tickets
from rowbus.transport.receiving.round import Round


def always() -> bool:
    return True


async def settled() -> None:
    """Let every task that can go on do so."""
    for _ in range(10):
        await asyncio.sleep(0)


def slots(tickets: Tickets, count: int) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(tickets.take(1, always)) for _ in range(count)]


def served(tasks: list[asyncio.Task[int]]) -> int:
    return sum(task.done() and not task.cancelled() and task.result() > 0 for task in tasks)


@pytest.fixture
def tickets() -> Tickets:
    return Tickets()


async def test_without_a_round_slots_wait(tickets: Tickets) -> None:
    waiting = slots(tickets, 2)
    await settled()

    assert not any(task.done() for task in waiting)
    assert tickets.try_take(1) == 0
    tickets.close()
    await asyncio.gather(*waiting)


async def test_a_new_round_lets_one_slot_go(tickets: Tickets) -> None:
    waiting = slots(tickets, 4)
    await settled()

    tickets.open(Round(concurrency=4))
    await settled()

    assert served(waiting) == 1
    tickets.close()
    await asyncio.gather(*waiting)


async def test_every_find_lets_more_slots_go(tickets: Tickets) -> None:
    waiting = slots(tickets, 7)
    tickets.open(Round(concurrency=8))
    going = []
    for _ in range(3):
        await settled()
        going.append(served(waiting))
        tickets.received(1)

    await settled()
    going.append(served(waiting))

    assert going == [1, 3, 5, 7]
    tickets.close()
    await asyncio.gather(*waiting)


async def test_an_empty_receive_ends_the_round_and_the_slots_wait_for_the_next(tickets: Tickets) -> None:
    waiting = slots(tickets, 2)
    tickets.open(Round(concurrency=2))
    await settled()

    tickets.received(0)

    await asyncio.wait_for(tickets.over(), 1)
    assert served(waiting) == 1
    tickets.open(Round(concurrency=2))
    await settled()
    assert served(waiting) == 2


async def test_a_failed_receive_ends_the_round(tickets: Tickets) -> None:
    tickets.open(Round(concurrency=2))
    tickets.try_take(1)

    tickets.failed()

    await asyncio.wait_for(tickets.over(), 1)
    assert tickets.try_take(1) == 0


async def test_the_round_is_over_only_when_its_last_receive_is_done(tickets: Tickets) -> None:
    tickets.open(Round(concurrency=2))
    tickets.try_take(1)
    tickets.received(1)
    tickets.try_take(1)
    tickets.try_take(1)
    over = asyncio.create_task(tickets.over())

    tickets.received(0)
    await settled()
    assert not over.done()

    tickets.received(0)
    await asyncio.wait_for(over, 1)


async def test_closing_sends_all_waiting_slots_away_with_nothing(tickets: Tickets) -> None:
    waiting = slots(tickets, 3)
    await settled()

    tickets.close()

    assert await asyncio.gather(*waiting) == [0, 0, 0]
    assert await tickets.take(1, always) == 0
    assert tickets.try_take(1) == 0


async def test_closing_ends_the_round(tickets: Tickets) -> None:
    tickets.open(Round(concurrency=2))
    tickets.try_take(1)

    tickets.close()

    await asyncio.wait_for(tickets.over(), 1)


async def test_a_round_that_begins_after_closing_is_over_at_once(tickets: Tickets) -> None:
    tickets.close()  # while the receiver was peeking

    tickets.open(Round(concurrency=2))

    await asyncio.wait_for(tickets.over(), 1)


async def test_a_slot_no_longer_wanted_leaves_and_passes_its_turn_on(tickets: Tickets) -> None:
    wanted = True
    leaving = asyncio.create_task(tickets.take(1, lambda: wanted))
    await settled()
    staying = slots(tickets, 1)
    await settled()

    wanted = False
    tickets.open(Round(concurrency=1))  # wakes one: the first
    await settled()

    assert await leaving == 0
    assert served(staying) == 1


async def test_waking_all_has_the_unwanted_leave_at_once(tickets: Tickets) -> None:
    wanted = True
    leaving = asyncio.create_task(tickets.take(1, lambda: wanted))
    staying = slots(tickets, 1)
    await settled()

    wanted = False
    tickets.wake_all()

    assert await asyncio.wait_for(leaving, 1) == 0
    assert not staying[0].done()
    tickets.close()
    await staying[0]


async def test_a_cancelled_slot_passes_its_turn_on(tickets: Tickets) -> None:
    first, second = slots(tickets, 2)
    await settled()

    tickets.open(Round(concurrency=1))  # the turn is the first one's
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await settled()

    assert served([second]) == 1


async def test_a_slot_cancelled_while_it_waits_does_not_take_a_turn_with_it(tickets: Tickets) -> None:
    first, second = slots(tickets, 2)
    await settled()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)

    tickets.open(Round(concurrency=1))
    await settled()

    assert served([second]) == 1


async def test_a_batch_gets_what_the_round_has_left(tickets: Tickets) -> None:
    tickets.open(Round(concurrency=1, records=7))

    assert await tickets.take(5, always) == 5
    tickets.received(5)
    assert tickets.try_take(5) == 2
