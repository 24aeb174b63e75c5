"""Handlers that take long: their messages leave the queue for a table, and each process holds what it runs by a lease.

Invariants: no transaction is open while such a handler runs, but for those that it opens; what is committed for a
message, of a step or at its end, is committed under its epoch; a process that dies, hangs or is cut off loses its
leases, and another takes the messages with one more attempt counted.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from rowbus.database.sessions import connected
from rowbus.endpoint.long_context import (
    BLOCK_ENDED,
    ENDED,
    FINISHED,
    LEFT,
    BlockSessions,
    LongDelivery,
    Outside,
    Step,
)
from rowbus.errors import (
    ConnectionLostError,
    HandlerError,
    HandlingInterruptedError,
    LeaseLostError,
    RowbusError,
    StorageError,
)
from rowbus.errors.strangers import is_a, text_of
from rowbus.messages.headers import decode_headers, encode_copied_headers
from rowbus.messages.message import MessageRow
from rowbus.running.critical import ReportedBreaker
from rowbus.running.scope import Scope, current_scope, out_of_scope
from rowbus.running.service import Service
from rowbus.running.time_limit import urgency
from rowbus.running.together import Together
from rowbus.running.waiting import finish, pause
from rowbus.transport.long_work.table import Work, long_work_table
from rowbus.transport.queues.destination_rule import Destinations, destination_rule
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.decisions import UNEXPLAINED
from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery, make_calls
from rowbus.work.attempt import given_up, unfinished
from rowbus.work.book import Entry
from rowbus.work.fate import PASSED_OVER, PATIENCE, is_outage_in_handler

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
    from datetime import datetime
    from typing import TypeVar

    from rowbus.database.sessions import AsyncSession, Database, ReceiveSession, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.endpoint.parts import Parts
    from rowbus.endpoint.pipeline import Pipeline
    from rowbus.endpoint.steps.chain import Around
    from rowbus.messages.dispatch import Leaving
    from rowbus.transport.deduplication.table import InboxTable
    from rowbus.transport.long_work.table import Cancelling
    from rowbus.transport.receiving.delivery import OnError, OnMessage
    from rowbus.transport.receiving.dispatcher import Dispatcher

    T = TypeVar("T")

logger = logging.getLogger("rowbus.endpoint")

LOST: Final = "The work of message %s is over, or another process has it: its last step here is undone"
SILENT: Final = (
    "The connection of a block of context.transaction() was lost, which had been open for as long as a lease ({}): the "
    "server ends one in which nothing is done for so long. Do what takes long outside of the block."
)
PERIOD: Final = 1.0  # seconds between two looks: for leases to renew, for work to take or to cancel


class InHand:
    """A message that this process has taken, while its handler runs."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.is_lost = self.is_finished = self.is_judged = self.is_ending = False
        self.cancels = 0
        self.cancelling: Cancelling | None = None
        self.task: asyncio.Task[None] | None = None
        self.sessions: set[ReceiveSession] = set()
        """Those of its open transactions."""
        self.outages = Entry()
        """Outages that it met and that count against no message."""


