"""The database's clock, told from here: never ahead of it when something is due, never behind it when one waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest

from rowbus.database.pool import SessionPool
from rowbus.database.postgresql.database import Database
from rowbus.testing import FakeClock
from rowbus.transport.delayed_store.poller import MEASURED_EVERY, SAMPLES, DatabaseClock
from rowbus.transport.queues.catalog import postgresql as catalog
from tests.conformance.backend import Backend
from tests.fixtures.every import every

pytestmark = pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Server:
    """A server whose clock reads NOON when the local one reads 0, and answers after a while."""

    def __init__(self, clock: FakeClock, *delays: tuple[float, float]) -> None:
        self._clock = clock
        self._delays = list(delays)
        self.asked = 0

    async def run(self, statement: object) -> datetime:
        self.asked += 1
        there, back = self._delays.pop(0)
        self._clock.advance(there)
        time = NOON + timedelta(seconds=self._clock())
        self._clock.advance(back)
        return time

    def session(self) -> Server:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None: ...


def clocks(*delays: tuple[float, float]) -> tuple[DatabaseClock, Server, Callable[[], datetime], FakeClock]:
    local = FakeClock()
    server = Server(local, *delays)
    pool: Any = server
    return DatabaseClock(pool, catalog, local), server, lambda: NOON + timedelta(seconds=local()), local


@every("delays", [[(5, 0)] * 3, [(0, 5)] * 3, [(1, 2), (0.25, 3), (2, 0.5)]])
async def test_it_is_never_ahead_of_the_servers_clock_nor_behind_it(
    delays: list[tuple[float, float]],
) -> None:
    clock, _server, true, local = clocks(*delays)

    await clock.measure()

    for _ in range(3):
        assert clock.reached() <= true() <= clock.reaching()
        local.advance(7)


async def test_it_is_off_by_no_more_than_the_best_samples_allow() -> None:
    clock, _server, true, _local = clocks((1, 2), (0.25, 3), (2, 0.5))

    await clock.measure()

    assert true() - clock.reached() == timedelta(seconds=0.5)
    assert clock.reaching() - true() == timedelta(seconds=0.25)


async def test_it_asks_again_after_a_minute_and_not_before() -> None:
    clock, server, _true, local = clocks(*[(0, 0)] * 6)
    await clock.measure()

    local.advance(MEASURED_EVERY - 1)
    await clock.measure()
    assert server.asked == SAMPLES
    local.advance(1)
    await clock.measure()
    assert server.asked == 2 * SAMPLES


async def test_the_server_is_asked_for_its_own_time(backend: Backend) -> None:
    pool = backend.pool()
    await pool.open()
    clock = DatabaseClock(pool, catalog)
    await clock.measure()

    (before,) = await backend.values("select clock_timestamp()")
    reached, reaching = clock.reached(), clock.reaching()
    (after,) = await backend.values("select clock_timestamp()")

    assert reached <= after
    assert before <= reaching
    await pool.close()


async def test_a_server_that_is_away_leaves_it_going_by_the_local_clock() -> None:
    clock = DatabaseClock(SessionPool(Database("host=127.0.0.1 port=1"), size=1), catalog)

    await clock.measure()

    assert abs(datetime.now(UTC) - clock.reached()) < timedelta(seconds=1)
