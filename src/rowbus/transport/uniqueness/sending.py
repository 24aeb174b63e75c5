"""A unique send: a value is claimed, what an earlier message's claim says is found out, and a message leaves, or not.

The earlier message is asked for where it waits, by the id of its row, which it keeps when it becomes due: so it does
not matter who receives it. It stays locked until the sender's transaction ends: nobody receives it before, and its
handler sees what the sender wrote.

Invariant: all of it is in the sender's transaction; what is rolled back has claimed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import run_steps
from rowbus.errors import ConfigurationError
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header
from rowbus.messages.message import new_message_id
from rowbus.messages.outgoing import UniqueMessageId, decide
from rowbus.transport.claims.table import keeping
from rowbus.transport.uniqueness.table import UniqueSend, claims_of

if TYPE_CHECKING:
    from rowbus.database.statements import Steps, UserSession
    from rowbus.messages.dispatch import AnySend
    from rowbus.messages.outgoing import Claim, SendOutcome, Uniqueness
    from rowbus.transport.uniqueness.table import UniqueTable


def unique_send(send: AnySend, uniqueness: Uniqueness) -> UniqueSend:
    """Return a message with its uniqueness. Raises ConfigurationError for a message with a key, and on SQL Server."""
    if send.message.headers.get(Header.KEY):
        raise ConfigurationError(
            f"The message for {send.destination} has a key, and is to be handled in its order: it cannot be unique, "
            "because another would take its place, or none."
        )
    claims_of(send.destination)
    return UniqueSend(send, uniqueness, new_message_id())


async def leave_once(session: UserSession, unique: UniqueSend, *, notify: bool) -> UniqueMessageId:
    """Send a unique message in the session's transaction, or in one of its own; return the id of what is there then.

    Waits for another transaction that has just sent a message with the same value. Raises QueueNotFoundError and
    StorageError.
    """
    message = unique.send.message
    if (
        not message.kept
        and await session.run(claims_of(unique.send.destination).send(unique, notify=notify)) is None
    ):
        return UniqueMessageId(message.message_id, "sent")
    async with session.transaction():  # a claim of an autocommitted statement is locked no more
        return await run_steps(session, leaving(unique, notify=notify))


def leaving(unique: UniqueSend, *, notify: bool) -> Steps[UniqueMessageId]:
    """Do what `leave_once` does, in the transaction that the session is in."""
    table, send = claims_of(unique.send.destination), unique.send
    value, _within, on_conflict = unique.uniqueness
    outcome: SendOutcome = "sent"
    claim = yield table.send(unique, notify=notify)
    if claim is not None:
        waits, is_due = yield from _find(table, claim)
        outcome = decide(claim, on_conflict, waits=waits, is_due=is_due)
        if outcome == "kept":
            return UniqueMessageId(claim.message_id, outcome)
        if outcome == "postponed" and isinstance(send, DelayedSend):
            yield table.postpone(claim.row_id, send.due)
            return UniqueMessageId(claim.message_id, outcome)
        if outcome == "replaced":
            yield table.remove(claim.row_id, is_due=is_due)
        yield table.release(value)
        yield table.send(unique, notify=notify)
    yield from keeping(send.message, send.due if isinstance(send, DelayedSend) else None)
    return UniqueMessageId(send.message.message_id, outcome)


def _find(table: UniqueTable, claim: Claim) -> Steps[tuple[bool, bool]]:
    """Lock the message of a claim where it waits; say whether it does, and whether it is due.

    The table of delayed messages is asked first: what is being moved is waited for, and then is in the queue.
    """
    if claim.is_delayed and (yield table.find_delayed(claim.row_id)):
        return True, False
    return (yield table.find(claim.row_id)), True
