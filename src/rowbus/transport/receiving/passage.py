"""The passage of received messages to their handlers, where limits let them by.

Which rate limits a message has is known when it has been received. Its token is taken outside of any transaction that a
handler may prolong. So the receive is rolled back, the tokens are taken, and the same messages are received again. This
process passes over them meanwhile; if another process was faster, the tokens are given back. Messages without a token
leave for the table of delayed messages, in a transaction of their own.

A place under a limit of concurrency is taken in the transaction that handles, and so is what becomes of a message
without one. In a queue with order it is put back and passed over, with those of its key; so is one whose failures only
this process has counted.

A table of delayed messages knows no time to be received. So a deferred message says in a header when that is over, and
who receives it again reads it: by the database's clock, as all times to be received.

Invariant: a message is in its queue or in the table of delayed messages at any time; deferring counts no attempt, and
prolongs no time to be received.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from rowbus.transport.limits.places import LONGEST, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from rowbus.database.sessions import ReceiveSession
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.decisions import LimitedMessage
    from rowbus.transport.limits.gate import Gate
    from rowbus.transport.limits.places import PlaceKeeper
    from rowbus.transport.receiving.receiver import Receiver
    from rowbus.transport.receiving.transactions import NoTransaction, SendsAtomicWithReceive

    Clock = Callable[[], Statement[datetime]]

logger = logging.getLogger("rowbus.limits")


async def pass_gate(
    gate: Gate,
    rows: list[MessageRow],
    receiver: Receiver,
    session: ReceiveSession,
    transaction: SendsAtomicWithReceive | NoTransaction,
) -> list[MessageRow]:
    """Return those of the messages in hand that may be handled now, in hand again; the others are deferred.

    Those without limits stay in hand, and so do those whose time to be received is over. Raises StorageError; then
    nothing is in hand.
    """
    rows = await _timed(gate.clock, rows, session)
    limited = await gate.limited([row for row in rows if not row.expired], session)
    if not limited:
        return rows
    receiver.put_back(rows)
    with receiver.held_back(rows):
        await session.rollback()
        verdict = await gate.judge(session, limited)
        if verdict.deferred:
            await _defer(gate, verdict.deferred, {each.message: each for each in limited}, receiver, session)
        passing = [row for row in rows if row not in verdict.deferred]
        if not passing:
            return []
        found = await transaction.receive(gate.receive_these(receiver.address, passing))
        ids = {row.id for row in found}
        gate.lost(
            [each for each in limited if each.message in verdict.passing and each.message.id not in ids]
        )
        if not found:
            await session.rollback()
        return await _timed(gate.clock, found, session)


async def have_places(
    places: PlaceKeeper, rows: list[MessageRow], receiver: Receiver, session: ReceiveSession
) -> list[MessageRow]:
    """Return those of the messages in hand that have their places; the others wait. Raises StorageError."""
    rows = await _timed(places.clock, rows, session)
    current = [row for row in rows if not row.expired]
    waits = await places.take(current, session, receiver.book.note, keeps_place=receiver.order is not None)
    if not waits:
        return rows
    logger.debug("%s messages of %s wait for a place", len(waits), receiver.address)
    if receiver.order is not None or any(receiver.book.failures(row.id) for row in waits):
        receiver.put_back(rows)
        for row, wait in waits.items():
            receiver.hold_back(row, min(wait.seconds, LONGEST))
        await session.rollback()
        return []
    leaving = await _deferrals(places.clock, waits, receiver, session)
    leaving.extend(receiver.taken_back(waits))
    staying = [row for row in rows if row not in waits]
    await (session.run_all(leaving, atomic=True) if staying else session.commit(leaving))
    return staying


async def _defer(
    gate: Gate,
    deferred: Mapping[MessageRow, float],
    limited: Mapping[MessageRow, LimitedMessage[MessageRow]],
    receiver: Receiver,
    session: ReceiveSession,
) -> None:
    """Move messages to the table of delayed messages; one whose time to be received is over by then expires."""
    found = await session.begin(gate.receive_these(receiver.address, list(deferred)))
    waits = {row.id: Wait(limited[row].buckets[0].key, seconds) for row, seconds in deferred.items()}
    found = await _timed(gate.clock, found, session)
    leaving = await _deferrals(gate.clock, {row: waits[row.id] for row in found}, receiver, session)
    await session.commit(leaving)
    logger.debug("%s messages of %s wait for their turn", len(found), receiver.address)


async def _deferrals(
    clock: Clock, waits: Mapping[MessageRow, Wait], receiver: Receiver, session: ReceiveSession
) -> list[Statement[object]]:
    """Return what puts messages into the table of delayed messages; one that is over by then expires."""
    now = await session.run(clock()) if any(row.time_left is not None for row in waits) else None
    sends = [
        _deferral(row, wait, receiver.address, now)
        for row, wait in waits.items()
        if not _expires(row, wait.seconds, receiver.address)
    ]
    # One dispatch each: equal message ids collapse in a dispatch, and these rows are to stay as many as they are.
    return [statement for send in sends for statement in receiver.dispatcher.statements([send])]


async def _timed(clock: Clock, rows: list[MessageRow], session: ReceiveSession) -> list[MessageRow]:
    """Return messages with the time that is left of what their headers say; of most, these say nothing."""
    if not any(Header.EXPIRES in row.headers for row in rows):
        return rows
    now = await session.run(clock())
    return [_with_time_left(row, now) for row in rows]


def _with_time_left(row: MessageRow, now: datetime) -> MessageRow:
    try:
        expires = parse_timestamp(decode_headers(row.headers).get(Header.EXPIRES) or "")
    except (InvalidTimestampError, MalformedHeadersError):
        return row
    return row._replace(time_left=(expires - now).total_seconds())


def _deferral(row: MessageRow, wait: Wait, address: QueueAddress, now: datetime | None) -> DelayedSend:
    headers = decode_headers(row.headers) | {Header.RATE_LIMITED: wait.key}
    if row.time_left is not None and now is not None:
        with suppress(OverflowError):  # after the year 9999
            headers[Header.EXPIRES] = format_timestamp(now + timedelta(seconds=row.time_left))
    return DelayedSend(address, OutgoingMessage(headers, row.body or b""), timedelta(seconds=wait.seconds))


def _expires(row: MessageRow, seconds: float, address: QueueAddress) -> bool:
    if row.time_left is None or row.time_left > seconds:
        return False
    logger.info("Row %s of %s expires before its limit has a turn for it", row.id, address)
    return True
