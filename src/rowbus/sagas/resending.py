"""Timeouts of sagas from outside: lost ones (noted, and in no table any more) are sent again; an end takes all along.

A table of delayed messages may have been restored from an older backup, or cleared.

Invariant: nothing is sent again that waits somewhere, nor for a saga that has gone on without it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_timestamp
from rowbus.sagas.timeouts import read_timeouts
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.sagas.table import SagaRow, SagaTable
    from rowbus.sagas.timeouts import Timeout
    from rowbus.transport.delayed.table import DelayedTable


class Places(NamedTuple):
    """Where a saga's timeouts may be: the table of delayed messages, the endpoint's queue, the error queue."""

    delayed: QueueAddress
    queue: QueueAddress
    error: QueueAddress


def resend(session: Session, table: SagaTable, row: SagaRow, places: Places) -> int:
    """Send a saga's lost timeouts again, with their ids and for their time, and return how many were.

    Looks at the places first, holding no lock, then locks the saga in a transaction of its own. Reads queues from
    beginning to end for each timeout that is not in the table of delayed messages.
    """
    lost = [timeout for timeout in read_timeouts(row.timeouts) if not _waits(session, timeout, places)]
    if not lost:
        return 0
    with session.transaction():
        now = session.run(table.find_by_id(row.id))
        noted = {timeout.id for timeout in read_timeouts(now.timeouts)} if now else set[str]()
        missing = [timeout for timeout in lost if timeout.id in noted]
        for timeout in missing:
            message = message_of(timeout, row.id, places.queue).bound_for(places.queue)
            session.run(delayed_table(places.delayed).store(message, timeout.due, notify=True))
    return len(missing)


def message_of(timeout: Timeout, saga_id: str, queue: QueueAddress) -> OutgoingMessage:
    """Return the message of a timeout, as its saga sent it."""
    headers = {
        Header.MESSAGE_ID: timeout.id,
        Header.CORRELATION_ID: timeout.id,
        Header.MESSAGE_INTENT: "Send",
        Header.REPLY_TO_ADDRESS: queue.canonical,
        Header.TIME_SENT: format_timestamp(datetime.now(UTC)),
        Header.DELIVER_AT: format_timestamp(timeout.due.astimezone(UTC)),
        Header.SAGA_ID: saga_id,
        Header.ORIGINATING_SAGA_ID: saga_id,
        Header.ORIGINATING_SAGA_TYPE: timeout.headers.get(Header.SAGA_TYPE),
        Header.IS_SAGA_TIMEOUT_MESSAGE: "True",
        **timeout.headers,
    }
    return OutgoingMessage(headers, timeout.body)


def _waits(session: Session, timeout: Timeout, places: Places) -> bool:
    """Say whether a timeout is anywhere; it may go from table to table meanwhile, so the first is asked again."""
    if session.run(delayed_table(places.delayed).waits_at(timeout.id, timeout.due)):
        return True
    return any(_holds(session, place, timeout.id) for place in (*places, places.delayed))


def _holds(session: Session, place: QueueAddress, message_id: str) -> bool:
    table = queue_table(place)
    return session.run(table.exists()) and session.run(table.holds_message(message_id))


def end(session: Session, table: SagaTable, delayed: DelayedTable, saga_id: str) -> int:
    """End a saga under its lock, with the timeouts that it waits for; say 0 if it has completed. In a transaction."""
    row = session.run(table.find_by_id(saga_id))
    if row is None:
        return 0
    if session.run(delayed.exists()):
        for timeout in read_timeouts(row.timeouts):
            session.run(delayed.cancel_at(timeout.id, timeout.due))
    return session.run(table.delete(row))
