"""The watch on the event loop: who blocks it is named, once."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading

from rowbus.running.loop_watch import LoopWatch

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


def block(told: Told) -> bool:
    return told.event.wait(PATIENCE)


async def test_who_blocks_the_loop_is_named_once() -> None:
    told = Told()
    logger.addHandler(told)
    watch = LoopWatch(["/asyncio/events.py"], logger)
    watch.start()
    try:
        assert block(told)
        line = inspect.stack()[0].lineno - 1
        told.event.clear()
        await asyncio.sleep(0)
    finally:
        watch.stop()
        logger.removeHandler(told)
    assert told.texts == [
        f"{__name__}.test_who_blocks_the_loop_is_named_once blocks the event loop for more than a second, and "  # noqa: ISC004
        "with it all other handlers, at "
        f"{__file__}, line {line}. Await what it waits for, or make it a `def`, which runs in a thread"
    ]


async def test_those_that_watch_one_loop_share_a_thread_and_name_who_blocks_it_once() -> None:
    told = Told()
    logger.addHandler(told)
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
        logger.removeHandler(told)
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


async def test_a_loop_that_is_not_blocked_is_left_alone() -> None:
    told = Told()
    logger.addHandler(told)
    watch = LoopWatch(["/asyncio/events.py"], logger)
    watch.start()
    try:
        assert not await asyncio.to_thread(told.event.wait, 2)
    finally:
        watch.stop()
        logger.removeHandler(told)
