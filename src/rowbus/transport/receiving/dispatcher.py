"""Puts messages into queues, now or later, and events into logs: with the receive transaction, or in one of its own.

Invariant: each dispatch is all or nothing, and collapses equal sends (`messages.dispatch`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from rowbus.messages.dispatch import (
    AnySend,
    AppendedEvent,
    Cancellation,
    DelayedSend,
    Send,
    by_destination,
    by_log,
    deduplicate,
)
from rowbus.transport.claims.table import keeping_all
from rowbus.transport.delayed.delays import NoDelays
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.events import log_table
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import AsyncSession, SessionPool
    from rowbus.database.statements import Statement
    from rowbus.messages.dispatch import Leaving
    from rowbus.transport.delayed.delays import Delays

T = TypeVar("T")

AT_ONCE = timedelta(0)


class Dispatcher:
    """Sends to any queue of one database; `notify` says whether receivers are woken, `delays` how messages wait."""

    def __init__(self, pool: SessionPool, *, notify: bool, delays: Delays | None = None) -> None:
        """Dispatch through the pool's sessions; no I/O. Without `delays` delayed sends are a ConfigurationError."""
        self._pool = pool
        self._notify = notify
        self._delays = delays or NoDelays()

    def statements(self, leaving: Sequence[Leaving]) -> list[Statement[object]]:
        """Return the statements that send and append these, queue by queue; the caller chooses the transaction."""
        if not leaving:
            return []
        messages = deduplicate([send for send in leaving if isinstance(send, AnySend)])
        sends, delayed = _split(messages)
        logs = by_log(event for event in leaving if isinstance(event, AppendedEvent))
        return [
            *keeping_all(messages),
            *(
                statement
                for address, group in by_destination(sends).items()
                for statement in destination_table(address).send_all(group, notify=self._notify)
            ),
            *(self._delays.statements(delayed) if delayed else ()),
            *(_cancel(each) for each in leaving if isinstance(each, Cancellation)),
            *(_append(log, events) for log, events in logs.items()),
        ]

    async def ask(self, statement: Statement[T]) -> T:
        """Run a statement that asks something, in a transaction of its own. Raises StorageError."""
        async with self._pool.session() as session:
            return await session.run(statement)

    async def dispatch(self, leaving: Sequence[Leaving], session: AsyncSession | None = None) -> None:
        """Send and append in a transaction of its own, committed when this returns.

        On `session`, which is in no transaction; else on one of the pool's, for which it waits if need be. Raises
        QueueNotFoundError, LogNotFoundError or StorageError.
        """
        statements = self.statements(leaving)
        if not statements:
            return
        if session is not None:
            await session.run_all(statements, atomic=True)
            return
        async with self._pool.session() as lent:
            await lent.run_all(statements, atomic=True)


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
