"""One batch of due messages, moved in one transaction: to their queues, or where those go that cannot go there.

A message whose queue is missing goes to the error queue at once, with its story. One whose queue refuses it goes to the
endpoint's own queue, from where it is forwarded under the endpoint's policy for failures, as NServiceBus forwards
all. Without an own queue (a process that only sends) it goes to the error queue.

Invariants: a message is in exactly one table at any time, and one that cannot be moved anywhere stays where it is
without holding up others: they are passed over, and tried again after ever longer waits; in the transaction of its
runner, and under the locks that movers take, so that nothing goes twice.
"""

from __future__ import annotations

import logging
import math
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import DestinationRefusedError, MalformedHeadersError, QueueNotFoundError, StorageError
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.message import MessageRow
from rowbus.transport.delayed.policy import StuckMessages, by_route
from rowbus.transport.queues.destination_rule import ANY_QUEUE, Destinations
from rowbus.transport.recoverability.failure_headers import failed_message, poison_message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Statement, Steps
    from rowbus.errors import RowbusError
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.transport.delayed.policy import DueMessage, PassedOver, Route
    from rowbus.transport.delayed.table import DelayedTable, MovedBatch

logger = logging.getLogger("rowbus.delaying")


class Fallback(NamedTuple):
    """Where messages go that cannot go where they should: the own queue (None: there is none), else the error queue."""

    own: QueueAddress | None
    error: QueueAddress
    identity: Identity
    destinations: Destinations | None = None
    """Where messages may go that name their destination themselves; None: to any queue."""


class Batch(NamedTuple):
    """The outcome of a batch: how many messages were due, those of them that cannot be moved anywhere, and why."""

    due: int
    stuck: Sequence[DueMessage] = ()
    failure: RowbusError | None = None

    @property
    def moved(self) -> int:
        """The number of messages moved."""
        return self.due - len(self.stuck)


