"""The lanes of an endpoint in one process: which it serves, and how their receivers share the process.

Lanes without order are received from all the time, and take turns. A lane with order belongs to one process at a time:
to the one whose session holds its lock, and works on it in that session alone. So who has lost the lock has lost what
was in hand, too, and nothing of it takes effect late (docs/decisions/0040-lanes-are-queues.md).

Invariant: a lane with order is received from in the session that holds its lock, one unit after the other.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError, ConnectionLostError, PermissionDeniedError, RowbusError
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Service
from rowbus.settings import TransactionMode
from rowbus.transport.lanes.lane_table import LaneTable, LaneWatch
from rowbus.transport.lanes.order import Order
from rowbus.transport.lanes.rule import OWN_SHARE, Assignment, assign
from rowbus.transport.lanes.turns import Shelf, Turns
from rowbus.transport.limits.rate import RateLimit
from rowbus.transport.queues.lookout import close

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from rowbus.database.sessions import Database, ReceiveSession
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.receiving.receiver import Receiver

logger = logging.getLogger("rowbus.lanes")

PROCESSES: Final = 2**31 - 1


class SharedTurns:
    """The turns of an endpoint's queues in one process, and the sessions that they share. For one event loop."""

    def __init__(
        self, lanes: Lanes, queue: QueueAddress, others: Iterable[QueueAddress], at_once: int
    ) -> None:
        """Share so many turns at once between lanes, the endpoint's own queue, and others. No I/O."""
        weights: dict[Hashable, int] = dict(zip(lanes.addresses(queue), lanes.weights, strict=True))
        weights |= dict.fromkeys([queue, *others], OWN_SHARE)
        self._turns = Turns(weights, at_once)
        self._shelf = Shelf()

    def join(self, receiver: Receiver) -> None:
        """Have a receiver take turns with the others."""
        receiver.turns, receiver.shelf = self._turns, self._shelf

    def change_concurrency(self, concurrency: int) -> None:
        """Have so many units in hand at once."""
        self._turns.change(concurrency)

    async def close(self) -> None:
        """Close the sessions that nobody uses."""
        await self._shelf.close()


class OrderedLanes(Service):
    """The lanes with order that one process has. For one event loop."""

    def __init__(
        self,
        database: Database,
        queue: QueueAddress,
        lanes: Sequence[QueueAddress],
        make_receiver: Callable[[QueueAddress], Receiver],
        alarm: Alarm,
    ) -> None:
        """Serve lanes of the endpoint with this queue, by receivers that are made for them. No I/O."""
        failure = f"Could not ask who works on the lanes of {queue}"
        super().__init__(
            f"rowbus {queue} lanes",
            ReportedBreaker(f"Asking who works on the lanes of {queue}", failure, logger, alarm),
        )
        self._database = database
        self._table = LaneTable(queue)
        self._lanes = list(lanes)
        self._make_receiver = make_receiver
        self._process = secrets.randbelow(PROCESSES) + 1
        self._watch = LaneWatch(database, self._table, self._lanes, self._process)
        self.receivers: dict[int, Receiver] = {}
        """By the numbers of their lanes."""
        self._taken_by: dict[int, ReceiveSession] = {}  # those that no slot has needed yet
        self._ending: dict[int, asyncio.Task[None]] = {}

    async def prepare(self) -> None:
        """Begin to watch."""
        self._watch.start()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand, or interrupt it after `timeout` seconds, and leave the lanes to others."""
        await super().stop(0)
        for lane in list(self.receivers):
            self._end(lane, timeout)
        await asyncio.gather(*self._ending.values(), return_exceptions=True)
        await self._watch.stop()

    async def work(self) -> None:
        """Take and leave lanes as the next survey says."""
        survey = await self._watch.next()
        self._outages.succeeded()
        assignment = assign(survey, self._process, len(self._lanes))
        for lane in self.receivers.keys() - assignment.lanes:
            self._end(lane)
        await self._free(assignment)
        for lane in sorted(assignment.lanes - self.receivers.keys() - self._ending.keys()):
            await self._begin_lane(lane)

    async def _free(self, assignment: Assignment) -> None:
        """End the sessions of processes that answer no more: what they had in hand is rolled back."""
        if not assignment.stranded:
            return
        session = await self._database.connect()
        try:
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
        finally:
            await session.close()

    async def _begin_lane(self, lane: int) -> None:
        address = self._lanes[lane]
        session = await self._taken(address)
        if session is None:  # whoever has it finishes what is in hand
            return
        receiver = self._make_receiver(address)
        receiver.order = Order(lambda: datetime.now(UTC))
        self._taken_by[lane] = session
        receiver.connect = partial(self._connect, lane)
        receiver.change_concurrency(1)
        await receiver.start()
        self.receivers[lane] = receiver
        logger.debug("This process has %s", address)

    async def _taken(self, lane: QueueAddress) -> ReceiveSession | None:
        """Return a session that has the lane; None if another session has it."""
        session = await self._database.connect_receiver()
        try:
            is_ours = await session.run(self._table.take(lane, self._process))
        except BaseException:
            await session.close()
            raise
        if is_ours:
            return session
        await session.close()
        return None

    async def _connect(self, lane: int) -> ReceiveSession:
        """Return the session that took the lane, or after it one that takes it again. Raises StorageError."""
        session = self._taken_by.pop(lane, None) or await self._taken(self._lanes[lane])
        if session is None:
            text = f"Another session has {self._lanes[lane]}: this process waits until it is free."
            raise ConnectionLostError(text, sqlstate=None, transient=True)
        return session

    def _end(self, lane: int, timeout: float | None = None) -> None:
        receiver = self.receivers.pop(lane)

        async def end() -> None:
            try:
                await receiver.stop(timeout)
            except RowbusError as error:
                logger.warning("Leaving %s failed: %s", receiver.address, error)
            finally:
                await close(self._taken_by.pop(lane, None))
                self._ending.pop(lane, None)

        self._ending[lane] = asyncio.create_task(end(), name=f"rowbus {receiver.address} end")


def check_lanes(parts: Parts) -> None:
    """Raise ConfigurationError for what cannot be kept in lanes with order."""
    lanes, handlers = parts.lanes, parts.handlers
    if lanes is None:
        return
    if parts.address.backend != "postgresql":
        raise ConfigurationError("Lanes need PostgreSQL.")
    if not lanes.is_ordered:
        return
    reasons = (
        (parts.settings.transaction_mode is TransactionMode.NONE, "mode NONE loses messages"),
        (handlers.has_long, "a long handler's message leaves its lane before it is handled"),
        (
            bool(handlers.limited(RateLimit)),
            "a message that waits for its handler's rate limit lets later ones by",
        ),
    )
    for is_so, reason in reasons:
        if is_so:
            raise ConfigurationError(f"Endpoint {parts.name} cannot keep the order of its lanes: {reason}.")
