"""Puts messages into queues, now or later, and events into logs: with the receive transaction, or in one of its own.

Invariants: each dispatch is all or nothing, and collapses equal sends (`messages.dispatch`); what delays a send is a
statement in its transaction. Nothing here looks at a clock: when a message is due is decided by the database (or by the
store's owner).
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, TypeVar

from rowbus.database.statements import answer_steps
from rowbus.errors import ConfigurationError, QueueNotFoundError, RowbusError
from rowbus.messages.dispatch import (
    AnySend,
    AppendedEvent,
    Cancellation,
    DelayedSend,
    Send,
    by_destination,
    by_log,
    deduplicate,
    in_order_of_keys,
)
from rowbus.messages.headers import Header
from rowbus.running.bounded import Bounded
from rowbus.running.functions import calling_line
from rowbus.transport.claims.table import keeping_all
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.events import log_table
from rowbus.transport.queues.table import destination_table, queue_table
from rowbus.transport.uniqueness.sending import leave_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.outgoing import UniqueMessageId
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.destination_rule import Destinations
    from rowbus.transport.uniqueness.table import UniqueSend

T = TypeVar("T")

AT_ONCE = timedelta(0)


class Delays(Protocol):
    """The way in which an endpoint delays messages."""

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Return the statements that keep these messages until they are due; at least one is given."""
        ...


class NoDelays:
    """No way to delay: the endpoint switched it off, or there is no endpoint."""

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Raise ConfigurationError."""
        raise ConfigurationError(
            f"A message for {sends[0].destination} is to be delayed, but delayed delivery is switched off here "
            "(delayed_delivery=None)."
        )


class DelayService:
    """The parts that a running endpoint needs to delay messages; as it is, those of one with delayed_delivery=None."""

    delays: Delays = NoDelays()
    """The way in which its dispatchers delay."""

    async def install(self, session: AsyncSession) -> None:
        """Create what is missing, or with install=False raise for what is."""

    async def check(self, session: AsyncSession) -> None:
        """Raise ShiftedTimesError if what waits would come at another time than it says."""

    async def catch_up(self) -> None:
        """Deliver what is due before the first message is received, in a process that may die of that message."""

    async def start(self) -> None:
        """Begin to deliver what is due."""

    async def stop(self, timeout: float | None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish what is in hand, or after `timeout` seconds leave it undone, and leave nothing running."""


