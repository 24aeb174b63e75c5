"""Works off chunks of batches, each in a transaction that also notes that it is done.

Invariant: the handlers' work, what becomes of the events that failed, and the position commit together or not at all;
they do not commit when the batch is no longer in hand.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rowbus.errors import StorageError
from rowbus.log.consumers.event_attempts import EventAttempts, TransactionEndedError
from rowbus.log.consumers.keys import Mark
from rowbus.log.consumers.policy import DeadLetter, Defer, RetryAfter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Sequence

    from rowbus.database.postgresql.database import Database
    from rowbus.database.postgresql.receive_session import ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.log.consumers.batch_reader import Chunk
    from rowbus.log.consumers.event_attempts import Handling, Judged, Waiting
    from rowbus.log.consumers.policy import Retries
    from rowbus.log.consumers.table import ConsumerTable
    from rowbus.log.event import Batch, Event

logger = logging.getLogger("rowbus.log")


class ChunkWorker:
    """Worker number `part` of `parts`: one connection, one transaction at a time."""

    def __init__(
        self, database: Database, table: ConsumerTable, handling: Handling, *, parts: int = 1, part: int = 0
    ) -> None:
        """Say whose events and who handles them. No I/O."""
        self.part = part
        self._parts = parts
        self._database = database
        self._table = table
        self._handling = handling
        self._session: ReceiveSession | None = None
        self._batch: Batch
        self._retries: Retries
        self._waiting: Waiting
        self._marked: int | None = None

    def take(self, batch: Batch, marked: int | None, retries: Retries, waiting: Waiting) -> None:
        """Turn to a batch, of which this worker has marked its part as done up to an event before (None: none)."""
        self._batch, self._marked, self._retries, self._waiting = batch, marked, retries, waiting

    async def work(self, events: Sequence[Event], upto: int | None) -> None:
        """Handle events and commit, marked as done up to `upto`; with None the batch is finished.

        Raises BatchError when the batch is no longer in hand, and StorageError when the database is to blame.
        """
        try:
            async with self._transaction() as attempts:
                await attempts.handle(events)
                await self._complete(attempts.verdicts, upto)
        except (StorageError, TransactionEndedError) as error:
            if _is_outage(error):
                raise
            await self._isolate(events, upto, error)

    async def work_all(self, chunks: AsyncIterable[Chunk]) -> None:
        """Handle a whole batch in one transaction, however large, and finish it. Raises as `work`."""
        async with self._transaction() as attempts:
            async for chunk in chunks:
                await attempts.handle(chunk.events)
            await self._complete(attempts.verdicts, None)

    async def close(self) -> None:
        """Close the connection; what was not committed is undone."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _isolate(self, events: Sequence[Event], upto: int | None, error: BaseException) -> None:
        """Find the event that makes the transaction fail as a whole, in transactions of one event each."""
        if len(events) != 1:
            logger.warning("%s events failed as a whole; they are handled one by one: %s", len(events), error)
            for event in events[:-1]:
                await self.work((event,), event.id)
            await self.work(events[-1:], upto)
            return
        async with self._transaction() as attempts:
            attempts.fail(events[0], error.__cause__ or error)
            await self._complete(attempts.verdicts, upto)

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[EventAttempts]:
        """Begin, checking that the batch is in hand; roll back what is not committed."""
        session = self._session = self._session or await self._database.connect_receiver()
        try:
            await session.begin(self._table.hold_batch(self._batch.id))
            yield EventAttempts(self._handling, self._retries, self._batch, session, self._waiting)
        except BaseException:
            await session.rollback()
            if session.closed:
                await self.close()
            raise

    async def _complete(self, verdicts: Sequence[Judged], upto: int | None) -> None:
        """Put away what failed, note how far we have come, and commit."""
        assert self._session is not None  # noqa: S101 - opened by `_transaction`
        statements = [*self._put_away(verdicts), self._position(upto)]
        answers = await self._session.run_together(statements)
        for statement, answer in zip(statements, answers, strict=True):
            statement.decode(answer.rows(), answer.count)  # raises BatchError: before the commit
        await self._session.commit()
        self._marked = upto

    def _position(self, upto: int | None) -> Statement[None]:
        if upto is None:
            return self._table.finish_batch(self._batch.id)
        return self._table.mark_batch(self._batch.id, Mark(self._parts, self.part, upto), self._marked)

    def _put_away(self, verdicts: Sequence[Judged]) -> list[Statement[None]]:
        statements: list[Statement[None]] = []
        batch = self._batch.id
        if retries := [(event, verdict) for event, verdict in verdicts if isinstance(verdict, RetryAfter)]:
            statements.append(self._table.retry(batch, retries))
        if deferred := [(event, verdict) for event, verdict in verdicts if isinstance(verdict, Defer)]:
            statements.append(self._table.defer(batch, deferred))
        if dead := [(event, verdict) for event, verdict in verdicts if isinstance(verdict, DeadLetter)]:
            statements.append(self._table.dead_letter(batch, dead))
        return statements


def _is_outage(error: BaseException) -> bool:
    """Say whether the same work may succeed when it is simply done again."""
    return isinstance(error, StorageError) and error.transient
