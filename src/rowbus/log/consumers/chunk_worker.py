"""Works off chunks of batches, each in a transaction that also notes that it is done.

A batch is read in chunks, so that memory is bounded however large it is. Events that are lost with their connection, or
with their process, are handled in ever smaller parts, each noted before it is begun, until the event that breaks them
is alone (policy.py): then that is its failure.

Invariants: the handlers' work, what becomes of the events that failed, and the position commit together or not at all;
they do not commit when the batch is no longer in hand, nor when another process has marked a part of it; reading a
batch holds at most two chunks, and has no transaction open any more when it hands out the last one.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConnectionLostError, StorageError
from rowbus.errors.strangers import cause_of, is_a, text_of
from rowbus.log.consumers import policy
from rowbus.log.consumers.event_attempts import EventAttempts
from rowbus.log.consumers.policy import ANY_EVENT, NO_EVENT, DeadLetter, Doubt, Note
from rowbus.log.consumers.table import Mark
from rowbus.work.book import Book
from rowbus.work.fate import DONE, Fate, Kind, is_outage_in_handler

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Sequence

    from rowbus.database.postgresql.connection import ReadSession
    from rowbus.database.postgresql.database import Database
    from rowbus.database.postgresql.receive_session import ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.log.consumers.event_attempts import BatchWork, Handling, Judged
    from rowbus.log.consumers.policy import Suspicion, Verdict
    from rowbus.log.consumers.table import ConsumerTable, TakenBatch
    from rowbus.log.event import Batch, Event


logger = logging.getLogger("rowbus.log")

PATIENCE: Final = 60.0
"""Seconds for which the server is to blame for what it lacks (disk, memory, connections); then the event asks too much.

If the server is short indeed, the event's verdict cannot be committed either, and nothing is counted.
"""


class Chunk(NamedTuple):
    """Some of a batch's events, in order; `last` when there are no more."""

    events: list[Event]
    last: bool


async def read_batch(
    session: ReadSession, table: ConsumerTable, batch: Batch, *, after: int | None, size: int
) -> AsyncGenerator[Chunk]:
    """Give a batch's events, those after one or all, in chunks of `size`; at least one chunk, perhaps empty.

    A chunk is fetched before the one ahead of it is handed out. To be closed if it is left early.
    """
    fetch = table.fetch_batch(size)
    try:
        events = await session.open(table.open_batch(batch.id, after), fetch)
        while len(events) == size and (following := await session.fetch(fetch)):
            yield Chunk(events, last=False)
            events = following
    finally:
        await session.end()
    yield Chunk(events, last=True)


