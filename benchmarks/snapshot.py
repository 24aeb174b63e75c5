"""A queue beside a session that holds a snapshot open, so that nothing consumed can be cleaned away.

Invariant: the throughput compared is that of the last tenth of the messages, when the most dead rows lie in the way.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import psycopg

import rowbus
from benchmarks.measuring import Side
from benchmarks.workload import PlaceOrder, fill


@contextmanager
def held_snapshot(dsn: str) -> Iterator[None]:
    """Hold a snapshot open, as a long report does."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("select count(*) from pg_class")
        yield


class LastTenth:
    """Processes a full queue and times each tenth of it, from the first message to the last."""

    def __init__(self, dsn: str, messages: int, *, batch_size: int, held: bool) -> None:
        """Choose the size, and whether a snapshot is held."""
        self._dsn = dsn
        self._messages = messages
        self._batch_size = batch_size
        self._held = held
        self.tenths: list[list[float]] = []
        """Messages per second in each tenth of each run."""

    def side(self) -> Side:
        """Return the side to be alternated."""
        name = "with a held snapshot" if self._held else "without"
        return Side(name, lambda: fill(self._dsn, self._messages), self._work)

    @property
    def rates(self) -> list[float]:
        """Messages per second over the last tenth of each run."""
        return [run[-1] for run in self.tenths]

    def _work(self) -> int:
        if not self._held:
            return asyncio.run(self._serve())
        with held_snapshot(self._dsn):
            return asyncio.run(self._serve())

    async def _serve(self) -> int:
        done = asyncio.Event()
        handled = 0
        marks: list[float] = []
        milestones = {1, *(self._messages * tenth // 10 for tenth in range(1, 11))}
        settings = rowbus.EndpointSettings(concurrency=2, batch_size=self._batch_size)
        endpoint = rowbus.Endpoint("bench", database=self._dsn, settings=settings)

        @endpoint.handler
        async def count(_message: PlaceOrder) -> None:
            nonlocal handled
            handled += 1
            if handled in milestones:
                marks.append(time.perf_counter())
                if handled == self._messages:
                    done.set()

        async with endpoint:
            await done.wait()
        self.tenths.append([self._messages / 10 / (later - earlier) for earlier, later in pairwise(marks)])
        return handled
