"""Coroutines that take turns: in a thread where they say so, on the loop before they wait, one place at a time."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from rowbus.running import threads
from rowbus.running.threads import Threads
from rowbus.running.turns import ending_on_loop, into_thread, onto_loop, take_turns, without_turns
from tests.conformance.transport import eventually, within
from tests.running.used import Connection

pytestmark = pytest.mark.one_version

seen: ContextVar[str] = ContextVar("seen", default="nothing")


def is_on_loop() -> bool:
    return threading.current_thread() is threading.main_thread()


class TwoCalls:
    """A coroutine that makes two calls in a thread, each of which waits; it notes where it ends."""

    def __init__(self, release: threading.Event) -> None:
        self.made: list[str] = []
        self.began = threading.Event()
        self.ended_on_loop: bool | None = None
        self._release = release

    async def work(self) -> None:
        try:
            for name in ("first", "second"):
                await into_thread()
                self.made.append(name)
                self.began.set()
                self._release.wait(60)
        finally:
            self.ended_on_loop = is_on_loop()


async def test_it_stays_where_it_is_until_it_says_otherwise(pool: Threads, connection: Connection) -> None:
    async def work() -> list[bool]:
        places = [is_on_loop()]
        for _ in range(2):
            assert await into_thread()
            places.append(is_on_loop())
        await onto_loop()
        places.append(is_on_loop())
        await asyncio.sleep(0.001)
        await onto_loop()
        return places

    assert await take_turns(work(), pool, connection) == [True, False, False, True]


async def test_its_end_in_a_thread_is_its_end(pool: Threads, connection: Connection) -> None:
    async def work(*, fails: bool) -> str:
        await into_thread()
        if fails:
            raise LookupError("of its own")
        return "done"

    assert await take_turns(work(fails=False), pool, connection) == "done"
    with pytest.raises(LookupError, match="of its own"):
        await take_turns(work(fails=True), pool, connection)


async def test_without_turns_nothing_changes_places() -> None:
    assert not await into_thread()
    await onto_loop()
    assert is_on_loop()


async def test_its_context_is_one_in_all_places_and_its_own(pool: Threads, connection: Connection) -> None:
    async def work() -> list[str]:
        token = seen.set("set on the loop")
        await into_thread()
        values = [seen.get()]
        seen.reset(token)  # which no other context could
        seen.set("set in the thread")
        await onto_loop()
        return [*values, seen.get()]

    assert await take_turns(work(), pool, connection) == ["set on the loop", "set in the thread"]
    assert seen.get() == "nothing"


async def test_what_ends_on_the_loop_does_so_also_when_it_fails(
    pool: Threads, connection: Connection
) -> None:
    async def call(error: Exception | None) -> None:
        await into_thread()
        if error is not None:
            raise error

    async def work() -> list[bool]:
        ending, places = ending_on_loop(call), list[bool]()
        await ending(None)
        places.append(is_on_loop())
        with pytest.raises(LookupError):
            await ending(LookupError())
        return [*places, is_on_loop()]

    assert await take_turns(work(), pool, connection) == [True, True]


async def test_a_call_may_run_a_loop_of_its_own(pool: Threads, connection: Connection) -> None:
    async def inner() -> str:
        await onto_loop()  # of no concern to these turns
        return "ran" if not await into_thread() else "took a turn"

    async def work() -> str:
        await into_thread()
        return without_turns(lambda: asyncio.run(inner()))

    assert await take_turns(work(), pool, connection) == "ran"


async def test_a_task_that_is_started_in_it_takes_no_turns(
    pool: Threads, connection: Connection, release: threading.Event
) -> None:
    began, ran = threading.Event(), asyncio.Event()

    async def started() -> tuple[bool, bool]:
        await eventually(began.is_set)  # while the other is in its thread
        await onto_loop()
        moved = await into_thread()
        ran.set()
        return moved, is_on_loop()

    async def work() -> tuple[bool, bool]:
        task = asyncio.ensure_future(started())
        await into_thread()
        began.set()
        release.wait(60)
        await onto_loop()
        return await task

    running = asyncio.ensure_future(take_turns(work(), pool, connection))
    await within(ran.wait())
    release.set()
    assert await running == (False, True)


async def test_it_waits_for_what_takes_time_and_can_be_timed_out(
    pool: Threads, connection: Connection
) -> None:
    async def work() -> str:
        await into_thread()
        await onto_loop()
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            await into_thread()
            return "timed out" if not is_on_loop() else "on the loop"
        return "waited"

    assert await take_turns(work(), pool, connection) == "timed out"


async def test_a_cancellation_comes_after_the_call_that_is_being_made(
    pool: Threads, connection: Connection, release: threading.Event
) -> None:
    calls = TwoCalls(release)
    running = asyncio.ensure_future(take_turns(calls.work(), pool, connection))
    await eventually(calls.began.is_set)
    running.cancel()
    await asyncio.sleep(0)
    release.set()

    with pytest.raises(asyncio.CancelledError):
        await within(running)
    assert (calls.made, calls.ended_on_loop, connection.told) == (["first"], True, [])


async def test_a_call_that_does_not_end_is_left_to_itself_by_a_stop(
    pool: Threads, connection: Connection, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.05)
    calls = TwoCalls(release)
    running = asyncio.ensure_future(take_turns(calls.work(), pool, connection))
    await eventually(calls.began.is_set)
    pool.stop()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(running)
    assert connection.told == ["abandon"]

    release.set()
    await eventually(lambda: connection.told == ["abandon", "discard"] and calls.ended_on_loop is not None)
    assert (calls.made, calls.ended_on_loop) == (["first"], True)
