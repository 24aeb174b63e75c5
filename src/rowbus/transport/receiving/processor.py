"""One message, from its row to what it sends: attempts, failures, and the policy's verdicts carried out.

Invariant: a row that cannot be read becomes a message in the error queue, a failure is undone and counted before the
policy hears of it, and no policy is decided here.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from rowbus.errors import (
    DestinationRefusedError,
    HandlerError,
    InvalidAddressError,
    MalformedHeadersError,
    MessageDeserializationError,
    StorageError,
    TransactionConflictError,
)
from rowbus.errors.strangers import is_a, text_of
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.running.in_hand import RowInHand, of_this_process
from rowbus.running.scope import Scope
from rowbus.running.turns import onto_loop
from rowbus.settings import FailureHandling, TransactionMode
from rowbus.transport.queues.destination_rule import Destinations, destination_rule
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.decisions import (
    interruption_in,
    is_suspect,
    take_out,
)
from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery
from rowbus.transport.receiving.remarks import Remarks
from rowbus.work.attempt import attempt, cancelled, lost, outage
from rowbus.work.fate import (
    DONE,
    PUT_BACK,
    Ending,
    Failure,
    Fate,
    Kind,
    is_outage_in_handler,
    is_to_blame,
    kind_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowbus.database.sessions import ReceiveSession
    from rowbus.errors import QueueNotFoundError, RowbusError
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.message import MessageRow, ReadMessage
    from rowbus.running.service import Service
    from rowbus.settings import EndpointSettings
    from rowbus.transport.receiving.delivery import Callbacks
    from rowbus.transport.receiving.dispatcher import Dispatcher
    from rowbus.work.attempt import Outcome
    from rowbus.work.book import Entry

BACK: Final = "it is back in its queue"


class Processor:
    """Processes the messages of one receiver, for all its slots."""

    def __init__(
        self,
        callbacks: Callbacks,
        address: QueueAddress,
        dispatcher: Dispatcher,
        settings: EndpointSettings,
        *,
        service: Service,
        fault: Callable[[Exception], RowbusError | None],
    ) -> None:
        """Say whose messages, what is done with them, and what a failure means for the transaction.

        `service` is the one whose stop ends what is in hand.
        """
        self._fault = fault
        self._clock = time.monotonic
        self._service = service
        allowed = destination_rule(settings.allowed_destinations, address)
        self._destinations = Destinations(allowed, address, doubtful=dispatcher.doubtful)
        self._callbacks = callbacks
        self._address = address
        self._table = queue_table(address)
        self._dispatcher = dispatcher
        self._in_transaction = settings.transaction_mode is not TransactionMode.NONE
        self.rolls_back = self._in_transaction and settings.failure_handling is FailureHandling.ROLLBACK
        self._keep_tasks = settings.keep_tasks
        self._in_hand = of_this_process() if self._in_transaction else None
        self._remarks = Remarks(address)
        self.completed = 0
        """The number of messages completed."""

    async def process(
        self,
        row: MessageRow,
        entry: Entry,
        session: ReceiveSession,
        afterwards: list[Callable[[], object]],
        *,
        is_alone: bool = True,
    ) -> Sequence[Leaving] | Fate:
        """Process a message until it is dealt with and return what is to be sent with its transaction; note in `entry`.

        What its handlers want called after the commit is added to `afterwards`. `is_alone` says whether the transaction
        has this message only. Returns its fate when the transaction is to be rolled back; raises StorageError when it
        is lost.
        """
        entry.noted = row.noted
        try:
            delivery = self._delivery(row, session, read=entry.read)
        except (MalformedHeadersError, MessageDeserializationError) as error:
            entry.is_judged = True
            self._remarks.unreadable(row, error)
            return (self._callbacks.on_poison(row, error),)
        if entry.read is not None:
            entry.read = None
        if is_alone and is_suspect(row.headers):  # a slot handles no batch that has one
            _restore(entry, row.headers)
        entry.ends = None if row.time_left is None else self._clock() + row.time_left
        if entry.failures:
            fate = Fate(Kind.FAILED, entry.error)
        elif row.time_left is not None and row.time_left <= 0:
            self._remarks.missed(delivery, row.time_left)
            return ()
        else:
            fate = await self._attempt(delivery, entry, session, is_alone=is_alone)
            if fate is DONE:
                if delivery.afterwards:
                    afterwards.extend(delivery.afterwards)
                return delivery.sends
        return await self._recover(row, entry, session, fate, afterwards)

    def relied_on(self, missing: QueueNotFoundError) -> bool:
        """Forget a queue that is gone, and say whether it was remembered: no message is to blame then."""
        return self._destinations.forget(missing.queue)

    def was_ended(self, session: ReceiveSession) -> bool:
        """Say whether a handler has ended the transaction, and so taken what was received out of the queue."""
        return self._in_transaction and session.ended

    def renewed(self, row: MessageRow, session: ReceiveSession) -> Leaving:
        """Return what puts a message into the queue again, or into the error queue if it cannot be read."""
        try:
            body = self._delivery(row, session).body
        except (MalformedHeadersError, MessageDeserializationError) as error:
            return self._callbacks.on_poison(row, error)
        left = None if row.time_left is None else timedelta(seconds=row.time_left)
        return Send(self._address, OutgoingMessage(decode_headers(row.headers), body, left))

    async def _attempt(
        self, delivery: Delivery, entry: Entry, session: ReceiveSession, *, is_alone: bool = True
    ) -> Fate:
        """Run the message's handlers once; undo and count what failed."""
        in_hand, scope = self._in_hand, Scope()
        if delivery.forward_to is None:
            work, entry.call = self._callbacks.on_message(delivery), scope
        else:
            work, in_hand = self._pass_on(delivery, delivery.forward_to, entry), None
        held = None
        if in_hand is not None:  # the supervisor knows it, should this process die of it
            held = in_hand.note(RowInHand(str(self._address), delivery.id, entry.is_alone))
        try:
            outcome = await attempt(
                scope,
                work,
                session,
                self._service.is_cut_off,
                in_transaction=self._in_transaction,
                keep_tasks=self._keep_tasks,
            )
        finally:
            if in_hand is not None:
                in_hand.clear(held)
        if entry.cancelled is not None:
            outcome, entry.cancelled = cancelled(outcome, entry.cancelled), None
        if outcome is None:
            entry.noted = delivery.noted
            return DONE
        return await self._carry_out(
            await self._fate(delivery, entry, session, outcome, is_alone=is_alone), delivery, entry, session
        )

    async def _fate(
        self, delivery: Delivery, entry: Entry, session: ReceiveSession, outcome: Outcome, *, is_alone: bool
    ) -> Fate:
        ending, error = outcome
        pause = None if self._callbacks.decides_outage is None else self._callbacks.decides_outage(error)
        translated = self._fault(error) if is_a(error, Exception) else None
        failure = Failure(
            in_transaction=self._in_transaction,
            is_refused=delivery.forward_to is not None and is_a(error, DestinationRefusedError),
            is_held=ending is Ending.ENDED and await self._holds(delivery, session),
            is_outage=ending is Ending.FAILED
            and self._in_transaction
            and is_outage_in_handler(error, translated)
            and not is_to_blame(*entry.meet_outage(self._clock(), self.completed)),
            is_conflict_of_several=not is_alone and is_a(translated or error, TransactionConflictError),
            pause=pause,
        )
        return Fate(kind_of(ending, failure), error, pause or 0.0)

    async def _carry_out(self, fate: Fate, delivery: Delivery, entry: Entry, session: ReceiveSession) -> Fate:
        """Undo and count a failure as its fate says; return what is left to do."""
        kind, error, _seconds = fate
        if kind is Kind.GIVEN_UP and delivery.take_back is not None and session.ended:
            await session.run(delivery.take_back)
        if kind is Kind.LOST and error is not None:
            seen = lost(error, "The connection broke while a message was handled", BACK)
            seen.__cause__ = session.reason(error)
            return Fate(kind, seen)
        if kind is Kind.OUTAGE and error is not None:
            return Fate(kind, outage(error, BACK))
        if kind not in {Kind.FAILED, Kind.COUNTED} or error is None:
            return fate
        kept = not self._in_transaction or (kind is Kind.FAILED and await session.undo_attempt())
        if not kept and kind is Kind.FAILED and session.ended:  # and another was begun
            failure = Failure(is_outage=False, is_held=await self._holds(delivery, session))
            return await self._carry_out(
                Fate(kind_of(Ending.ENDED, failure), error), delivery, entry, session
            )
        entry.fail(error, delivery.items)
        is_over = not kept or (self._in_transaction and self.rolls_back)
        return Fate(Kind.PUT_BACK, error) if is_over else fate

    async def _holds(self, delivery: Delivery, session: ReceiveSession) -> bool:
        return await session.run(self._table.holds(delivery.id))

    async def _pass_on(self, delivery: Delivery, to: QueueAddress, entry: Entry) -> None:
        """Send a message on to where it belongs.

        Source: docs/wire-format.md#moving-due-messages.
        """
        await onto_loop()
        await self._destinations.require(to, delivery.ask)
        entry.is_passed_on = True
        delivery.send(Send(to, OutgoingMessage(delivery.headers, delivery.body)))

    async def _recover(
        self,
        row: MessageRow,
        entry: Entry,
        session: ReceiveSession,
        fate: Fate,
        afterwards: list[Callable[[], object]],
    ) -> Sequence[Leaving] | Fate:
        """Ask the policy, and try again as long as it says so and the message may be received.

        Source: docs/wire-format.md#expired-messages.
        """
        await onto_loop()
        while fate.kind is Kind.FAILED and fate.cause is not None:
            entry.is_judged = False
            judged = self._delivery(row, session, entry.items)
            failed = FailedDelivery(judged, fate.cause, entry.failures)
            if await self._judge(failed, entry) or not self._in_transaction:
                entry.is_judged = judged.postponement is None
                return _postponed(judged, entry, fate.cause) or judged.sends
            if entry.ends is not None and entry.ends <= self._clock():
                self._remarks.dropped(row, fate.cause)
                return ()
            delivery = self._delivery(row, session)
            delivery.failures = entry.failures
            fate = await self._attempt(delivery, entry, session)
            if fate is DONE:
                afterwards.extend(delivery.afterwards)
                return delivery.sends
            await asyncio.sleep(0)  # a handler and a policy that never wait must not starve everybody else
            if fate.kind is Kind.FAILED and self._service.is_stopping():
                return PUT_BACK
        if fate.kind is Kind.GIVEN_UP and fate.cause is not None:
            entry.is_judged = True
            self._remarks.moved(row, fate.cause)
            return (self._callbacks.on_poison(row, fate.cause),)
        return fate

    async def _judge(self, failed: FailedDelivery, entry: Entry) -> bool:
        """Ask the policy; true when it has dealt with the message. A policy that fails means: try again.

        Raises HandlerError where that is in vain, for the row to be set aside.
        """
        answers: list[ErrorResult] = []

        async def ask() -> None:
            answers.append(await self._callbacks.on_error(failed))

        error = await Scope().call(ask(), self._service.is_cut_off)
        if is_a(error, StorageError):
            raise error
        if error is not None:
            text = (
                f"Failed to execute recoverability policy for message with native ID: `{failed.delivery.id}`"
            )
            self._callbacks.report(text, error)
            entry.is_judged = not self._in_transaction
            if entry.refuse() or entry.is_judged:
                what = f"{text_of(failed.error, repr)}, and what judges failures failed as well"
                raise HandlerError(f"The message failed with {what}: {text_of(error, repr)}")
        return error is None and answers == [ErrorResult.HANDLED]

    def _delivery(
        self,
        row: MessageRow,
        session: ReceiveSession,
        items: Mapping[str, object] = MappingProxyType({}),
        read: ReadMessage | None = None,
    ) -> Delivery:
        """Return a fresh delivery of a row; raises MalformedHeadersError, MessageDeserializationError.

        Headers that are the transport's own handlers never see: where a delayed message goes, how often it failed.
        What was `read` of this very row is used up.
        """
        if row.body is None:
            raise MessageDeserializationError(
                "The body is NULL; an empty body is ''::bytea.", type_name="bytea"
            )
        is_read = read is not None and read.row is row and bool(read.objects)
        headers = read.headers if read is not None and is_read else decode_headers(row.headers)
        take_out(headers)
        headers.pop(Header.NOT_BEFORE, None)
        forward_to = None
        if Header.FORWARD_DESTINATION in headers:
            forward_to = self._elsewhere(headers.pop(Header.FORWARD_DESTINATION), row)
        bag = dict(items)
        delivery = Delivery(
            row, headers, self._address, session, self._dispatcher, bag, forward_to, self._destinations
        )
        if read is not None and is_read:
            delivery.objects = read.objects
        return delivery

    def _elsewhere(self, destination: str | None, row: MessageRow) -> QueueAddress | None:
        """Return the queue a delayed message belongs in, None if that is ours."""
        if not destination or destination == self._address.canonical:
            return None
        try:
            address = self._address.neighbour(destination)
        except InvalidAddressError as error:
            raise MalformedHeadersError(str(error), text=row.headers, reason=error.reason) from error
        return None if address == self._address else address


def _postponed(judged: Delivery, entry: Entry, cause: BaseException) -> Fate | None:
    """Return the fate of a message that is to wait where it is; None for another."""
    if judged.postponement is None:
        return None
    entry.headers, seconds = judged.postponement
    return Fate(Kind.POSTPONED, cause, seconds)


def _restore(entry: Entry, headers: str) -> None:
    """Take over the failures that a row's headers tell of, of which the policy has not been asked."""
    interruption = interruption_in(headers)
    if interruption is not None:
        entry.is_alone = entry.is_alone or interruption.took_its_process
        entry.restore(interruption.times, interruption.error())
