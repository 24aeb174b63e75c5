"""The passage of received messages through the gate of their endpoint's rate limits.

Which limits a message has is known when it has been received. Its token is taken outside of any transaction that a
handler may prolong. So the receive is rolled back, the tokens are taken, and the same messages are received again. This
process passes over them meanwhile; if another process was faster, the tokens are given back. Messages without a token
leave for the table of delayed messages, in a transaction of their own.

Invariant: a message is in its queue or in the table of delayed messages at any time; deferring counts no attempt.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.message import OutgoingMessage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.sessions import ReceiveSession
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.decisions import Limited
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

    Without limits they stay in hand. Raises StorageError; then nothing is in hand.
    """
    limited = await gate.limited(rows, session)
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
        return found


async def _defer(
    gate: Gate,
    deferred: Mapping[MessageRow, float],
    limited: Mapping[MessageRow, Limited[MessageRow]],
    receiver: Receiver,
    session: ReceiveSession,
) -> None:
    """Move messages to the table of delayed messages; one whose time to be received is over by then expires."""
    waits = {row.id: seconds for row, seconds in deferred.items()}
    keys = {row.id: limited[row].buckets[0].key for row in deferred}
    found = await session.begin(gate.receive_these(receiver.address, list(deferred)))
    sends = [
        _deferral(row, waits[row.id], keys[row.id], receiver.address)
        for row in found
        if not _expires(row, waits[row.id], receiver.address)
    ]
    # One dispatch each: equal message ids collapse in a dispatch, and these rows are to stay as many as they are.
    await session.commit(
        [statement for send in sends for statement in receiver.dispatcher.statements([send])]
    )
    logger.debug("%s messages of %s wait for their turn", len(sends), receiver.address)


def _deferral(row: MessageRow, seconds: float, key: str, address: QueueAddress) -> DelayedSend:
    headers = decode_headers(row.headers) | {Header.RATE_LIMITED: key}
    return DelayedSend(address, OutgoingMessage(headers, row.body or b""), timedelta(seconds=seconds))


def _expires(row: MessageRow, seconds: float, address: QueueAddress) -> bool:
    if row.time_left is None or row.time_left > seconds:
        return False
    logger.info("Row %s of %s expires before its rate limit has a turn for it", row.id, address)
    return True
