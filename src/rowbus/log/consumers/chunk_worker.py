"""Works off chunks of batches, each in a transaction that also notes that it is done.

Events that are lost with their connection, or with their process, are handled in ever smaller parts, each noted before
it is begun, until the event that breaks them is alone (suspicion.py): then that is its failure.

Invariant: the handlers' work, what becomes of the events that failed, and the position commit together or not at all;
they do not commit when the batch is no longer in hand, nor when another process has marked a part of it.
"""

from __future__ import annotations

import logging
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import ConnectionLostError, StorageError
from rowbus.errors.exception_facts import cause_of, is_a, text_of
from rowbus.log.consumers import suspicion
from rowbus.log.consumers.event_attempts import CulpritError, EventAttempts, TransactionEndedError
from rowbus.log.consumers.keys import Mark
from rowbus.log.consumers.policy import DeadLetter, Defer, RetryAfter
from rowbus.log.consumers.shortages import Shortages
from rowbus.log.consumers.suspicion import ANY_EVENT, Doubt, Note
from rowbus.transport.receiving.decisions.outages import is_outage_in_handler

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence

    from rowbus.database.postgresql.database import Database
    from rowbus.database.postgresql.receive_session import ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.log.consumers.batch_reader import Chunk
    from rowbus.log.consumers.event_attempts import Handling, Judged, Waiting
    from rowbus.log.consumers.policy import Retries
    from rowbus.log.consumers.suspicion import Suspicion
    from rowbus.log.consumers.table import ConsumerTable, TakenBatch
    from rowbus.log.event import Batch, Event

logger = logging.getLogger("rowbus.log")


class LostInHandlingError(ConnectionLostError):
    """The connection broke after the handlers' transaction had begun, and so perhaps because of them.

    Its cause is a CulpritError where one event is known to be to blame.
    """


class BatchWork(NamedTuple):
    """The batch in hand, what is common to its workers, and what tells a lost connection from a lost server.

    `is_cut_off` says whether the consumer's work is cancelled.
    """

    batch: Batch
    marks: dict[tuple[int, int], int]
    """The marks that this process has read or written."""

    retries: Retries
    waiting: Waiting
    lives_on: Callable[[], Awaitable[bool]]
    is_cut_off: Callable[[], bool]

    def finish(self, table: ConsumerTable) -> Statement[None]:
        """Return the statement that finishes the batch."""
        return table.finish_batch(self.batch.id, (Mark(*place, event) for place, event in self.marks.items()))


