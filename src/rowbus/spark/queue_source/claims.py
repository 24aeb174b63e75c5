"""Claims: take messages, acknowledge them, and return those of ended leases to their queue.

`ack` also finishes a run that Spark has left: the offsets of its checkpoint name the queue, the consumer and the
claim.

Invariant: each function commits one transaction or changes nothing, and repeating it changes nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError, LeaseLostError, RowbusError
from rowbus.messages.address import QueueAddress
from rowbus.spark.queue_source.claim_table import ClaimTable, find_expired, put_back

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.database.postgresql.connection import Session
    from rowbus.spark.queue_source.claim_table import Terms

logger = logging.getLogger("rowbus.spark")


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """A claim as an offset names it: its number and how many messages it holds."""

    number: int
    messages: int


def adopt_next(session: Session, table: ClaimTable, after: int, lease: timedelta) -> QueueClaim | None:
    """Adopt the claim that follows one, if it was made before a crash; else free its number.

    Raises ConfigurationError when the consumer has acknowledged more than the checkpoint.
    """
    with session.transaction():
        _refuse_older_checkpoint(table, after, session.run(table.register(after)))
        messages = session.run(table.adopt(after + 1, lease))
        if messages is None:
            session.run(table.forget_returned(after + 1))
    return None if messages is None else QueueClaim(after + 1, messages)


def take_next(session: Session, table: ClaimTable, after: int, terms: Terms) -> QueueClaim | None:
    """Move messages from the queue into the claim that follows one; None if there are none."""
    while True:
        found = session.run(table.take(after + 1, terms))
        if found.claimed:
            return QueueClaim(after + 1, found.claimed)
        if not found.taken:
            return None


def _refuse_older_checkpoint(table: ClaimTable, after: int, acked: int) -> None:
    if acked > after:
        raise ConfigurationError(
            f"Consumer {table.consumer!r} of {table.address} has acknowledged claim {acked}, but the checkpoint ends "
            f"with {after}: it is older, or another checkpoint's. Start this query with a consumer of its own."
        )


def acknowledge(session: Session, table: ClaimTable, number: int) -> None:
    """End the claims up to one, whose batches Spark has committed.

    Raises LeaseLostError, once, for claims that had returned to the queue: their messages may be delivered twice.
    """
    with session.transaction():
        lost = session.run(table.ack(number))
        session.run(table.prune(number))
    if lost:
        raise lease_lost(table, lost)


def ack(session: Session, consumer: str, queue: str, claim: int) -> None:
    """Acknowledge a claim that a checkpoint has committed; the checkpoint's offset has all three arguments.

    For runs that have ended, whose last batch Spark never acknowledges. Safe at any time, and to repeat.
    """
    acknowledge(session, ClaimTable(QueueAddress.parse(queue), consumer), claim)


def lease_lost(table: ClaimTable, numbers: list[int]) -> LeaseLostError:
    """Return the error for claims that returned to the queue while a query processed them."""
    named = ", ".join(map(str, numbers))
    return LeaseLostError(
        f"The lease of claim {named} of consumer {table.consumer!r} ended, and its messages went back to the queue "
        f"{table.address}: they may be delivered twice. To go on without them, start the query once with "
        f"failOnLeaseLoss=false; a longer leaseMs makes this rarer.",
        queue=table.address.canonical,
        claim=numbers[0],
    )


def return_expired(session: Session, own: ClaimTable | None = None) -> int:
    """Return the messages of claims whose lease ended to their queues, except those of `own`; return how many.

    A queue that was dropped is skipped with a warning.
    """
    messages, failed = 0, list[int]()
    while (returned := _return_one(session, own, failed)) is not None:
        messages += returned
    return messages


def _return_one(session: Session, own: ClaimTable | None, failed: list[int]) -> int | None:
    """Return one claim to its queue, or add its id to `failed` if that is impossible. None when none is left."""
    claim = None
    try:
        with session.transaction():
            claim = session.run(find_expired(failed, own))
            if claim is None:
                return None
            messages = session.run(put_back(claim))
    except RowbusError as error:
        if claim is None or getattr(error, "transient", False):
            raise
        failed.append(claim.id)
        logger.warning("%d's messages could not go back to %s: %s", claim.id, claim.address, error)
        return 0
    logger.warning(
        "The lease of claim %d of consumer %r ended: %d messages went back to %s",
        claim.number,
        claim.consumer,
        messages,
        claim.address,
    )
    return messages