class NativeDelays:
    """Keeps delayed messages in an endpoint's table of delayed messages, whose mover `notify` wakes."""

    def __init__(self, address: QueueAddress, *, notify: bool) -> None:
        """Store in this table. No I/O."""
        self._table = delayed_table(address)
        self._notify = notify

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Return what stores them."""
        messages = [send.message.bound_for(send.destination) for send in sends]
        return [*self._table.store_all(messages, [send.due for send in sends], notify=self._notify)]


class Dispatcher:
    """Sends to any queue of one database; `notify` says whether receivers are woken, `delays` how messages wait."""

    def __init__(
        self,
        pool: SessionPool,
        *,
        notify: bool,
        delays: Delays | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        """Dispatch through the pool's sessions; no I/O. Without `delays` delayed sends are a ConfigurationError.

        A `catalog` knows the queues of which one may have been meant where a destination is missing.
        """
        self._pool = pool
        self.notify = notify
        self._delays = delays or NoDelays()
        self._catalog = catalog
        self.doubtful: Bounded[QueueAddress, Destinations] = Bounded()
        """Queues that messages named, and that strangers could change; who looked at each looks again."""
        self._first_sent: Bounded[QueueAddress, str] = Bounded()
        self._explained: Bounded[QueueAddress, str] = Bounded()

    def note(self, sends: Iterable[AnySend]) -> None:
        """Note of each destination which line of the program sent there first, and what: for an error's text."""
        for destination, message, *_ in sends:
            if destination not in self._first_sent:
                types = message.headers.get(Header.ENCLOSED_MESSAGE_TYPES) or "a message"
                self._first_sent[destination] = (
                    f"{types.partition(';')[0]} was sent there by {calling_line()}"
                )

    async def explained(self, error: RowbusError) -> RowbusError:
        """Return the error with who sent to the missing queue and which one may have been meant, if it is such."""
        if not isinstance(error, QueueNotFoundError):
            return error
        missing = next((one for one in list(self._first_sent) if str(one) == error.queue), None)
        if missing is None:
            return error
        if missing not in self._explained:
            meant = "".join(f" Did you mean {one}?" for one in await self._similar(missing))
            self._explained[missing] = f"{error} {self._first_sent[missing]}.{meant}"
        return QueueNotFoundError(self._explained[missing], queue=error.queue)

    async def _similar(self, missing: QueueAddress) -> list[str]:
        """Return the queue whose name is like that of a missing one, if there is one."""
        try:
            found = [] if self._catalog is None else await self.ask(self._catalog.find_queues())
        except RowbusError:  # the text is worth no second error
            return []
        names = {
            queue.address.table: str(queue.address)
            for queue in found
            if queue.address.schema == missing.schema
        }
        return [names[name] for name in get_close_matches(missing.table, names, n=1)]

    def statements(self, leaving: Sequence[Leaving]) -> list[Statement[object]]:
        """Return the statements that send and append these, queue by queue; the caller chooses the transaction."""
        if not leaving:
            return []
        if len(leaving) == 1 and isinstance(one := leaving[0], Send) and not one.message.kept:
            return [destination_table(one.destination).send(one.message, notify=self.notify)]
        messages = deduplicate([send for send in leaving if isinstance(send, AnySend)])
        sends, delayed = _split(messages)
        kept = [send for send in messages if send.message.kept]
        statements: list[Statement[object]] = [*keeping_all(kept)] if kept else []
        for address, group in by_destination(in_order_of_keys(sends)).items():
            statements += destination_table(address).send_all(group, notify=self.notify)
        if delayed:
            statements += self._delays.statements(delayed)
        statements += [_cancel(each) for each in leaving if isinstance(each, Cancellation)]
        events = [event for event in leaving if isinstance(event, AppendedEvent)]
        if not events:
            return statements
        return statements + [_append(log, those) for log, those in by_log(events).items()]

    async def ask(self, statement: Statement[T]) -> T:
        """Run a statement that asks something, in a transaction of its own. Raises StorageError."""
        async with self._pool.session() as session:
            return await session.run(statement)

    async def send_once(self, unique: UniqueSend) -> UniqueMessageId:
        """Send a unique message in a transaction of its own; raises as `leave_once`."""
        async with self._pool.session() as session:
            return await leave_once(session, unique, notify=self.notify)

    async def dispatch(self, leaving: Sequence[Leaving], session: AsyncSession | None = None) -> None:
        """Send and append in a transaction of its own, committed when this returns.

        On `session`, which is in no transaction; else on one of the pool's, for which it waits if need be. Raises
        QueueNotFoundError, LogNotFoundError or StorageError.
        """
        if statements := self.statements(leaving):
            async with self._pool.session() if session is None else nullcontext(session) as lent:
                await self._send(lent, leaving, statements)

    async def secure(self, session: AsyncSession, leaving: Sequence[Leaving]) -> None:
        """Lock queues that strangers could change, in the transaction that sends there, and look at them again.

        Raises DestinationRefusedError, QueueNotFoundError, StorageError; the transaction stays usable.
        """
        for destination in self._doubted(leaving) if self.doubtful else ():
            await session.run_all(queue_table(destination).keep(), atomic=True)
            await answer_steps(session.run, self.doubtful[destination].look(destination))

    def _doubted(self, leaving: Sequence[Leaving]) -> list[QueueAddress]:
        destinations = dict.fromkeys(send.destination for send in leaving if isinstance(send, Send))
        return [destination for destination in destinations if destination in self.doubtful]

    async def _send(
        self, session: AsyncSession, leaving: Sequence[Leaving], statements: Sequence[Statement[object]]
    ) -> None:
        if not (self.doubtful and self._doubted(leaving)):
            await session.run_all(statements, atomic=True)
            return
        async with session.transaction():
            await self.secure(session, leaving)
            await session.run_all(statements, atomic=True)


def _cancel(cancellation: Cancellation) -> Statement[object]:
    return delayed_table(cancellation.waits_in).cancel_at(cancellation.message_id, cancellation.due)


def _append(log: str, events: list[AppendedEvent]) -> Statement[object]:
    table = log_table(log)
    return table.append(events[0]) if len(events) == 1 else table.append_batch(events)


def _split(sends: Sequence[AnySend]) -> tuple[list[Send], list[DelayedSend]]:
    """Tell what leaves now, also because its delay is over, from what waits."""
    now: list[Send] = []
    later: list[DelayedSend] = []
    for send in sends:
        if isinstance(send, Send):
            now.append(send)
        elif isinstance(send.due, timedelta) and send.due <= AT_ONCE:
            now.append(Send(send.destination, send.message))
        else:
            later.append(send)
    return now, later
