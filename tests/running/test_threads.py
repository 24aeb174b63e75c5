"""Threads for calls that block: as many as there are calls, none joined at the end, and what hangs is abandoned."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from rowbus.running import threads
from rowbus.running.threads import Threads
from tests.conformance.transport import eventually, never, within
from tests.fixtures.strangers import stranger
from tests.running.used import Connection

pytestmark = pytest.mark.one_version


async def test_a_call_returns_and_raises_as_it_does_in_a_thread_of_ours(
    pool: Threads, connection: Connection
) -> None:
    assert await pool.run(threading.current_thread, connection) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        await pool.run(lambda: 1 // 0, connection)
    with pytest.raises(RuntimeError, match="StopIteration"):  # which no future takes
        await pool.run(lambda: next(iter(())), connection)
    with pytest.raises(RuntimeError, match=r"raised Stranger\('over'\)"):
        await pool.run(end_strangely, connection)
    assert connection.told == []


def end_strangely() -> None:
    raise stranger("__repr__", StopIteration)("over")


async def test_there_are_as_many_threads_as_calls_at_the_same_time(
    pool: Threads, connection: Connection
) -> None:
    together = threading.Barrier(5, timeout=60)

    def meet() -> int:
        together.wait()
        return threading.get_ident()

    first = await asyncio.gather(*(pool.run(meet, connection) for _ in range(5)))
    await eventually(lambda: pool._idle == 5)
    second = await asyncio.gather(*(pool.run(meet, connection) for _ in range(5)))

    assert len(set(first)) == 5
    assert set(second) == set(first), "idle threads take the next calls"


async def test_a_call_after_another_takes_its_thread(pool: Threads, connection: Connection) -> None:
    used = {await pool.run(threading.get_ident, connection) for _ in range(200)}

    assert len(used) == 1


async def test_a_cancelled_call_is_waited_for_while_nothing_stops(
    pool: Threads, connection: Connection, release: threading.Event
) -> None:
    """A step that gives a handler so many seconds must not have the message tried again beside it."""
    running = asyncio.ensure_future(pool.run(release.wait, connection))
    for _ in range(3):
        await asyncio.sleep(0)
        running.cancel()
        await never(running.done, 0.05)
    release.set()

    with pytest.raises(asyncio.CancelledError):
        await within(running)
    assert connection.told == []


@pytest.mark.parametrize("stop_first", [True, False])
async def test_a_cancelled_call_that_does_not_end_is_abandoned_by_a_stop(
    pool: Threads,
    connection: Connection,
    release: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    *,
    stop_first: bool,
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 0.05)
    running = asyncio.ensure_future(pool.run(release.wait, connection))
    await asyncio.sleep(0)
    for act in (pool.stop, running.cancel) if stop_first else (running.cancel, pool.stop):
        act()
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await within(running)
    assert connection.told == ["abandon"]

    release.set()
    await eventually(lambda: connection.told == ["abandon", "discard"])
    assert connection.discarded_in not in {None, threading.main_thread()}


async def test_a_stop_gives_a_cancelled_call_a_moment_and_a_second_cancellation_takes_it(
    pool: Threads, connection: Connection, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "PATIENCE", 3600.0)
    pool.stop()
    ending = asyncio.ensure_future(pool.run(release.wait, connection))
    await asyncio.sleep(0)
    ending.cancel()
    await never(ending.done, 0.05)
    ending.cancel()

    with pytest.raises(asyncio.CancelledError):
        await within(ending)
    assert connection.told == ["abandon"]


async def test_closing_ends_idle_threads_at_once_and_others_after_their_call(
    connection: Connection, release: threading.Event
) -> None:
    pool = Threads("closing")
    running = asyncio.ensure_future(pool.run(release.wait, connection))
    assert await pool.run(lambda: True, connection)

    def alive() -> int:
        return sum(thread.name.startswith("closing") for thread in threading.enumerate())

    pool.close()
    await eventually(lambda: alive() == 1)
    release.set()
    assert await within(running)
    await eventually(lambda: alive() == 0)


def test_the_interpreter_ends_though_a_call_does_not() -> None:
    program = (
        "import asyncio, threading\n"
        "from rowbus.running.threads import Threads\n"
        "from tests.running.test_threads import Connection\n"
        "async def hang():\n"
        "    pool = Threads('hanging')\n"
        "    pool.stop()\n"
        "    asyncio.ensure_future(pool.run(threading.Event().wait, Connection()))\n"
        "    await asyncio.sleep(0)\n"
        "asyncio.run(hang())\n"
        "print('at the end')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "at the end\n"), ended.stderr
