"""The lanes that one process holds of those that several share: what serves each begins and ends with the surveys.

Lanes with order, of an endpoint or of a consumer of a log, belong to one session each, which takes their lock and works
in its protection. So who has lost the lock has lost what was in hand, too (docs/decisions/0040-lanes-are-queues.md).

Invariant: what serves a lane begins when a survey gives the lane to this process, and ends when one gives it to others.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from rowbus.database.sessions import connected
from rowbus.errors import PermissionDeniedError, RowbusError
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Service, Stoppable
from rowbus.transport.lanes.lane_table import LaneTable, LaneWatch
from rowbus.transport.lanes.rule import Assignment, assign

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import Database
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm

logger = logging.getLogger("rowbus.lanes")

S = TypeVar("S", bound=Stoppable)

PROCESSES: Final = 2**31 - 1


class HeldLanes(Service, Generic[S]):
    """The lanes with order that one process has. For one event loop."""

    def __init__(
        self, database: Database, own: QueueAddress, lanes: Sequence[QueueAddress], alarm: Alarm
    ) -> None:
        """Share these lanes of `own`, by the locks of their names. No I/O."""
        failure = f"Could not ask who works on the lanes of {own}"
        outages = ReportedBreaker(f"Asking who works on the lanes of {own}", failure, logger, alarm)
        super().__init__(f"rowbus {own} lanes", outages)
        self._database = database
        self._table = LaneTable(own)
        self._lanes = list(lanes)
        self._process = secrets.randbelow(PROCESSES) + 1
        self._watch = LaneWatch(database, self._table, self._lanes, self._process)
        self.serving: dict[int, S] = {}
        """The services of the lanes, by their numbers."""
        self._ending: dict[int, asyncio.Task[None]] = {}

    @abstractmethod
    async def begin(self, lane: int) -> S | None:
        """Begin to serve a lane; return None while another session has it, and finishes what it has in hand."""

    async def ended(self, lane: int) -> None:
        """Hear that nothing serves a lane any more."""

    async def prepare(self) -> None:
        """Begin to watch."""
        self._watch.start()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand, or interrupt it after `timeout` seconds, and leave the lanes to others."""
        await super().stop(0)
        for lane in list(self.serving):
            self._end(lane, timeout)
        await asyncio.gather(*self._ending.values(), return_exceptions=True)
        await self._watch.stop()

    async def work(self) -> None:
        """Take and leave lanes as the next survey says."""
        survey = await self._watch.next()
        self._outages.succeeded()
        assignment = assign(survey, self._process, len(self._lanes))
        for lane in self.serving.keys() - assignment.lanes:
            self._end(lane)
        await self._free(assignment)
        for lane in sorted(assignment.lanes - self.serving.keys() - self._ending.keys()):
            if (served := await self.begin(lane)) is not None:
                self.serving[lane] = served
                logger.debug("This process has %s", self._lanes[lane])

    async def _free(self, assignment: Assignment) -> None:
        """End the sessions of processes that answer no more: what they had in hand is rolled back."""
        if not assignment.stranded:
            return
        try:
            async with connected(self._database) as session:
                for pid in dict.fromkeys(assignment.stranded):
                    logger.warning(
                        "A process of %s answers no more; its session %s is ended, and its lanes are taken over",
                        self._table.address,
                        pid,
                    )
                    await session.run(self._table.end_session(pid))
        except PermissionDeniedError as error:
            logger.warning(
                "The lanes of %s wait until the server gives that session up: this role may not end it: %s",
                self._table.address,
                error,
            )

    def _end(self, lane: int, timeout: float | None = None) -> None:
        served = self.serving.pop(lane)

        async def end() -> None:
            try:
                await served.stop(timeout)
            except RowbusError as error:
                logger.warning("Leaving %s failed: %s", self._lanes[lane], error)
            finally:
                await self.ended(lane)
                self._ending.pop(lane, None)

        self._ending[lane] = asyncio.create_task(end(), name=f"rowbus {self._lanes[lane]} end")