class ChunkWorker:
    """Worker number `part` of `parts`: one connection, one transaction at a time."""

    def __init__(
        self,
        database: Database,
        table: ConsumerTable,
        handling: Handling,
        *,
        parts: int = 1,
        part: int = 0,
        shown: bool = True,
    ) -> None:
        """Say whose events and who handles them; not `shown`: no lock of a session says who it is. No I/O."""
        self.part = part
        self._parts = parts
        self._database = database
        self._table = table
        self._handling = handling
        self._shown = shown
        self._session: ReceiveSession | None = None
        self._work: BatchWork
        self._batch: int | None = None
        self._doubt: Doubt | None = None
        self._shortages = Shortages()

    def take(self, claim: TakenBatch, work: BatchWork) -> None:
        """Turn to a batch; one that this worker had in hand last is in doubt only if it has lost it or noted so."""
        is_own = claim.batch.id == self._batch
        noted = suspicion.doubt(
            claim.notes, self._parts, self.part, interrupted=claim.was_open and not is_own
        )
        self._doubt = noted or (self._doubt if is_own else None)
        self._batch, self._work = claim.batch.id, work

    async def work(self, events: Sequence[Event], upto: int | None) -> None:
        """Handle events and commit, marked as done up to `upto`; with None the batch is finished.

        Raises BatchError when the batch is no longer in hand, and StorageError when the database is to blame.
        """
        suspected = None
        if self._doubt is None:
            try:
                await self._handle(events, upto)
            except LostInHandlingError as error:
                suspected = await self._lost(events, None, error)
            else:
                return
        await self._work_in_parts(events, upto, suspected)

    async def work_all(self, chunks: AsyncIterable[Chunk]) -> None:
        """Handle a whole batch in one transaction, however large, and finish it. Raises as `work`."""
        if self._doubt is not None:
            await self._note(ANY_EVENT, 0)
        self._doubt = Doubt(ANY_EVENT, 1)  # until it is done
        async with self._transaction() as attempts:
            async for chunk in chunks:
                await attempts.handle(chunk.events)
            await self._complete(attempts.verdicts, None)

    async def _work_in_parts(
        self, events: Sequence[Event], upto: int | None, suspected: Suspicion | None
    ) -> None:
        """Handle events some of which may have broken a connection or a process."""
        while events:
            suspected = suspected or suspicion.suspect(self._doubt or Doubt(ANY_EVENT, 1), events)
            part = events[: suspicion.size(events, suspected)]
            end = upto if len(part) == len(events) else part[-1].id
            if suspicion.is_convicted(part, suspected):
                await self._convict(part[0], end, suspected)
            else:
                await self._note(part[-1].id, suspicion.noted_losses(part, suspected))
                try:
                    await self._handle(part, end)
                except LostInHandlingError as error:
                    suspected = await self._lost(part, suspected, error)
                    continue
            events = events[len(part) :]
        if suspected is None:
            await self._handle(events, upto)
        self._doubt = None

    async def _lost(
        self, events: Sequence[Event], before: Suspicion | None, error: LostInHandlingError
    ) -> Suspicion:
        """Suspect what was lost; raise if the server is away, so that nothing goes on before it is back."""
        if not events:
            raise error
        if isinstance(culprit := error.__cause__, CulpritError) and culprit.__cause__ is not None:
            self._doubt = Doubt(culprit.event.id, 1)
            return suspicion.known(culprit.event, culprit.__cause__)
        suspected = suspicion.lost(events, before, explained=False)
        self._doubt = Doubt(suspected.upto, suspected.losses)
        if not await self._work.lives_on():
            raise error
        what = f"Events {events[0].id} to {events[-1].id} of batch {self._batch}"
        logger.warning("%s lost their connection and are handled in smaller parts: %s", what, error)
        return suspected._replace(explained=True)

    async def _convict(self, event: Event, upto: int | None, suspected: Suspicion) -> None:
        """Count the losses of one event as its failure: it is retried later, or becomes a dead letter."""
        what = "its connection broke" if suspected.explained else "its process or the server ended"
        error = suspected.failure or ConnectionLostError(
            f"Event {event.id} was handled alone when {what}, {suspected.losses} times in a row.",
            sqlstate=None,
            transient=True,
        )
        async with self._transaction() as attempts:
            attempts.fail(event, error)
            await self._complete(attempts.verdicts, upto)
        if isinstance(attempts.verdicts[-1][1], DeadLetter):
            logger.error("Event %s of %s is a dead letter: %s", event.id, self._table.name, error)

    async def _note(self, upto: int, losses: int) -> None:
        """Note, and commit, what is begun, so that another process knows if this one does not survive it."""
        session = await self._open()
        place = (self._parts, self.part)
        note = Note(*place, upto, losses)
        await session.run_replanned(
            self._table.note_attempt(self._work.batch.id, note, self._work.marks.get(place))
        )
        self._work.marks.setdefault(place, 0)

    async def _handle(self, events: Sequence[Event], upto: int | None) -> None:
        """Handle events in one transaction; if that fails as a whole, each in its own."""
        try:
            async with self._transaction() as attempts:
                await attempts.handle(events)
                await self._complete(attempts.verdicts, upto)
        except (StorageError, TransactionEndedError) as error:
            if _is_outage(error):
                raise
            await self._isolate(events, upto, error)

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
                await self._handle((event,), event.id)
            await self._handle(events[-1:], upto)
            return
        async with self._transaction() as attempts:
            cause = cause_of(error)
            attempts.fail(events[0], error if cause is None else cause)
            await self._complete(attempts.verdicts, upto)

    @asynccontextmanager
    async def _transaction(self) -> AsyncGenerator[EventAttempts]:
        """Begin, checking that the batch is in hand; roll back what is not committed."""
        work, has_begun = self._work, False
        session = await self._open()
        try:
            await session.begin(self._table.hold_batch(work.batch.id))
            has_begun = True
            yield EventAttempts(
                self._handling,
                work.retries,
                work.batch,
                session,
                work.waiting,
                is_outage=self._is_outage,
                is_cut_off=work.is_cut_off,
            )
        except BaseException as error:
            was_lost = session.closed
            await session.rollback()
            if session.closed:
                await self.close()
            if was_lost and has_begun and is_a(error, Exception):
                raise LostInHandlingError(text_of(error), sqlstate=None, transient=True) from error
            raise

    def _is_outage(self, event: Event, error: BaseException) -> bool:
        """Say whether what a handler raised is the server's fault: a full disk, memory, connections."""
        translated = self._database.fault(error) if is_a(error, Exception) else None
        if not is_outage_in_handler(error, translated):
            return False
        return not self._shortages.is_to_blame(event.id, time.monotonic())

    async def _open(self) -> ReceiveSession:
        """Return the session, opened anew if it was lost."""
        if self._session is None or self._session.closed:
            self._session = await self._database.connect_receiver()
            if self._shown:
                await self._session.run_together([self._table.show_worker()])
        return self._session

    async def _complete(self, verdicts: Sequence[Judged], upto: int | None) -> None:
        """Put away what failed, note how far we have come, and commit."""
        assert self._session is not None  # noqa: S101 - opened by `_transaction`
        settings = self._session.connection.own_settings
        statements = [*settings, *self._put_away(verdicts), self._position(upto)]
        answers = await self._session.run_together(statements)
        for statement, answer in zip(statements, answers, strict=True):
            statement.decode(answer.rows(), answer.count)  # raises BatchError: before the commit
        await self._session.commit()
        if upto is not None:
            self._work.marks[self._parts, self.part] = upto

    def _position(self, upto: int | None) -> Statement[None]:
        if upto is None:
            return self._work.finish(self._table)
        place = (self._parts, self.part)
        return self._table.mark_batch(self._work.batch.id, Mark(*place, upto), self._work.marks.get(place))

    def _put_away(self, verdicts: Sequence[Judged]) -> list[Statement[None]]:
        statements: list[Statement[None]] = []
        batch = self._work.batch.id
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
