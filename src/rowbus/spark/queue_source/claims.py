"""Claims of a query: take messages, acknowledge them, return those of ended leases; and the session that holds them.

`ack` also finishes a run that Spark has left: the offsets of its checkpoint name the queue, the consumer and the claim.

The session of a receiving query has its connection, the consumer's lock, and the thread that extends its leases. It
lives in the process that Spark keeps beside the driver while the query runs, and dies with it: the server then frees
the lock, and the leases end.

Invariants: each function commits one transaction or changes nothing, and repeating it changes nothing. While the thread
runs and the database can be reached, no lease of the consumer ends.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from rowbus.database.postgresql.database import Database
from rowbus.errors import (
    ConfigurationError,
    ConnectionLostError,
    ConsumerBusyError,
    LeaseLostError,
    RowbusError,
    TransactionConflictError,
)
from rowbus.messages.address import QueueAddress
from rowbus.running.critical import Outage
from rowbus.spark.queue_source.claim_table import ClaimTable, find_expired, put_back
from rowbus.spark.schema import ensure

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from rowbus.database.postgresql.connection import Session
    from rowbus.spark.queue_source.claim_table import Terms

logger = logging.getLogger("rowbus.spark")

T = TypeVar("T")

RETRIES = 5
PAUSE = 0.1  # seconds before the first retry, twice as long before each next, and between looks at a lock
BEATS = 4  # extensions in the time of a lease


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


class LeaseKeeper:
    """A session with the consumer's lock; opened when first needed, and again after it was lost."""

    def __init__(self, database: Database, table: ClaimTable, lease: timedelta, lock_timeout: float) -> None:
        """Take the settings. No I/O; times in seconds."""
        self._database = database
        self._table = table
        self._lease = lease
        self._lock_timeout = lock_timeout
        self._stack = ExitStack()
        self._session: Session | None = None
        self._stopped = threading.Event()
        self._outage = Outage(f"Claiming from {table.address}", logger)
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[Session], T]) -> T:
        """Run idempotent work on the session; reconnects a few times after a lost connection.

        Raises ConsumerBusyError when another query has the lock.
        """
        for attempt in range(RETRIES):
            try:
                return self._tried(work)
            except TransactionConflictError:
                pass
            except ConnectionLostError:
                self._drop()
                time.sleep(PAUSE * 2**attempt)
        return self._tried(work)

    def close(self) -> None:
        """Free the lock, and stop extending the leases."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._drop()

    def _tried(self, work: Callable[[Session], T]) -> T:
        try:
            done = work(self._session or self._open())
        except (ConnectionLostError, TransactionConflictError) as error:
            self._outage.failed(error)
            raise
        self._outage.succeeded()
        return done

    def _open(self) -> Session:
        session = self._stack.enter_context(self._database.session())
        try:
            ensure(session)
            self._lock(session)
            session.run(self._table.extend(self._lease))
        except BaseException:
            self._drop()
            raise
        self._session = session
        self._start_beating()
        return session

    def _drop(self) -> None:
        self._session = None
        self._stack.close()

    def _lock(self, session: Session) -> None:
        """Wait for the lock: the session of a killed query takes a moment to end."""
        deadline = time.monotonic() + self._lock_timeout
        while not session.run(self._table.lock_consumer()):
            if time.monotonic() > deadline:
                raise ConsumerBusyError(
                    f"Another query reads {self._table.address} as consumer {self._table.consumer!r}; "
                    f"stop it, or give this one a consumer and a checkpoint of its own.",
                    queue=self._table.address.canonical,
                    consumer=self._table.consumer,
                )
            time.sleep(PAUSE)

    def _start_beating(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="rowbus leases", daemon=True)
            self._thread.start()

    def _beat(self) -> None:
        """Extend the leases in a loop, on a connection of the thread's own; waits out an outage."""
        pause = self._lease.total_seconds() / BEATS
        outage = Outage(f"Extending the leases on {self._table.address}", logger)
        while not self._stopped.is_set():
            try:
                with self._database.session() as session:
                    outage.succeeded()
                    while not self._stopped.wait(pause):
                        session.run(self._table.extend(self._lease))
            except RowbusError as error:
                outage.failed(error)
                self._stopped.wait(min(pause, 1))