class ChunkWorker:
    """One worker of a consumer: one connection, one transaction at a time."""

    def __init__(
        self,
        database: Database,
        table: ConsumerTable,
        handling: Handling,
        place: tuple[int, int],
        *,
        shown: bool,
    ) -> None:
        """Handle the events of a consumer; `place` is the number of its workers, and this one's own among them.

        Not `shown`: no lock of a session says who it is. No I/O.
        """
        self._place = place
        self._database = database
        self._table = table
        self._handling = handling
        self._shown = shown
        self._session: ReceiveSession | None = None
        self._work: BatchWork
        self._batch: int | None = None
        self._doubt: Doubt | None = None
        self._culprit: Event | None = None  # known to have broken the connection of the last transaction
        self._book = Book(time.monotonic)  # of events that met a server which is short of something

    def take(self, claim: TakenBatch, work: BatchWork) -> None:
        """Turn to a batch; one that this worker had in hand last is in doubt only if it has lost it or noted so."""
        is_own = claim.batch.id == self._batch
        noted = policy.doubt(claim.notes, self._place, interrupted=claim.was_open and not is_own)
        self._doubt = noted or (self._doubt if is_own else None)
        self._batch, self._work = claim.batch.id, work

    async def work(self, events: Sequence[Event], upto: int | None) -> None:
        """Handle events and commit, marked as done up to `upto`; with None the batch is finished.

        Those that fail as a whole are handled one by one, those that were lost in ever smaller parts; what is committed
        is not handled again. Raises BatchError when the batch is no longer in hand, and StorageError when the database
        is to blame.
        """
        suspected, singly, is_left = None, NO_EVENT, True
        while is_left:
            if suspected is None and self._doubt is not None and events:
                suspected = policy.suspect(self._doubt, events)
            part = events[: policy.size(events, suspected, singly)]
            fate = await self._work_part(part, upto if len(part) == len(events) else part[-1].id, suspected)
            if fate.kind is Kind.LOST:
                suspected = await self._lost(part, suspected, fate)
            elif fate.kind is Kind.PUT_BACK:
                singly = part[-1].id
            else:
                events = events[len(part) :]
                is_left = bool(events)
        self._doubt = None

    async def work_all(self, chunks: AsyncIterable[Chunk]) -> Fate:
        """Handle a whole batch in one transaction, however large, and finish it; return what became of it.

        LOST and OUTAGE have a StorageError as their cause. Raises BatchError as `work`.
        """

        async def handle(attempts: EventAttempts) -> Fate:
            async for chunk in chunks:
                fate = await attempts.handle(chunk.events)
                if fate is not DONE:
                    return fate
            return DONE

        if self._doubt is not None:
            await self._note(ANY_EVENT, 0)
        self._doubt = Doubt(ANY_EVENT, 1)  # until it is done
        return await self._in_transaction(handle, None)

    async def _work_part(
        self, events: Sequence[Event], upto: int | None, suspected: Suspicion | None
    ) -> Fate:
        """Handle events in one transaction; return DONE, LOST, or PUT_BACK for several that failed as a whole."""
        if suspected is not None:
            if policy.is_convicted(events, suspected):
                await self._convict(events[0], upto, suspected)
                return DONE
            await self._note(events[-1].id, policy.noted_losses(events, suspected))
        fate = await self._in_transaction(lambda attempts: attempts.handle(events), upto)
        if fate is DONE or fate.kind is Kind.LOST or fate.cause is None:
            return fate
        if fate.kind is Kind.OUTAGE or not events:
            raise fate.cause
        if len(events) > 1:
            text = "%s events failed as a whole; they are handled one by one: %s"
            logger.warning(text, len(events), text_of(fate.cause))
            return Fate(Kind.PUT_BACK, fate.cause)
        await self._fail(events[0], upto, fate.cause)
        return DONE

    async def _lost(self, events: Sequence[Event], before: Suspicion | None, fate: Fate) -> Suspicion:
        """Suspect what was lost; raise if the server is away, so that nothing goes on before it is back."""
        assert fate.cause is not None  # noqa: S101 - what is lost has one
        if not events:
            raise fate.cause
        failure = cause_of(fate.cause)
        if self._culprit is not None and failure is not None:
            self._doubt = Doubt(self._culprit.id, 1)
            return policy.known(self._culprit, failure)
        suspected = policy.lost(events, before, explained=False)
        self._doubt = Doubt(suspected.upto, suspected.losses)
        if not await self._work.lives_on():
            raise fate.cause
        what = f"Events {events[0].id} to {events[-1].id} of batch {self._batch}"
        logger.warning("%s lost their connection and are handled in smaller parts: %s", what, fate.cause)
        return suspected._replace(explained=True)

    async def _convict(self, event: Event, upto: int | None, suspected: Suspicion) -> None:
        """Count the losses of one event as its failure: it is retried later, or becomes a dead letter."""
        what = "its connection broke" if suspected.explained else "its process or the server ended"
        error = suspected.failure or ConnectionLostError(
            f"Event {event.id} was handled alone when {what}, {suspected.losses} times in a row.",
            sqlstate=None,
            transient=True,
        )
        if isinstance(await self._fail(event, upto, error), DeadLetter):
            logger.error("Event %s of %s is a dead letter: %s", event.id, self._table.name, error)

    async def _fail(self, event: Event, upto: int | None, error: BaseException) -> Verdict:
        """Judge an event, in a transaction of its own, that failed together with its transaction."""
        verdicts: list[Verdict] = []

        async def fail(attempts: EventAttempts) -> Fate:
            verdicts.append(attempts.fail(event, error))
            return DONE

        fate = await self._in_transaction(fail, upto)
        if fate.cause is not None:
            raise fate.cause
        return verdicts[0]

    async def _note(self, upto: int, losses: int) -> None:
        """Note, and commit, what is begun, so that another process knows if this one does not survive it."""
        session = await self._open()
        batch, marks = self._work.batch.id, self._work.marks
        note = Note(*self._place, upto, losses)
        await session.run_together([self._table.note_attempt(batch, note, marks.get(self._place))])
        marks.setdefault(self._place, 0)

    async def close(self) -> None:
        """Close the connection; what was not committed is undone."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _in_transaction(
        self, handle: Callable[[EventAttempts], Awaitable[Fate]], upto: int | None
    ) -> Fate:
        """Begin, checking that the batch is in hand, and commit; roll back if it is not DONE, and return why."""
        work, session, has_begun, self._culprit = self._work, await self._open(), False, None
        try:
            await session.begin(self._table.hold_batch(work.batch.id))
            has_begun = True
            attempts = EventAttempts(self._handling, work, session, self._is_outage)
            fate = await handle(attempts)
            self._culprit = attempts.culprit
            if fate is DONE:
                await self._complete(session, attempts.verdicts, upto)
                return DONE
        except StorageError as error:
            fate = _fate(error, is_lost=session.closed and has_begun)
        except BaseException:
            await self._roll_back(session)
            raise
        await self._roll_back(session)
        return fate

    async def _roll_back(self, session: ReceiveSession) -> None:
        await session.rollback()
        if session.closed:
            await self.close()

    def _is_outage(self, event: Event, error: BaseException) -> bool:
        """Say whether what a handler raised is the server's fault: a full disk, memory, connections."""
        translated = self._database.fault(error) if is_a(error, Exception) else None
        if not is_outage_in_handler(error, translated):
            return False
        seconds, _others = self._book.entry(event.id).meet_outage(time.monotonic(), 0)
        return seconds <= PATIENCE

    async def _open(self) -> ReceiveSession:
        """Return the session, opened anew if it was lost."""
        if self._session is None or self._session.closed:
            self._session = await self._database.connect_receiver()
            if self._shown:
                shown = self._table.show_worker()
                self._session.keep_locks(shown)
                await self._session.run_together([shown])
        return self._session

    async def _complete(self, session: ReceiveSession, verdicts: Sequence[Judged], upto: int | None) -> None:
        """Put away what failed, note how far we have come, and commit."""
        put_away = self._table.put_away(self._work.batch.id, verdicts) if verdicts else ()
        statements = [*session.connection.own_settings, *put_away, self._position(upto)]
        await session.run_together(statements)  # raises BatchError: before the commit
        await session.commit()
        self._book.clear()
        if upto is not None:
            self._work.marks[self._place] = upto

    def _position(self, upto: int | None) -> Statement[None]:
        if upto is None:
            return self._table.finish_batch(self._work.batch.id, self._work.marks)
        before = self._work.marks.get(self._place)
        return self._table.mark_batch(self._work.batch.id, Mark(*self._place, upto), before)


def _fate(error: StorageError, *, is_lost: bool) -> Fate:
    """Return what becomes of events when a statement of ours fails."""
    if is_lost:
        lost = ConnectionLostError(text_of(error), sqlstate=None, transient=True)
        lost.__cause__ = error
        return Fate(Kind.LOST, lost)
    return Fate(Kind.OUTAGE if error.transient else Kind.COUNTED, error)
