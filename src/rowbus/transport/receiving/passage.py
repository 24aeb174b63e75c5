"""The passage of received messages through the gate of their endpoint's rate limits.

Which limits a message has is known when it has been received. Its token is taken outside of any transaction that a
handler may prolong. So the receive is rolled back, the tokens are taken, and the same messages are received again. This
process passes over them meanwhile; if another process was faster, the tokens are given back. Messages without a token
leave for the table of delayed messages, in a transaction of their own.

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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.database.sessions import ReceiveSession
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.decisions import LimitedMessage
    from rowbus.transport.limits.gate import Gate
    from rowbus.transport.receiving.receiver import Receiver
    from rowbus.transport.receiving.transactions import NoTransaction, SendsAtomicWithReceive

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
    rows = await _timed(gate, rows, session)
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
        return await _timed(gate, found, session)


async def _defer(
    gate: Gate,
    deferred: Mapping[MessageRow, float],
    limited: Mapping[MessageRow, LimitedMessage[MessageRow]],
    receiver: Receiver,
    session: ReceiveSession,
) -> None:
    """Move messages to the table of delayed messages; one whose time to be received is over by then expires."""
    waits = {row.id: seconds for row, seconds in deferred.items()}
    keys = {row.id: limited[row].buckets[0].key for row in deferred}
    found = await session.begin(gate.receive_these(receiver.address, list(deferred)))
    found = await _timed(gate, found, session)
    now = await session.run(gate.clock()) if any(row.time_left is not None for row in found) else None
    sends = [
        _deferral(row, waits[row.id], keys[row.id], receiver.address, now)
        for row in found
        if not _expires(row, waits[row.id], receiver.address)
    ]
    # One dispatch each: equal message ids collapse in a dispatch, and these rows are to stay as many as they are.
    await session.commit(
        [statement for send in sends for statement in receiver.dispatcher.statements([send])]
    )
    logger.debug("%s messages of %s wait for their turn", len(sends), receiver.address)


async def _timed(gate: Gate, rows: list[MessageRow], session: ReceiveSession) -> list[MessageRow]:
    """Return messages with the time that is left of what their headers say; of most, these say nothing."""
    if not any(Header.EXPIRES in row.headers for row in rows):
        return rows
    now = await session.run(gate.clock())
    return [_with_time_left(row, now) for row in rows]


def _with_time_left(row: MessageRow, now: datetime) -> MessageRow:
    try:
        expires = parse_timestamp(decode_headers(row.headers).get(Header.EXPIRES) or "")
    except (InvalidTimestampError, MalformedHeadersError):
        return row
    return row._replace(time_left=(expires - now).total_seconds())


def _deferral(
    row: MessageRow, seconds: float, key: str, address: QueueAddress, now: datetime | None
) -> DelayedSend:
    headers = decode_headers(row.headers) | {Header.RATE_LIMITED: key}
    if row.time_left is not None and now is not None:
        with suppress(OverflowError):  # after the year 9999
            headers[Header.EXPIRES] = format_timestamp(now + timedelta(seconds=row.time_left))
    return DelayedSend(address, OutgoingMessage(headers, row.body or b""), timedelta(seconds=seconds))


def _expires(row: MessageRow, seconds: float, address: QueueAddress) -> bool:
    if row.time_left is None or row.time_left > seconds:
        return False
    logger.info("Row %s of %s expires before its rate limit has a turn for it", row.id, address)
    return True
