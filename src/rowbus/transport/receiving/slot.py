"""One slot of a receiver: a connection that receives, processes and completes, over and over.

Invariant: at most one message (or batch) is in a slot's hands, and it leaves them completed, or back in its queue.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from time import perf_counter, time_ns
from typing import TYPE_CHECKING

from rowbus.errors import (
    ConnectionLostError,
    QueueNotFoundError,
    RowbusError,
    StorageError,
)
from rowbus.running.turns import onto_loop, take_turns
from rowbus.settings import TransactionMode
from rowbus.transport.lanes.turns import Equipment
from rowbus.transport.receiving.decisions import is_suspect, lost_process_in
from rowbus.transport.receiving.delivery import make_calls
from rowbus.transport.receiving.passage import have_places, pass_gate
from rowbus.transport.receiving.transactions import Outgoing, receive_transaction
from rowbus.work.fate import PASSED_OVER, PUT_BACK, Fate, Kind, is_outage

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, ReceiveSession
    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.message import MessageRow
    from rowbus.transport.lanes.turns import Turn, Turns
    from rowbus.transport.receiving.receiver import Receiver
    from rowbus.transport.receiving.rounds import Travel
    from rowbus.transport.receiving.transactions import NoTransaction, SendsAtomicWithReceive

logger = logging.getLogger("rowbus.receiving")


HOLD_BACK_TAKEN = 1.0  # seconds, at most, until another slot notices that it has lost its connection


class Slot:
    """Slot number `index` of a receiver; ends when the receiver stops or wants fewer slots."""

    def __init__(self, receiver: Receiver, index: int) -> None:
        """Belong to a receiver. No I/O."""
        self._receiver = receiver
        self._index = index
        self._session: ReceiveSession | None = None
        self._outbox: AsyncSession | None = None  # in mode RECEIVE_ONLY
        self._transaction: SendsAtomicWithReceive | NoTransaction
        self._server: datetime | None = None  # since when the server of this session runs
        self._in_hand: list[MessageRow] = []
        self._claimed: list[MessageRow] = []
        self._handled: MessageRow | None = None  # of those in hand, the one whose handler runs
        self._turn: Turn | None = None  # of a queue that shares turns with others
        self._task: asyncio.Task[None] | None = None
        self._unit = receiver.unit()
        # The messages that are yet to be received one by one, after a batch that failed as a whole.
        self._singles = 0

    def _wanted(self) -> bool:
        return self._index < self._receiver.concurrency

    def _most(self) -> int:
        return 1 if self._singles > 0 else self._unit.size

    async def run(self) -> None:
        """Receive and process until there is nothing more to do for this slot."""
        self._task = asyncio.current_task()
        try:
            while (most := await self._permit()) > 0:
                if self._index + 1 < self._receiver.concurrency:
                    self._receiver.begin_slot(self._index + 1)
                turns = self._receiver.turns
                await (self._work(most) if turns is None else self._have_turn(turns, most))
        finally:
            await self._close()

    @property
    def called(self) -> MessageRow | None:
        """The message whose handlers run, if one's do."""
        row = self._handled
        return row if row is not None and self._receiver.book.entry(row.id).is_called else None

    def cancel(self, error: BaseException, urgency: str) -> None:
        """Have the handlers end that run; the message has failed with this error, whatever they return or raise."""
        if self._task is not None and self._handled is not None:
            self._receiver.book.entry(self._handled.id).cancelled = error
            self._task.cancel(urgency if len(self._in_hand) == 1 else None)

    async def _permit(self) -> int:
        """Wait for a permit; a slot that waits for long gives its connections back."""
        permits = self._receiver.permits
        patience = self._receiver.peeking.patience if self._receiver.order is None else None
        if self._session is not None and patience is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    return await permits.take(self._most(), self._wanted)
            await self._close()
        return await permits.take(self._most(), self._wanted)

    async def _have_turn(self, turns: Turns, most: int) -> None:
        """Use one permit when it is this queue's turn; sessions go to whose turn is next."""
        receiver = self._receiver
        async with turns.turn(receiver.address) as self._turn:
            if receiver.is_stopping() or receiver.permits.are_void:
                receiver.permits.received(0)
                return
            await self._work(most)
            if self._session is not None and not self._is_spent:
                equipment = Equipment(self._session, self._outbox, self._server)
                self._session = self._outbox = None
                await turns.shelf.put(receiver.address, equipment)

    async def _work(self, most: int) -> None:
        """Use one permit, and every further one that is to be had when a message is completed."""
        try:
            following: list[MessageRow] | Fate = await self._receive(most)
            while following and not isinstance(following, Fate):
                self._in_hand = following
                following = await self._process(following) if self._claim(following) else PUT_BACK
            if not isinstance(following, Fate):
                return
            await self._give_back(following)
        except RowbusError as error:
            await self._broke(error)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        except Exception as error:  # the machinery failed, not a handler: keep the message, report, go on
            logger.exception("Message processing failed in %s", self._receiver.address)
            await self._broke(error)
        finally:
            self._let_go()
        self._receiver.look_again()

    def _claim(self, rows: list[MessageRow]) -> bool:
        """Have no other slot handle these; false if one still does, which are passed over for a moment.

        It has lost its connection then, and does not know it yet: the row is to be counted before it is handled again.
        """
        self._let_go()
        taken = self._receiver.book.take([row.id for row in rows])
        self._claimed = [] if taken else rows
        for row in rows if taken else ():
            if row.id in taken:
                self._receiver.hold_back(row, HOLD_BACK_TAKEN)
        return not taken

    async def _give_back(self, fate: Fate) -> None:
        """Roll back what is in hand, as the fate of one row says."""
        self._unit.begin_anew()
        if fate.kind in {Kind.LOST, Kind.OUTAGE} and isinstance(fate.cause, RowbusError):
            await self._broke(fate.cause)
            return
        if len(self._in_hand) > 1 and fate.kind is not Kind.PAUSED:
            self._singles = len(self._in_hand)
        rows = self._in_hand
        await self._abandon()
        await self._postpone(rows, fate)
        self._let_go()
        if fate.kind is Kind.PAUSED:
            await self._receiver.pause(fate.seconds)

    async def _postpone(self, rows: list[MessageRow], fate: Fate) -> None:
        """Have the one that the fate is of wait where it is."""
        if fate.kind is not Kind.POSTPONED:
            return
        for row in rows:
            entry = self._receiver.book.entry(row.id)
            if (headers := entry.headers) is not None:
                entry.headers = None
                await self._receiver.postpone(row, headers, fate.seconds)

    def _let_go(self) -> None:
        if self._claimed:
            self._receiver.book.let_go([row.id for row in self._claimed])
            self._claimed = []

    async def _broke(self, error: Exception) -> None:
        """Put back what is in hand, and set it aside if it is one message that breaks everything again and again."""
        rows, receiver = self._in_hand, self._receiver
        self._unit.begin_anew()
        if self._lost_in_hand():
            suspects = rows if self._handled is None else [self._handled]
            with receiver.held_back(suspects):
                await self._abandon()
                if await receiver.interrupted(suspects, error, self._server):
                    return
        await self._abandon()
        if len(rows) > 1:
            self._singles = len(rows)
        elif rows and _is_of_the_row(error):
            await self._count(rows[0], error)
        elif rows and is_outage(error) and not isinstance(error, ConnectionLostError):
            receiver.hold_back(rows[0], PASSED_OVER)  # others may not meet it
        self._let_go()  # before the pause: while it is claimed, a slot that receives it passes it over
        await receiver.processing_failed(error, with_message=bool(rows))

    def _lost_in_hand(self) -> bool:
        """Say whether the connection broke that held messages."""
        return (
            bool(self._in_hand)
            and self._session is not None
            and self._session.closed
            and self._receiver.transaction_mode is not TransactionMode.NONE
        )

    async def _count(self, row: MessageRow, error: Exception) -> None:
        """Count a failure that is the row's; set the row aside after too many of them."""
        receiver = self._receiver
        if receiver.transaction_mode is TransactionMode.NONE:
            if receiver.book.entry(row.id).is_judged:
                await receiver.rescue(row, error)
            return
        try:
            if receiver.book.entry(row.id).refuse():
                await receiver.set_aside(row, error)
        except RowbusError as outage:
            logger.warning("Row %s of %s could not be set aside: %s", row.id, receiver.address, outage)

    async def _receive(self, most: int) -> list[MessageRow]:
        """Receive in a new transaction; the permit is settled in any case."""
        found, trips, started = 0, self._receiver.trips, time_ns()
        try:
            session = self._session or await self._open()
            entered = await self._receiver.enter(session, most)
            if entered == 0:
                return []
            look = self._receiver.look(entered)
            rows = await self._transaction.receive(look.statement)
            found = self._receiver.looked(look, rows)
        finally:
            self._receiver.permits.received(found)
        if trips is not None:
            trips.note("receive", rows, started)
        if not rows:
            self._unit.begin_anew()
            await session.rollback()
            self._receiver.found_nothing()
        gate = self._receiver.gate
        if gate is not None:
            rows = await pass_gate(gate, rows, self._receiver, session, self._transaction) if rows else rows
            gate.left(entered - len(rows))
        return await self._placed(rows, session)

    async def _placed(self, rows: list[MessageRow], session: ReceiveSession) -> list[MessageRow]:
        """Return those that have their places, if any message here needs one."""
        places = self._receiver.places
        if not rows or places is None or not (places.has_keys or places.said):
            return rows
        return await have_places(places, rows, self._receiver, session)

    async def _process(self, rows: list[MessageRow]) -> list[MessageRow] | Fate:
        """Process what is in hand, complete it, and return what was received next; or the fate of all of it."""
        if len(rows) > 1 and any(is_suspect(row.headers) for row in rows):
            return PUT_BACK  # received one by one: if a connection breaks, it is known whose doing it is
        order = self._receiver.order
        if order is not None and self._receiver.hold_early(order, rows):
            return PUT_BACK
        outgoing = await self._handle(rows)
        return outgoing if isinstance(outgoing, Fate) else await self._complete(rows, outgoing)

    async def _handle(self, rows: list[MessageRow]) -> Outgoing | Fate:
        """Run the handlers; those of a message of which its process may have died while no other handler runs."""
        assert self._session is not None  # noqa: S101 - `_receive` opened it
        seclusion, first = self._receiver.seclusion, rows[0]
        suspect = lost_process_in(first.headers) if is_suspect(first.headers) else None
        if suspect is None:
            await seclusion.enter()
        elif (later := await seclusion.enter_alone(self._receiver.book.entry(first.id), suspect.times)) > 0:
            self._receiver.hold_back(first, later)
            return PUT_BACK
        started = perf_counter()
        try:
            work, threads = self._process_each(rows, self._session), self._receiver.threads
            outgoing = await (
                work if threads is None or len(rows) == 1 else take_turns(work, threads, self._session)
            )
        finally:
            (seclusion.leave if suspect is None else seclusion.leave_alone)()
        if not isinstance(outgoing, Fate):
            self._handled = None
            if outgoing.has_failed:  # or was retried, and went well then
                self._unit.begin_anew()
            else:
                self._unit.handled(len(rows), perf_counter() - started)
        return outgoing

    async def _process_each(self, rows: list[MessageRow], session: ReceiveSession) -> Outgoing | Fate:
        process, book, outgoing = self._receiver.processor.process, self._receiver.book, Outgoing()
        is_alone = len(rows) == 1
        for place, row in enumerate(rows, 1):
            self._handled = row
            entry = book.entry(row.id)
            sends = await process(row, entry, session, outgoing.afterwards, is_alone=is_alone)
            if isinstance(sends, Fate):
                return sends
            if entry.noted is not None:
                await onto_loop()
                await session.run_all(self._receiver.taken_back([row]))
            if session.is_stained and not is_alone:
                return PUT_BACK  # the others are not to meet what it changed
            if sends:
                (outgoing.verdicts if entry.leaves else outgoing.sends).extend(sends)
            if entry.failures:
                outgoing.has_failed = True
            if entry.leaves and self._receiver.processor.was_ended(session):
                outgoing.verdicts.extend(await self._renew(rows[place:], session))
                break
        return outgoing

    async def _renew(self, rows: list[MessageRow], session: ReceiveSession) -> list[Leaving]:
        """Return what puts messages at the end of the queue that a handler's commit has taken out for good."""
        await session.run_all(self._receiver.taken_back(rows))
        return [self._receiver.processor.renewed(row, session) for row in rows if not row.expired]

    async def _complete(self, rows: list[MessageRow], outgoing: Outgoing) -> list[MessageRow] | Fate:
        """Complete what is in hand and receive on, if the round allows it."""
        trips, started = self._receiver.trips, time_ns()
        try:
            travel = self._travel()
            if travel is None:
                await self._transaction.complete(outgoing)
                following: list[MessageRow] = []
            else:
                following = await self._receive_on(outgoing, travel)
        except RowbusError as error:
            if trips is not None:
                trips.note("settle", rows, started, None if self._transaction.completed else error)
            if self._transaction.completed:
                self._forget(rows)
                await make_calls(outgoing.afterwards)
                raise
            return await self._completion_failed(rows, error)
        if trips is not None:
            trips.note("settle", rows, started)
            trips.note("receive", following, started)
        self._forget(rows)
        if self._receiver.processing.breaker.failures:
            self._receiver.processing.succeeded()
        self._in_hand = following  # for a stop that comes during the calls
        if self._is_spent:
            await self._close()
        if outgoing.afterwards:
            await make_calls(outgoing.afterwards)
        return following

    def _travel(self) -> Travel | None:
        """Return the permit for a receive that travels with the commit, None for none.

        Tokens, and what operators say, come before a transaction.
        """
        receiver, hold = self._receiver, self._receiver.hold
        must_ask = receiver.gate is not None or (hold is not None and hold.clock() >= hold.due)
        is_over = self._turn is not None and self._turn.is_over
        if must_ask or is_over or self._is_spent or not self._wanted():
            return None
        return receiver.permits.try_travel(self._most())

    @property
    def _is_spent(self) -> bool:
        """Whether the session has to be another for the next message."""
        session = self._session
        return session is not None and (session.closed or session.is_stained)

    async def _receive_on(self, outgoing: Outgoing, travel: Travel) -> list[MessageRow]:
        found = 0
        try:
            look = self._receiver.look(travel.most, travels=True)
            rows = await self._transaction.complete_and_receive(outgoing, look.statement)
            found = self._receiver.looked(look, rows)
        finally:
            self._receiver.permits.received(found, travel)
        assert self._session is not None  # noqa: S101 - in it they were received
        if not rows:
            self._unit.begin_anew()
            await self._session.rollback()
        return await self._placed(rows, self._session)

    async def _completion_failed(self, rows: list[MessageRow], error: RowbusError) -> list[MessageRow] | Fate:
        """Count a failed send or commit against a single message and let the policy decide; split up a batch."""
        processor, entry = self._receiver.processor, self._receiver.book.entry(rows[0].id)
        if is_outage(error) or self._session is None or self._session.closed:
            raise error
        if len(rows) > 1:
            logger.warning(
                "A batch of %s failed as a whole; its messages are received one by one: %s", len(rows), error
            )
            return Fate(Kind.PUT_BACK, error)
        if entry.is_judged:  # what failed is the policy's own send, to the error queue perhaps
            raise error
        if not (isinstance(error, QueueNotFoundError) and processor.relied_on(error)):
            entry.fail(await self._receiver.dispatcher.explained(error))
        if processor.rolls_back or not await self._session.undo_completion():
            return Fate(Kind.PUT_BACK, error)
        return rows

    def _forget(self, rows: list[MessageRow]) -> None:
        self._in_hand = []
        self._singles = max(0, self._singles - len(rows))
        processor = self._receiver.processor
        processor.completed += len(rows)
        self._receiver.completed()
        self._claimed = []
        self._receiver.book.forget_all([row.id for row in rows])

    async def _open(self) -> ReceiveSession:
        """Open all that the slot needs, or nothing; return its session. Raises ConnectionLostError."""
        receiver = self._receiver
        shared = None if receiver.turns is None else receiver.turns.shelf.take(receiver.address)
        session, self._outbox, self._server = shared or await self._connected()
        self._session = session
        self._transaction = receive_transaction(
            receiver.transaction_mode, session, receiver.dispatcher, self._outbox
        )
        return session

    async def _connected(self) -> Equipment:
        receiver, outbox = self._receiver, None
        async with AsyncExitStack() as opened:
            session = await receiver.connect()
            opened.push_async_callback(session.close)
            server = await receiver.server_started(session)
            if receiver.transaction_mode is TransactionMode.RECEIVE_ONLY:
                outbox = await receiver.database.connect_sender()
            opened.pop_all()
        return Equipment(session, outbox, server)

    async def _abandon(self) -> None:
        """Put what is in hand back; a connection that cannot do so is closed, which has the same effect."""
        self._handled = None
        if self._in_hand:
            self._receiver.put_back(self._in_hand)
            self._in_hand = []
        if self._session is not None:
            await self._session.rollback()
            if self._is_spent or (self._outbox is not None and not self._outbox.is_idle):
                await self._close()

    async def _close(self) -> None:
        async with AsyncExitStack() as closing:
            for session in filter(None, (self._session, self._outbox)):
                closing.push_async_callback(session.close)
            self._session = self._outbox = None


def _is_of_the_row(error: Exception) -> bool:
    """Say whether what failed will fail with this row again, and not with others: no outage, no conflict."""
    if isinstance(error, StorageError):
        return not error.transient
    return not isinstance(error, QueueNotFoundError)
