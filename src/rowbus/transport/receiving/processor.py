"""One message, from its row to what it sends: attempts, failures, and the policy's verdicts carried out.

Invariant: a row that cannot be read becomes a message in the error queue, a failure is undone and counted before the
policy hears of it, and no policy is decided here.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from rowbus.errors import (
    ConnectionLostError,
    DestinationRefusedError,
    InvalidAddressError,
    MalformedHeadersError,
    MessageDeserializationError,
    StorageError,
    TransactionConflictError,
)
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.running.in_hand import Held, of_this_process
from rowbus.running.scope import Scope
from rowbus.running.turns import onto_loop
from rowbus.settings import FailureHandling
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.decisions.failures import FailureMemory
from rowbus.transport.receiving.decisions.interruptions import (
    Interruption,
    LostServers,
    interruption_in,
    is_suspect,
    lost_server,
    take_out,
)
from rowbus.transport.receiving.decisions.outages import LoneOutages, is_outage_in_handler
from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery
from rowbus.transport.receiving.remarks import Remarks
from rowbus.work.attempt import Ending, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.sessions import ReceiveSession
    from rowbus.errors import RowbusError
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.message import MessageRow
    from rowbus.running.service import Service
    from rowbus.transport.queues.destination_rule import Destinations
    from rowbus.transport.receiving.decisions.failures import FailureRecord
    from rowbus.transport.receiving.delivery import Callbacks
    from rowbus.transport.receiving.dispatcher import Dispatcher
    from rowbus.work.attempt import Outcome


class AttemptFailedError(Exception):
    """An attempt failed and its transaction is to be rolled back; the failure has been recorded."""


class OutageError(Exception):
    """An attempt ended through no fault of its message: put it back, count nothing, and wait `seconds`."""

    def __init__(self, seconds: float) -> None:
        """Take how long to wait."""
        super().__init__(seconds)
        self.seconds = seconds


class _TransactionEndedError(Exception):
    """A handler ended the receive transaction; the cause is what it raised then or what we say about it."""


class _NotForwardedError(Exception):
    """A message names a destination that it does not go to; the cause says why."""


class Processor:
    """Processes the messages of one receiver, for all its slots."""

    def __init__(
        self,
        callbacks: Callbacks,
        address: QueueAddress,
        dispatcher: Dispatcher,
        *,
        in_transaction: bool,
        handling: FailureHandling,
        service: Service,
        destinations: Destinations,
        fault: Callable[[Exception], RowbusError | None],
    ) -> None:
        """Say whose messages, what is done with them, and what a failure means for the transaction.

        `service` is the one whose stop ends what is in hand.
        """
        self._fault = fault
        self._clock = time.monotonic
        self._service = service
        self._destinations = destinations
        self._callbacks = callbacks
        self._address = address
        self._table = queue_table(address)
        self._dispatcher = dispatcher
        self._in_transaction = in_transaction
        self.rolls_back = in_transaction and handling is FailureHandling.ROLLBACK
        self.memory = FailureMemory()
        self.judged: set[str] = set()  # rows the policy has dealt with, until that is completed
        self._forwarded: set[str] = set()  # rows that only pass through, likewise
        self._alone: set[str] = set()  # rows that are handled alone in this process, likewise
        self._in_hand = of_this_process()
        self._lone_outages = LoneOutages()
        self._lost_servers = LostServers()
        self._remarks = Remarks(address)
        self.completed = 0
        """How many messages have been completed."""

    async def process(
        self,
        row: MessageRow,
        session: ReceiveSession,
        afterwards: list[Callable[[], object]],
        *,
        is_alone: bool = True,
    ) -> Sequence[Leaving]:
        """Process a message until it is dealt with and return what is to be sent with its transaction.

        What its handlers want called after the commit is added to `afterwards`. `is_alone` says whether the transaction
        has this message only.

        Raises AttemptFailedError when the transaction is to be rolled back, and StorageError when it is lost.
        """
        try:
            delivery = self._delivery(row, session)
        except (MalformedHeadersError, MessageDeserializationError) as error:
            self.judged.add(row.id)
            return (self._poison(row, error),)
        try:
            if is_alone and is_suspect(row.headers):  # a slot handles no batch that has one
                self._restore(row)
            failure = self.memory.get(row.id) if self.memory else None
            ends = None if row.time_left is None else self._clock() + row.time_left
            if failure is None:
                if row.time_left is not None and row.time_left <= 0:
                    self._remarks.missed(delivery, row.time_left)
                    return ()
                failure = await self._attempt(delivery, session, is_alone=is_alone)
                if failure is None:
                    afterwards.extend(delivery.afterwards)
                    return delivery.sends
            return await self._recover(row, session, failure, ends, afterwards)
        except _NotForwardedError as error:
            self.judged.add(row.id)
            return (self._refuse(row, error.__cause__ or error),)
        except _TransactionEndedError as error:
            self.judged.add(row.id)
            return (self._refuse(row, error.__cause__ or error),)

    def _restore(self, row: MessageRow) -> None:
        """Take over the failures that a row's headers tell of, of which the policy has not been asked."""
        interruption = interruption_in(row.headers)
        if interruption is not None and interruption.took_its_process:
            self._alone.add(row.id)
        if interruption is not None and interruption.times:
            self.memory.restore(row.id, interruption.times, interruption.error())

    @property
    def remembers(self) -> bool:
        """Whether there is anything to forget of rows that are completed."""
        return bool(self.memory or self.judged or self._alone or self._lone_outages or self._lost_servers)

    def forget(self, row_id: str) -> None:
        """Forget a row's failures: it has been completed."""
        self.memory.clear(row_id)
        self.judged.discard(row_id)
        self._forwarded.discard(row_id)
        self._alone.discard(row_id)
        self._lone_outages.forget(row_id)
        self._lost_servers.forget(row_id)

    def lost_server(self, row: MessageRow, before: int, error: BaseException) -> None:
        """Note that the server went away while a row was handled, and count that if it happens again and again.

        The kernel may have killed the session for the memory that the handler's statement took: then PostgreSQL ends
        all sessions, and the loss cannot be told from an outage but by its coming back.
        """
        if self._lost_servers.is_to_blame(row.id):
            failures = self._failures(row.id, before, 1)
            self.judged.discard(row.id)
            self.memory.restore(row.id, failures, Interruption(failures, lost_server(error)).error())

    def interrupted(self, row_id: str, before: int, times: int) -> int:
        """Return how often a row has failed, `before` it was received and here, with an interruption or without.

        Forgets the row, because from now on its headers say it: another slot may have it at any moment.
        """
        failures = self._failures(row_id, before, times)
        self.forget(row_id)
        return failures

    def _failures(self, row_id: str, before: int, times: int) -> int:
        """Add to a row's failures; one that the policy has been asked about is not counted twice."""
        known = self.memory.get(row_id)
        return max(before, known.times if known else 0) + (0 if row_id in self.judged else times)

    def moves(self, row_id: str) -> bool:
        """Say whether a row moves to another queue, so that in every mode it leaves with the receive transaction."""
        return row_id in self.judged or row_id in self._forwarded

    async def _attempt(
        self, delivery: Delivery, session: ReceiveSession, *, is_alone: bool = True
    ) -> FailureRecord | None:
        """Run the message's handlers once; on failure undo what they did and return the failure, counted."""
        outcome = await attempt(
            partial(self._handle, delivery),
            session,
            self._service.is_cut_off,
            in_transaction=self._in_transaction,
        )
        if outcome is None:
            return None
        error = outcome.error
        if isinstance(error, _NotForwardedError):
            raise error
        if outcome.ending is not Ending.UNFINISHED:
            self._raise_in_outage(error)
            if not is_alone and isinstance(self._faulted(error), TransactionConflictError):
                raise AttemptFailedError(delivery.id) from error  # one by one they hold up nothing
        return await self._failed(delivery, session, outcome)

    def _faulted(self, error: BaseException) -> BaseException:
        """Return our error for one of the driver's, any other as it is."""
        return (self._fault(error) if isinstance(error, Exception) else None) or error

    def _raise_in_outage(self, error: BaseException) -> None:
        """Raise OutageError for what the callbacks hold against no message."""
        decides = self._callbacks.decides_outage
        seconds = None if decides is None else decides(error)
        if seconds is not None:
            raise OutageError(seconds) from error

    async def _handle(self, delivery: Delivery) -> None:
        """Have the message handled here, or send it on to where it belongs.

        Source: docs/wire-format.md#moving-due-messages.
        """
        if delivery.forward_to is None:
            entry = self._note(delivery.id)
            try:
                await self._callbacks.on_message(delivery)
            finally:
                self._clear(entry)
            return
        try:
            await onto_loop()
            await self._destinations.require(delivery.forward_to, delivery.ask)
        except DestinationRefusedError as error:
            raise _NotForwardedError(delivery.id) from error
        self._forwarded.add(delivery.id)
        delivery.send(Send(delivery.forward_to, OutgoingMessage(delivery.headers, delivery.body)))

    def _note(self, row_id: str) -> int | None:
        """Have the supervisor know what is in hand, should this process die of it."""
        if self._in_hand is None or not self._in_transaction:
            return None
        return self._in_hand.note(Held(str(self._address), row_id, row_id in self._alone))

    def _clear(self, entry: int | None) -> None:
        if self._in_hand is not None:
            self._in_hand.clear(entry)

    async def _failed(self, delivery: Delivery, session: ReceiveSession, outcome: Outcome) -> FailureRecord:
        ending, error = outcome
        if ending is Ending.LOST or (ending is Ending.UNFINISHED and self._in_transaction):
            # The slot finds out whether it is the message's doing.
            raise ConnectionLostError(
                "The connection broke while a message was handled; it is back in its queue."
                if ending is Ending.LOST
                else str(error),
                sqlstate=None,
                transient=True,
            ) from session.reason(error)
        if ending is Ending.ENDED:
            if not await session.run(self._table.holds(delivery.id)):
                if delivery.take_back is not None:
                    await session.run(delivery.take_back)
                raise _TransactionEndedError(delivery.id) from error
            # Rolled back: any receiver may take it again.
            self.memory.record(delivery.id, error, delivery.items)
            raise AttemptFailedError(delivery.id) from error
        if self._in_transaction and not self._is_to_blame(delivery.id, error):
            raise _outage(error) from error
        kept = not self._in_transaction or (not self.rolls_back and await session.undo_attempt())
        failure = self.memory.record(delivery.id, error, delivery.items)
        if not kept:
            raise AttemptFailedError(delivery.id) from error
        return failure

    def _is_to_blame(self, row_id: str, error: BaseException) -> bool:
        """Say whether a message is to blame for what its handler raised: not for an outage that others share."""
        translated = self._fault(error) if isinstance(error, Exception) else None
        if not is_outage_in_handler(error, translated):
            return True
        return self._lone_outages.is_to_blame(row_id, self._clock(), self.completed)

    async def _recover(
        self,
        row: MessageRow,
        session: ReceiveSession,
        failure: FailureRecord,
        ends: float | None,
        afterwards: list[Callable[[], object]],
    ) -> Sequence[Leaving]:
        """Ask the policy, and try again as long as it says so and the message may be received: `ends` says until when.

        Source: docs/wire-format.md#expired-messages.
        """
        await onto_loop()
        while True:
            self.judged.discard(row.id)
            judged = self._delivery(row, session, failure.items)
            if (
                await self._judge(FailedDelivery(judged, failure.error, failure.times))
                or not self._in_transaction
            ):
                self.judged.add(row.id)
                return judged.sends
            if ends is not None and ends <= self._clock():
                self._remarks.dropped(row, failure.error)
                return ()
            delivery = self._delivery(row, session)
            again = await self._attempt(delivery, session)
            if again is None:
                afterwards.extend(delivery.afterwards)
                return delivery.sends
            failure = again
            await asyncio.sleep(0)  # a handler and a policy that never wait must not starve everybody else
            if self._service.is_stopping():
                raise AttemptFailedError(row.id) from failure.error

    async def _judge(self, failed: FailedDelivery) -> bool:
        """Ask the policy; true when it has dealt with the message. A policy that fails means: try again."""
        result = ErrorResult.RETRY_REQUIRED

        async def ask() -> None:
            nonlocal result
            result = await self._callbacks.on_error(failed)

        error = await Scope().call(ask, self._service.is_cut_off)
        if isinstance(error, StorageError):
            raise error
        if error is not None:
            text = (
                f"Failed to execute recoverability policy for message with native ID: `{failed.delivery.id}`"
            )
            self._callbacks.report(text, error)
        return error is None and result is ErrorResult.HANDLED

    def _refuse(self, row: MessageRow, error: BaseException) -> Send:
        """Give a message up that is not sent on, or whose row went with a transaction that its handler ended.

        Put back once it is allowed, the former goes where it was to go.
        """
        self._remarks.moved(row, error)
        return self._callbacks.on_poison(row, error)

    def _poison(self, row: MessageRow, error: BaseException) -> Send:
        self._remarks.unreadable(row, error)
        return self._callbacks.on_poison(row, error)

    def _delivery(
        self, row: MessageRow, session: ReceiveSession, items: dict[str, object] | None = None
    ) -> Delivery:
        """Return a fresh delivery of a row; raises MalformedHeadersError, MessageDeserializationError.

        Headers that are the transport's own handlers never see: where a delayed message goes, how often it failed.
        """
        if row.body is None:
            raise MessageDeserializationError(
                "The body is NULL; an empty body is ''::bytea.", type_name="bytea"
            )
        headers = decode_headers(row.headers)
        take_out(headers)
        forward_to = None
        if Header.FORWARD_DESTINATION in headers:
            forward_to = self._elsewhere(headers.pop(Header.FORWARD_DESTINATION), row)
        bag = {} if items is None else items
        return Delivery(
            row, headers, self._address, session, self._dispatcher, bag, forward_to, self._destinations
        )

    def _elsewhere(self, destination: str | None, row: MessageRow) -> QueueAddress | None:
        """Return the queue a delayed message belongs in, None if that is ours."""
        if not destination or destination == self._address.canonical:
            return None
        try:
            address = self._address.neighbour(destination)
        except InvalidAddressError as error:
            raise MalformedHeadersError(str(error), text=row.headers, reason=error.reason) from error
        return None if address == self._address else address


def _outage(error: BaseException) -> StorageError:
    return StorageError(
        f"A handler met an outage; its message is back in its queue: {error}",
        sqlstate=getattr(error, "sqlstate", None),
        transient=True,
    )
