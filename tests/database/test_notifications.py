"""Notifications that a session waits for: none is lost, however a wait ends, and waiting wakes nothing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from rowbus.database.statements import control
from tests.fixtures.sessions import run

if TYPE_CHECKING:
    from rowbus.database.postgresql.connection import AsyncSession, Session

LONG = 10.0
LISTEN = [control(b"listen one", "Failed"), control(b"listen two", "Failed")]
NOTHING = control(b"select", "Failed")


@pytest.fixture
async def listener(asynchronous: AsyncSession) -> AsyncSession:
    """Give a session that listens to two channels."""
    await asynchronous.connection.set_autocommit(True)
    await asynchronous.run_all(LISTEN)
    return asynchronous


async def test_what_comes_while_a_session_waits_is_heard(listener: AsyncSession, session: Session) -> None:
    hearing = asyncio.ensure_future(listener.heard(LONG))
    await asyncio.sleep(0)
    run(session, "notify one")

    assert await hearing == {"one"}


async def test_what_came_before_is_heard_at_once(listener: AsyncSession, session: Session) -> None:
    run(session, "notify one")
    run(session, "notify two")

    heard = await listener.heard(LONG)
    while heard != {"one", "two"}:
        heard |= await listener.heard(LONG)


async def test_a_wait_ends_when_its_time_is_over(listener: AsyncSession) -> None:
    assert await listener.heard(0.01) == set()
    assert await listener.heard(0) == set()


@pytest.mark.parametrize("with_answers", [True, False], ids=["with answers", "by themselves"])
@pytest.mark.parametrize("passes", range(6))
async def test_a_wait_that_is_cancelled_loses_nothing(
    listener: AsyncSession, session: Session, passes: int, *, with_answers: bool
) -> None:
    """A lookout is called away by any receiver, perhaps at the moment at which another's notification comes."""
    run(session, "notify one")
    if with_answers:
        await listener.run_together([NOTHING])
    hearing = asyncio.ensure_future(listener.heard(LONG))
    for _ in range(passes):
        await asyncio.sleep(0)
    was_heard = hearing.done()
    hearing.cancel()
    with suppress(asyncio.CancelledError):
        await hearing

    assert (hearing.result() if was_heard else await listener.heard(LONG)) == {"one"}


async def test_a_session_that_waits_sets_one_timer_for_its_whole_wait(
    listener: AsyncSession, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, delays = asyncio.get_running_loop(), list[float]()
    call_at = loop.call_at

    def note(when: float, *call: Any, **context: Any) -> asyncio.TimerHandle:  # noqa: ANN401 - the loop's own
        delays.append(when - loop.time())
        return call_at(when, *call, **context)

    monkeypatch.setattr(loop, "call_at", note)
    hearing = asyncio.ensure_future(listener.heard(LONG))
    for _ in range(20):  # until it waits
        await asyncio.sleep(0)
    run(session, "notify one")

    assert await hearing == {"one"}
    assert [delay for delay in delays if delay > 0] == [pytest.approx(LONG, abs=5)]
