"""Suspects are handled alone in their process, and not in the first second of its work."""

from __future__ import annotations

import asyncio

from rowbus.testing import FakeClock
from rowbus.transport.receiving.rounds import PUT_OFF, UNDISTURBED, Seclusion
from rowbus.work.book import Entry


async def test_a_process_puts_what_took_another_off_for_a_second_of_work() -> None:
    clock = FakeClock()
    seclusion = Seclusion(clock)
    clock.advance(60)  # not of work

    assert await seclusion.enter_alone(Entry(), 1) == UNDISTURBED
    clock.advance(UNDISTURBED / 4)
    assert await seclusion.enter_alone(Entry(), 1) == UNDISTURBED * 3 / 4
    clock.advance(UNDISTURBED)
    assert await seclusion.enter_alone(Entry(), 1) == 0


async def test_one_of_several_that_were_in_hand_is_handled_at_once() -> None:
    assert await Seclusion(FakeClock()).enter_alone(Entry(), 0) == 0


async def test_others_that_are_handled_count_as_work() -> None:
    clock = FakeClock()
    seclusion = Seclusion(clock)
    await seclusion.enter()
    seclusion.leave()
    clock.advance(UNDISTURBED)

    assert await seclusion.enter_alone(Entry(), 1) == 0


async def test_a_second_suspect_and_the_others_wait_for_the_first() -> None:
    clock = FakeClock()
    seclusion = Seclusion(clock)
    await seclusion.enter()
    seclusion.leave()
    clock.advance(UNDISTURBED)
    await seclusion.enter_alone(Entry(), 1)

    assert await seclusion.enter_alone(Entry(), 0) == PUT_OFF
    entering = asyncio.create_task(seclusion.enter())
    await asyncio.sleep(0)
    assert not entering.done()
    seclusion.leave_alone()
    await entering