class LongWork(Service):
    """Runs the handlers of an endpoint that take long, from `start` to `stop`. For one event loop."""

    def __init__(
        self,
        database: Database,
        pool: SessionPool,
        parts: Parts,
        pipeline: Pipeline,
        dispatcher: Dispatcher,
        *,
        inbox: InboxTable | None,
    ) -> None:
        """Take messages from the endpoint's table; `around` says how they are handled. No I/O."""
        address = parts.long_work
        assert address is not None  # noqa: S101 - made for endpoints that have one
        outages = ReportedBreaker(
            "Running work", f"Could not look after running work of {address}", logger, parts.alarm
        )
        super().__init__(f"rowbus {address} service", outages)
        self._table = long_work_table(address)
        self._queue = queue_table(parts.address)
        self._database = database
        self._pool = pool
        self._parts = parts
        self._pipeline = pipeline
        self._dispatcher = dispatcher
        self._inbox = inbox
        self._lease = parts.settings.long_lease
        self._process = f"{parts.identity.machine}/{os.getpid()}"
        self._in_hand: dict[str, InHand] = {}
        self._woken = asyncio.Event()
        self._is_draining = self._is_cut_off = False
        self._sessions = BlockSessions(database)
        self._ends = Together(self._end_all)
        self._loop = asyncio.get_running_loop()
        self._renewal = 0.0  # when it is time for it
        self._handle: OnMessage
        self._on_error: OnError

    # --- from the queue to the table

    def around(
        self, proceed: OnMessage, once: Around | None, handle: OnMessage, on_error: OnError
    ) -> OnMessage:
        """Return what processes a received message: one whose handler takes long moves to the table, `once`.

        From there it is handled so, outside of transactions; `on_error` decides about its failures.
        """
        self._handle, self._on_error = handle, on_error
        move = self._move if once is None else once(self._move)

        async def process(delivery: Delivery) -> None:
            await (move if self._pipeline.takes_long(delivery) else proceed)(delivery)

        return process

    async def _move(self, delivery: Delivery) -> None:
        queue, headers = delivery.receive_address.canonical, encode_copied_headers(delivery.headers)
        await delivery.run(self._table.put(Work(str(uuid.uuid4()), queue, headers, delivery.body, 0, 0)))
        delivery.tell_afterwards(self._woken.set)

    # --- what this process holds

    async def work(self) -> None:
        """Renew the leases if it is time, take what nobody holds, and sleep until there may be more."""
        self._woken.clear()
        async with self._pool.session() as session:
            if self._loop.time() >= self._renewal:
                await self._renew(session)
            room = 0 if self._is_draining else self._parts.settings.long_concurrency - len(self._in_hand)
            if room > 0:
                for work in await session.run(self._table.take(room, self._process, self._lease)):
                    self._take(work)
        self._outages.succeeded()
        if not self._stopping.is_set():
            await pause(self._woken, max(self._renewal - self._loop.time(), 0))

    async def _renew(self, session: AsyncSession) -> None:
        """Renew the leases of all that is in hand, which may be news to those who hold it."""
        held = list(self._in_hand.values())
        if held:
            self._note(held, await session.run(self._table.renew([one.work for one in held], self._lease)))
        self._renewal = self._loop.time() + min(PERIOD, self._lease.total_seconds() / 5)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Take no more, wait for handlers, and hand back what is not done after `timeout` seconds."""
        self._is_draining = True
        tasks = [one.task for one in self._in_hand.values() if one.task is not None]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=timeout)
        finally:
            self._is_cut_off = True
            await finish(tasks, 0) if tasks else None
            await self._ends.settle()
            self._woken.set()
            await super().stop(0 if timeout is not None else None)

    async def release(self) -> None:
        """Close the idle sessions of handlers' transactions."""
        await self._sessions.close()

    def _take(self, work: Work) -> None:
        hand = self._in_hand[work.id] = InHand(work)
        begin = partial(asyncio.create_task, self._run_one(hand), name=f"{self._name} {work.id}")
        hand.task = out_of_scope(begin)

    def _note(self, held: Sequence[InHand], still: dict[str, Cancelling | None]) -> None:
        """Cancel what another process has taken, and what somebody cancels; but not what is about to end."""
        for hand in held:
            if hand.is_ending:
                continue
            hand.is_lost = hand.is_lost or (hand.work.id not in still and not hand.is_finished)
            hand.cancelling = hand.cancelling or still.get(hand.work.id)
            is_to_end = hand.is_lost or (hand.cancelling is not None and not hand.is_judged)
            if is_to_end and hand.task is not None and not hand.is_finished:
                hand.cancels += 1
                hand.task.cancel(urgency(hand.cancels))

    async def _run_one(self, hand: InHand) -> None:
        try:
            await self._attempt_until_done(hand)
        except asyncio.CancelledError:
            if not hand.is_finished and not hand.is_lost:
                await self._dispatcher.ask(self._table.release([hand.work]))
            raise
        except BaseException as error:  # noqa: BLE001 - its lease ends, and another process takes it
            if not hand.is_lost:
                self._parts.on_critical_error(f"Could not run the work of message {hand.work.id}", error)
        finally:
            if hand.is_lost:
                logger.warning(LOST, hand.work.id)
            self._in_hand.pop(hand.work.id, None)
            self._woken.set()

    async def _attempt_until_done(self, hand: InHand) -> None:
        items: dict[str, object] = {}
        error: BaseException | None = _lost_process(hand.work) if hand.work.is_lost else None
        while True:
            if error is None:
                error, items = await self._attempt(hand)
            if hand.is_lost or hand.is_finished or error is None:
                _tell_late(hand, error)
                return
            if hand.cancelling is not None:
                error, hand.is_judged = hand.cancelling.error(), True
            if await self._surely(hand, partial(self._recover, hand, error, items)):
                return
            error = None

    async def _attempt(self, hand: InHand) -> tuple[BaseException | None, dict[str, object]]:
        """Handle a message until it meets no outage; return what went wrong, and what was noted for the policy."""
        while True:
            delivery = self._delivery(hand, {})
            error = await self._call(hand, delivery)
            is_over = hand.is_lost or hand.is_finished or hand.cancelling is not None
            if error is None or is_over or not await self._is_outage(hand, error):
                return error, delivery.items

    async def _is_outage(self, hand: InHand, error: BaseException) -> bool:
        """Say whether the database is to blame for a failure, and wait for it: it went away, or lacks something.

        What has met that for too long, or too often in a row, has failed: its handler may do it to the server.
        """
        started = await self._surely(hand, self._server_started)
        if started != hand.work.server:
            hand.work, hand.outages.losses = hand.work._replace(server=started), hand.outages.losses + 1
            return hand.outages.losses < UNEXPLAINED
        if not is_outage_in_handler(error, self._database.fault(error) if is_a(error, Exception) else None):
            return False
        logger.warning("The work of message %s waits for the database: %s", hand.work.id, text_of(error))
        seconds, _others = hand.outages.meet_outage(self._loop.time(), 0)
        await asyncio.sleep(PASSED_OVER)
        return seconds <= PATIENCE

    async def _server_started(self) -> datetime | None:
        """Ask on a new session, which a server that is about to stop refuses; an old one might still answer."""
        async with connected(self._database) as session:
            return await session.run(self._queue.server_started())

    async def _call(self, hand: InHand, delivery: LongDelivery) -> BaseException | None:
        """Call the handlers, and end the work; return what went wrong."""

        async def handle() -> None:
            await self._handle(delivery)

        try:
            error = await Scope().call(handle(), lambda: self._is_cut_off)
        finally:
            delivery.over = delivery.over or ENDED
            left = await self._sessions.end_left(hand.sessions)
        if error is None:
            error = HandlerError(LEFT) if left else delivery.misuse
        return error if error is not None or hand.is_finished else await self._finish(hand, delivery)

    async def _finish(self, hand: InHand, delivery: LongDelivery) -> BaseException | None:
        """End the work: what it sends leaves with its row. Return what is wrong with that."""
        try:
            await self._surely(hand, partial(self._end, hand, delivery.sends))
        except RowbusError as error:
            return await self._dispatcher.explained(error)
        await make_calls(delivery.afterwards)
        return None

    async def _recover(self, hand: InHand, error: BaseException, items: dict[str, object]) -> bool:
        """Ask the policy, and do what it says; false: try again."""
        judged, answers = self._delivery(hand, items), list[ErrorResult]()

        async def ask() -> None:
            answers.append(await self._on_error(FailedDelivery(judged, error, hand.work.failures + 1)))

        failed = await Scope().call(ask(), lambda: self._is_cut_off)
        if failed is not None:
            self._parts.on_critical_error(
                f"Failed to execute recoverability policy for {hand.work.id}", failed
            )
            await asyncio.sleep(PERIOD)
        elif answers == [ErrorResult.HANDLED]:
            again = () if self._inbox is None else (self._inbox.take_back(judged.message_id),)
            await self._end(hand, judged.sends, again)
            return True
        hand.is_lost = not await self._dispatcher.ask(self._table.fail(hand.work))
        hand.work = hand.work._replace(failures=hand.work.failures + 1)
        return hand.is_lost

    async def _surely(self, hand: InHand, act: Callable[[], Awaitable[T]]) -> T:
        """Do something in the database, through its outages, for as long as the message is this process's."""
        while True:
            try:
                return await act()
            except StorageError as error:
                if not error.transient or hand.is_lost:
                    raise
                logger.warning("The work of message %s waits for the database: %s", hand.work.id, error)
                await asyncio.sleep(PERIOD)

    # --- transactions

    async def _end(
        self, hand: InHand, leaving: Sequence[Leaving], also: Sequence[Statement[object]] = ()
    ) -> None:
        hand.is_ending = True
        try:
            if leaving or also or not await self._end_with_others(self._held(hand)):
                async with self._holding(hand) as session:
                    await self._commit(hand, session, leaving, also, is_end=True)
            hand.is_finished = True
        finally:
            hand.is_ending = False

    async def _end_with_others(self, work: Work) -> bool:
        """End work that sends nothing, with others; say whether that is done: else its row is locked, or gone."""
        fate = self._ends.join(work)
        self._ends.go_on()
        return await fate

    async def _end_all(self, together: Sequence[Work]) -> Sequence[bool]:
        ended = await self._dispatcher.ask(self._table.finish(together))
        return [work.id in ended for work in together]

    async def _commit(
        self,
        hand: InHand,
        session: ReceiveSession,
        leaving: Sequence[Leaving],
        also: Sequence[Statement[object]] = (),
        *,
        is_end: bool,
    ) -> None:
        await self._dispatcher.secure(session, leaving)
        last = (self._table.remove(hand.work),) if is_end else ()
        await session.commit([*self._dispatcher.statements(leaving), *also, *last])
        hand.is_finished = hand.is_finished or is_end

    def _held(self, hand: InHand) -> Work:
        """Return the work in hand; raises for what is cancelled, or no longer this process's."""
        if hand.cancelling is not None and not hand.is_judged:
            raise hand.cancelling.error()
        if hand.is_lost or hand.is_finished:
            raise _lost(hand)
        return hand.work

    @asynccontextmanager
    async def _holding(self, hand: InHand) -> AsyncGenerator[ReceiveSession]:
        """Begin a transaction that holds the message's row; roll it back unless it was committed."""
        self._held(hand)
        session = await self._sessions.lend(hand.sessions)
        try:
            session.committed = False
            if not await session.begin(self._table.hold(hand.work, self._lease)):
                hand.is_lost = True
                raise _lost(hand)
            yield session
        finally:
            await self._sessions.give_back(session, hand.sessions, keep=not self._stopping.is_set())

    @asynccontextmanager
    async def _step(self, hand: InHand, delivery: LongDelivery, is_end: bool) -> AsyncGenerator[Step]:  # noqa: FBT001 - of one caller
        """Give a delivery in a transaction, for a handler's own block; commit it at the end."""
        async with self._holding(hand) as session:
            begun = self._loop.time()
            delivery.require_open()
            step = self._step_on(session, hand, delivery)
            try:
                yield step
            except BaseException:
                await given_up(session)
                raise
            finally:
                step.over = BLOCK_ENDED
            if await given_up(session):
                raise unfinished(None)
            session.ensure_usable()
            delivery.require_open()
            sends = [*step.sends, *(delivery.sends if is_end else ())]
            try:
                await self._commit(hand, session, sends, is_end=is_end)
            except ConnectionLostError as error:
                if self._loop.time() - begun < self._lease.total_seconds():
                    raise
                raise HandlerError(SILENT.format(self._lease)) from error
            if is_end:
                delivery.over = FINISHED
        await make_calls((*step.afterwards, *(delivery.afterwards if is_end else ())))

    def _step_on(self, session: ReceiveSession, hand: InHand, delivery: LongDelivery) -> Step:
        scope = current_scope()
        if scope is not None:
            session.admit(scope)
        session.start_attempt()
        address = delivery.receive_address
        rule = destination_rule(self._parts.settings.allowed_destinations, address)
        return Step(
            _row(hand.work),
            delivery.headers,
            address,
            session,
            self._dispatcher,
            {},
            destinations=Destinations(rule, address, doubtful=self._dispatcher.doubtful),
        )

    async def _note_progress(self, hand: InHand, fraction: float, note: str) -> None:
        self._held(hand)
        if not await self._dispatcher.ask(self._table.progress(hand.work, fraction, note)):
            hand.is_lost = True
            raise _lost(hand)

    def _delivery(self, hand: InHand, items: dict[str, object]) -> LongDelivery:
        address = self._parts.address.neighbour(hand.work.queue)
        outside = cast("ReceiveSession", Outside(self._pool, hand.sessions))
        row, headers = _row(hand.work), decode_headers(hand.work.headers)
        delivery = LongDelivery(row, headers, address, outside, self._dispatcher, dict(items))
        delivery.failures = hand.work.failures
        delivery.step = partial(self._step, hand, delivery)
        delivery.note_progress = partial(self._note_progress, hand)
        return delivery


def _row(work: Work) -> MessageRow:
    return MessageRow(work.id, None, work.headers, work.body, 0)


def _tell_late(hand: InHand, error: BaseException | None) -> None:
    """Tell of what a handler raised when it had ended its message: there is nothing to retry."""
    if hand.is_finished and error is not None:
        logger.error(
            "The handler of message %s failed when it had ended the message, which stays ended: %s",
            hand.work.id,
            text_of(error),
            exc_info=error,
        )


def _lost(hand: InHand) -> LeaseLostError:
    return LeaseLostError(
        f"The work of message {hand.work.id} is over, or another process has it: nothing of this is committed.",
        queue=hand.work.queue,
        claim=hand.work.epoch,
    )


def _lost_process(work: Work) -> HandlingInterruptedError:
    said = "its process died, hung, or was cut off from the database for longer than its lease"
    return HandlingInterruptedError(
        f"The handler of message {work.id} was lost: {said}.", times=work.failures + 1, said=said
    )
