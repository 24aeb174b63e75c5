"""The watch on the event loop: who blocks it is named, once."""

from __future__ import annotations

import asyncio
import inspect
import logging
import selectors
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from rowbus.running import loop_watch
from rowbus.running.loop_watch import LoopWatch, rests

PATIENCE = 60.0
logger = logging.getLogger("rowbus.test")


class Told(logging.Handler):
    """Notes what is logged, and tells who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.event.set()


@pytest.fixture
def told() -> Iterator[Told]:
    """Give what hears the watch."""
    handler = Told()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def block(told: Told) -> bool:
    return told.event.wait(PATIENCE)


def work(seconds: float) -> None:
    """Be at work; between two such pieces the loop looks for events, when another thread may take it for resting."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


async def test_who_blocks_the_loop_is_named_once(told: Told) -> None:
    watch = LoopWatch(["/asyncio/events.py"], logger)
    watch.start()
    try:
        assert block(told)
        line = inspect.stack()[0].lineno - 1
        told.event.clear()
        await asyncio.sleep(0)
    finally:
        watch.stop()
    assert told.texts == [
        f"{__name__}.test_who_blocks_the_loop_is_named_once blocks the event loop for more than a second, and "  # noqa: ISC004
        "with it all other handlers, at "
        f"{__file__}, line {line}. Await what it waits for, or make it a `def`, which runs in a thread"
    ]


async def test_those_that_watch_one_loop_share_a_thread_and_name_who_blocks_it_once(
    told: Told,
) -> None:
    before = set(threading.enumerate())
    watches = [LoopWatch(["/asyncio/events.py"], logger) for _ in range(3)]
    for watch in watches:
        watch.start()
    try:
        (thread,) = set(threading.enumerate()) - before
        watches[0].stop()
        assert block(told)
        assert thread.is_alive()
    finally:
        for watch in watches:
            watch.stop()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()
    assert len(told.texts) == 1


def test_the_thread_ends_with_a_loop_that_ends_without_a_stop() -> None:
    before = set(threading.enumerate())

    async def begin() -> threading.Thread:
        LoopWatch(["/asyncio/events.py"], logger).start()
        (thread,) = set(threading.enumerate()) - before
        return thread

    thread = asyncio.run(begin())
    thread.join(PATIENCE)
    assert not thread.is_alive()


async def test_a_loop_that_is_not_blocked_is_left_alone(told: Told) -> None:
    watch = LoopWatch(["/asyncio/events.py"], logger)
    watch.start()
    try:
        assert not await asyncio.to_thread(told.event.wait, 2)
    finally:
        watch.stop()


async def test_a_loop_at_work_that_answers_is_left_alone(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = 0
    answer = loop_watch._Pulse._answer

    def counting(pulse: loop_watch._Pulse) -> None:
        nonlocal answers
        answers += 1
        answer(pulse)

    monkeypatch.setattr(loop_watch._Pulse, "_answer", counting)
    watch = LoopWatch(["/asyncio/events.py"], logger)
    watch.start()
    try:
        until = time.monotonic() + PATIENCE
        while answers <= loop_watch.BLOCKED and time.monotonic() < until:
            work(0.02)
            await asyncio.sleep(0)
    finally:
        watch.stop()
    assert answers > loop_watch.BLOCKED
    assert not told.texts


async def test_a_loop_rests_that_waits_for_something() -> None:
    loops_thread, until = threading.get_ident(), time.monotonic() + PATIENCE

    def came_to_rest() -> bool:
        while time.monotonic() < until:
            if rests(sys._current_frames()[loops_thread]):
                return True
        return False

    assert await asyncio.to_thread(came_to_rest)


def test_a_loop_rests_nowhere_else() -> None:
    assert not rests(None)
    assert not rests(inspect.currentframe())


async def test_a_loop_does_not_rest_whose_handler_waits_by_a_selector_of_its_own() -> None:
    loops_thread, seen = threading.get_ident(), []
    ours, theirs = socket.socketpair()

    def look() -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            frame = sys._current_frames()[loops_thread]
            if frame.f_code.co_name == "select":
                seen.append(rests(frame))
                break
        theirs.send(b".")

    with ours, theirs, selectors.DefaultSelector() as selector:
        selector.register(ours, selectors.EVENT_READ)
        thread = threading.Thread(target=look)
        thread.start()
        assert selector.select(PATIENCE)
        thread.join(PATIENCE)

    assert seen == [False]