class DueMoves:
    """Moves due messages of one table."""

    def __init__(
        self,
        table: DelayedTable,
        fallback: Fallback,
        batch_size: int,
        *,
        notify: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Move at most so many in one transaction; `notify`: wake the receivers. No I/O."""
        self._stuck = StuckMessages(clock)
        self._said = ""
        self.failure: RowbusError | None = None
        """Reason why messages cannot be moved anywhere; None: there are no such messages."""
        self._notify = notify
        self._expected: Route | None = None
        self._table = table
        self._fallback = fallback
        self._destinations = fallback.destinations or Destinations(ANY_QUEUE, table.address)
        self._batch_size = batch_size

    async def move_all(self, session: AsyncSession, goes_on: Callable[[], bool] = lambda: True) -> int:
        """Move batches until one is short, or until it is not to go on; return how many messages were moved.

        Those that cannot be moved anywhere are passed over: `failure` says why. Raises StorageError, and
        QueueNotFoundError when the table itself is missing.
        """
        moved, is_last = 0, False
        while not is_last and goes_on():
            batch = await self._next(session)
            moved += batch.moved
            is_last = batch.due < self._batch_size
        return moved

    async def move(self, session: AsyncSession) -> int:
        """Move one batch and return how many were moved; as `move_all`."""
        return (await self._next(session)).moved

    async def try_again(self, session: AsyncSession) -> int:
        """Try a batch of those that are passed over, if it is time; return how many were moved. As `move_all`."""
        if not self._stuck.is_to_be_tried:
            return 0
        batch = await self._move(session, self._stuck.next_batch)
        self._stuck.tried(batch.stuck, is_last=batch.due < self._batch_size)
        self.failure = None if self._stuck.place is None else batch.failure or self.failure
        return batch.moved

    def next_due(self) -> Statement[float | None]:
        """Ask in how many seconds the next message is due that is not passed over; None, there is none."""
        place = self._stuck.place
        return self._table.next_due() if place is None else self._table.next_due_behind(place)

    def pause(self) -> float:
        """Return the seconds until what is passed over is tried again; for ever, if that is nothing."""
        return math.inf if self._stuck.place is None else self._stuck.pause()

    async def _next(self, session: AsyncSession) -> Batch:
        batch = await self._move(session, self._stuck.place)
        if batch.stuck:
            self._stuck.met(batch.stuck)
            self.failure = batch.failure
        return batch

    async def _move(self, session: AsyncSession, place: PassedOver | None) -> Batch:
        """Move the first due messages that are not passed over."""
        moved = 0
        try:
            if self._expected is not None and place is None and self._destinations.knows(self._expected[0]):
                batch = await self._as_expected(session, self._expected)
                if batch is not None and batch.moved == batch.due:
                    return Batch(batch.moved)
                moved, self._expected = 0 if batch is None else batch.moved, None
            others = await self._all_at_once(session, place)
        except (DestinationRefusedError, QueueNotFoundError, StorageError) as error:
            self._expected = None
            if isinstance(error, StorageError) and error.transient:
                raise
            logger.debug("Moving a batch queue by queue: %s", error)
            others = await self._queue_by_queue(session, place)
        return others._replace(due=moved + others.due)

    async def _as_expected(self, session: AsyncSession, route: Route) -> MovedBatch | None:
        """Move what goes where the last batch went, in one statement; None where the database cannot do that."""
        statement = self._table.move_expected(self._batch_size, *route, notify=self._notify)
        if statement is None:
            return None
        (batch,) = await session.run_together([statement])
        return batch

    def _take(self, place: PassedOver | None) -> Statement[list[DueMessage]]:
        if place is None:
            return self._table.take_due(self._batch_size)
        return self._table.take_due_behind(self._batch_size, place)

    async def _all_at_once(self, session: AsyncSession, place: PassedOver | None) -> Batch:
        async with session.transaction():
            (due,) = await session.run_together([self._take(place)])
            groups = by_route(due, self._table.address)
            for destination in {route.destination for route in groups if route is not None}:
                await self._destinations.require(destination, session.run, keeps=True)
            await session.run_all(
                [
                    self._table.move(ids, *self._target(route), notify=self._notify)
                    for route, ids in groups.items()
                ]
            )
        self._expected = _only(groups)
        return Batch(len(due))

    def _target(self, route: Route | None) -> tuple[QueueAddress, str]:
        if route is not None:
            return route.destination, route.mark
        return self._fallback.own or self._fallback.error, ""

    async def _queue_by_queue(self, session: AsyncSession, place: PassedOver | None) -> Batch:
        stuck, failure = set[str](), None
        async with session.transaction():
            due = {message.id: message for message in await session.run(self._take(place))}
            for route, ids in by_route(due.values(), self._table.address).items():
                try:
                    await self._move_or_give_up(session, route, [due[row_id] for row_id in ids])
                except (QueueNotFoundError, StorageError) as error:
                    failure = self._worse(failure, error)
                    stuck.update(ids)
        return Batch(len(due), [due[row_id] for row_id in due if row_id in stuck], failure)

    def _worse(self, first: RowbusError | None, error: QueueNotFoundError | StorageError) -> RowbusError:
        """Keep the first failure; a transient one ends the batch, for its transaction may be lost."""
        if isinstance(error, StorageError) and error.transient:
            raise error
        said = str(error)
        if said != self._said:
            self._said = said
            logger.error("Delayed messages stay where they are: %s", said)
        return first or error

    async def _move_or_give_up(
        self, session: AsyncSession, route: Route | None, messages: list[DueMessage]
    ) -> None:
        queue, mark = self._target(route)
        ids = [message.id for message in messages]
        try:
            async with session.transaction():
                if route is not None:
                    await self._destinations.require(route.destination, session.run, keeps=True)
                await session.run(self._table.move(ids, queue, mark, notify=self._notify))
                return
        except (DestinationRefusedError, QueueNotFoundError) as error:
            failure: RowbusError = error
        except StorageError as error:
            if error.transient:
                raise
            failure = error
        own = self._fallback.own
        if own is not None and own != queue and isinstance(failure, StorageError):
            logger.warning("%s; they are forwarded through %s instead", failure, own)
            async with session.transaction():
                await session.run(self._table.move(ids, own, notify=self._notify))
        else:
            await self._give_up(session, queue, messages, failure)

    async def _give_up(
        self, session: AsyncSession, queue: QueueAddress, messages: list[DueMessage], failure: RowbusError
    ) -> None:
        """Move messages into the error queue with their story; what cannot be had there stays, and is logged."""
        error_queue = self._fallback.error
        headers = [self._story(message, queue, failure) for message in messages]
        async with session.transaction():
            await session.run_all(
                self._table.move_with_headers(
                    [message.id for message in messages], headers, error_queue, notify=self._notify
                )
            )
        for message in messages:
            logger.error(
                "Moving delayed message '%s' to the error queue '%s', because it cannot be moved to %s: %s",
                message.id,
                error_queue,
                queue,
                failure,
            )

    def _story(self, message: DueMessage, queue: QueueAddress, failure: RowbusError) -> str:
        """Return the header text of a message given up on. Its body stays in the database."""
        now, identity = datetime.now(UTC), self._fallback.identity
        try:
            headers = decode_headers(message.headers)
        except MalformedHeadersError:
            row = MessageRow(message.id, time_left=None, headers=message.headers, body=b"", seq=0)
            copy = poison_message(row, failure, failed_queue=queue, identity=identity, now=now)
        else:
            headers.pop(Header.FORWARD_DESTINATION, None)
            headers[Header.MESSAGE_ID] = headers.get(Header.MESSAGE_ID) or message.id
            copy = failed_message(
                headers=headers, body=b"", error=failure, failed_queue=queue, identity=identity, now=now
            )
        return encode_copied_headers(copy.headers)


def _only(groups: Mapping[Route | None, object]) -> Route | None:
    """Return where all messages of a batch went, if that is one queue and their headers name it as ours do."""
    route = next(iter(groups), None) if len(groups) == 1 else None
    return route if route is not None and route.mark else None


def send_now(
    table: DelayedTable,
    own: QueueAddress,
    destinations: Destinations,
    message_id: str,
    due: datetime | None = None,
) -> Steps[int]:
    """Move the message of this id to its queue, as the mover would when it is due; say how many rows: 1, or 0.

    To be run in a transaction. 0: it is not there, or a mover has it in its hands; that is passed over, never waited
    for. One that does not say where it goes goes to the endpoint's `own` queue, which forwards it. The time when it is
    `due` saves reading the whole table. Raises DestinationRefusedError, QueueNotFoundError or StorageError when it
    cannot go where it should: once that is rolled back, it waits on.
    """
    taken = yield table.take(message_id, due)
    for route, ids in by_route(taken, table.address).items():
        if route is None:
            yield table.move(ids, own)
            continue
        destinations.require_allowed(route.destination)
        yield from destinations.look(route.destination, keeps=True)
        yield table.move(ids, *route)
    return len(taken)
