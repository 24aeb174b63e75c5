"""Times of an endpoint's handlers: taken by its outermost step, counted by steps that grow, and told once a minute.

Counts by steps can be added up over processes, minutes and hours.

Invariants: what is read off the counts is at most `STEP` times too long or too short; `step_of` and `quantile` are
pure. Nothing is told where the table is missing, a stranger's, or not granted; what could not be told is dropped, and
an outage of it keeps nothing from being handled; timing changes nothing of a message, or of what its handling raises.
"""

from __future__ import annotations

import logging
from math import ceil, log
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rowbus.running.critical import Alarm, ReportedBreaker, log_lasting
from rowbus.running.service import Periodic
from rowbus.transport.history.table import HANDLERS, HandlingCounts, Series

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from rowbus.database.sessions import SessionPool
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.history.table import HistoryTable

T = TypeVar("T")

logger = logging.getLogger("rowbus.history")

PERIOD: Final = 60.0  # seconds

SHORTEST: Final = 0.001
"""Seconds; what is shorter counts as this."""

STEP: Final = 2**0.5
STEPS: Final = 46
"""As many counts: the last begins above an hour and a half."""
_WIDTH: Final = log(STEP)


def step_of(seconds: float) -> int:
    """Return in which count a duration is."""
    if seconds <= SHORTEST:
        return 0
    return min(ceil(log(seconds / SHORTEST) / _WIDTH), STEPS - 1)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return what this share of the durations did not exceed, in seconds; None where there is none."""
    wanted, passed = share * sum(counts), 0
    for step, count in enumerate(counts):
        passed += count
        if count and passed >= wanted:
            return SHORTEST * STEP**step
    return None


class HandlingTimes:
    """The handling of one queue since it was last taken. A message costs a logarithm and an addition."""

    def __init__(self, queue: QueueAddress) -> None:
        """Begin with nothing."""
        self.queue = queue
        self._failed = 0
        self._durations = [0] * STEPS

    def around(self, proceed: Callable[[T], Awaitable[None]]) -> Callable[[T], Coroutine[Any, Any, None]]:
        """Return the step that times; an attempt that is cancelled has neither succeeded nor failed."""

        async def time(delivery: T) -> None:
            started = perf_counter()
            try:
                await proceed(delivery)
            except Exception:
                self._failed += 1
                raise
            self._durations[step_of(perf_counter() - started)] += 1

        return time

    def take(self) -> HandlingCounts | None:
        """Return what was noted since the last time; None for nothing."""
        taken = HandlingCounts(self._failed, self._durations)
        self._failed, self._durations = 0, [0] * STEPS
        return taken if taken.failed or any(taken.durations) else None


class HistoryTeller(Periodic):
    """Tells the times of one endpoint's queues. For one event loop."""

    def __init__(self, pool: SessionPool, table: HistoryTable, times: Sequence[HandlingTimes]) -> None:
        """Take the table of history, and what to tell. No I/O."""
        told = f"{table.address} of handlers"
        outages = ReportedBreaker(
            f"Telling {told}", f"Could not tell {told}", logger, Alarm(log_lasting(logger))
        )
        super().__init__("rowbus history", outages, PERIOD, at_once=False)
        self._pool = pool
        self._table = table
        self._times = times

    async def do(self) -> None:
        """Tell what was handled since the last time, of each queue, and of all. Raises StorageError."""
        found = {times.queue: taken for times in self._times if (taken := times.take()) is not None}
        if not found:
            return
        async with self._pool.session() as session:
            if not await session.run(self._table.can_be_used()):
                return
            for queue, handled in found.items():
                for name in ("", str(queue)):
                    await session.run(self._table.tell(Series(HANDLERS, name), handled))
