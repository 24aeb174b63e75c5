"""A stream of a queue's messages: Spark is one of the queue's competing consumers.

An offset names a claim: `{"claim": 3, "consumer": …, "messages": 1000, "queue": …}`. `latestOffset` makes the claim,
executors read it, and it ends when Spark has committed the batch. `read` runs in executors, on a pickled copy;
everything else runs in one process beside the driver.

Invariant: a batch is always exactly one claim, so every attempt at it reads the same messages; no claim ends before
Spark's commit log has its batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from rowbus.database.postgresql.arrow import Access
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, LeaseLostError, RowbusError
from rowbus.running.critical import Outage
from rowbus.spark.queue_source.claim_table import ClaimTable, Terms
from rowbus.spark.queue_source.claims import (
    LeaseKeeper,
    QueueClaim,
    acknowledge,
    adopt_next,
    lease_lost,
    return_expired,
    take_next,
)
from rowbus.spark.queue_source.rows import read_rows
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START

if TYPE_CHECKING:
    import pyarrow as pa

    from rowbus.database.postgresql.connection import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.spark.queue_source.rows import Shape

Offset = dict[str, Any]

logger = logging.getLogger("rowbus.spark")

RETURN_EVERY: Final = 30.0  # seconds between looks for ended leases
REPORT_EVERY: Final = 5.0  # seconds between counts of pending messages
MOST_COUNTED: Final = 100_000


@dataclass(frozen=True, slots=True)
class ReceiveSettings:
    """The options, with names resolved; times in seconds unless they are timedeltas."""

    dsn: str
    address: QueueAddress
    consumer: str
    shape: Shape
    reader: str
    max_per_trigger: int
    max_per_partition: int
    lease: timedelta
    fail_on_lease_loss: bool
    archive: bool
    release_on_offset: bool
    poll_interval: float
    lock_timeout: float


@dataclass
class ClaimSlice(InputPartition):
    """A slice of a claim: the messages after one position up to another."""

    number: int
    after: int
    upto: int


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Receives from one queue."""

    def __init__(self, settings: ReceiveSettings) -> None:
        """Take the settings; connects when Spark asks for the first offset."""
        self._settings = settings
        self._table = ClaimTable(settings.address, settings.consumer)
        self._keeper: LeaseKeeper | None = None
        self._outage = Outage(f"Acknowledging claims on {settings.address}", logger)
        self._acked = 0
        self._last: int | None = None
        self._settled: tuple[int, Session] | None = None
        self._look_again = self._return_again = self._count_again = 0.0
        self._waiting = 0

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection and its thread: executors only read."""
        return {**self.__dict__, "_keeper": None, "_settled": None}

    # --- beside the driver

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read up to the newest message of now, those of ended leases included; later ones are for the next run."""
        self._return_expired()
        newest = self._hold().run(lambda session: session.run(self._table.find_last_seq()))
        self._last = FROM_THE_START if newest is None else newest

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Take at most `maxOffsetsPerTrigger` messages for a batch."""
        return ReadMaxRows(self._settings.max_per_trigger)

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Begin after the last claim that the consumer has acknowledged."""
        acked = self._hold().run(lambda session: session.run(self._table.register(0)))
        return self._offset(acked, 0)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Claim messages for the next batch, or adopt the claim made before a crash; `start` if there is none.

        Spark has committed all batches up to `start`, so their claims end here.
        """
        after = self._number(start)
        if self._settings.release_on_offset:
            self._ack(after)
        self._return_expired()
        self._await_next_look()
        terms = Terms(self._most(limit), self._last, self._settings.lease, self._settings.archive)
        claim = self._hold().run(lambda session: self._claim(session, after, terms))
        if claim is None:
            self._look_again = time.monotonic() + self._settings.poll_interval
            return start
        return self._offset(claim.number, claim.messages)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        """Report how many messages are pending, counted at intervals, up to a hundred thousand."""
        if time.monotonic() >= self._count_again:
            count = QueueTable(self._settings.address).count_available(MOST_COUNTED, FROM_THE_START)
            self._waiting = self._hold().run(lambda session: session.run(count))
            self._count_again = time.monotonic() + REPORT_EVERY
        return {**self._offset(self._acked, 0), "waiting": self._waiting}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut the claim of a batch into slices, the same at each call."""
        number, messages = self._number(end), int(end["messages"])
        if start == end:
            return []
        # The first batch of a checkpoint, replayed after it was acknowledged: the consumer now begins after its claim.
        acknowledged = self._number(start) == number and not start["messages"]
        if not acknowledged and number != self._number(start) + 1:
            raise ConfigurationError(f"The checkpoint does not fit: claim {number} does not follow {start}.")
        self._hold().run(lambda _session: None)  # a replay begins here: keep its lease
        size = self._settings.max_per_partition
        return [ClaimSlice(number, at, min(at + size, messages)) for at in range(0, messages, size)]

    def commit(self, end: Offset) -> None:
        """End the claims whose batches Spark has committed; after an outage the next call does it."""
        try:
            self._ack(self._number(end))
        except LeaseLostError:
            raise
        except RowbusError as error:
            self._outage.failed(error)
        else:
            self._outage.succeeded()

    def stop(self) -> None:
        """Free the consumer for another query."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None

    # --- in executors

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a slice of a claim; all its messages or, when they went back to the queue, none."""
        assert isinstance(partition, ClaimSlice)  # noqa: S101 - Spark gives back what `partitions` made
        settings = self._settings
        query = self._table.read(partition.number, partition.after, partition.upto)
        rows = 0
        access = Access(settings.dsn, settings.reader)
        for batch in read_rows(access, query, settings.address.canonical, settings.shape):
            rows += batch.num_rows
            yield batch
        if rows != partition.upto - partition.after:
            self._lost(lease_lost(self._table, [partition.number]))

    # --- parts

    def _hold(self) -> LeaseKeeper:
        if self._keeper is None:
            settings = self._settings
            database = Database(settings.dsn, application_name=f"rowbus spark {settings.consumer}")
            self._keeper = LeaseKeeper(database, self._table, settings.lease, settings.lock_timeout)
        return self._keeper

    def _claim(self, session: Session, after: int, terms: Terms) -> QueueClaim | None:
        """Adopt the claim made before a crash, or take a new one; a session looks for the former once."""
        if self._settled != (after, session):
            if (claim := adopt_next(session, self._table, after, terms.lease)) is not None:
                return claim
            self._settled = (after, session)
        claim = take_next(session, self._table, after, terms)
        if claim is not None:
            self._settled = None
        return claim

    def _ack(self, number: int) -> None:
        if number <= self._acked:
            return
        try:
            self._hold().run(lambda session: acknowledge(session, self._table, number))
        except LeaseLostError as error:
            self._lost(error)
        self._acked = number

    def _lost(self, error: LeaseLostError) -> None:
        if self._settings.fail_on_lease_loss:
            raise error
        logger.warning("%s", error)

    def _return_expired(self) -> None:
        """At intervals, return the messages of ended leases to their queues."""
        if time.monotonic() >= self._return_again:
            self._hold().run(lambda session: return_expired(session, self._table))
            self._return_again = time.monotonic() + RETURN_EVERY

    def _await_next_look(self) -> None:
        """Wait before the next look at an empty queue: Spark asks a hundred times a second."""
        time.sleep(max(0.0, self._look_again - time.monotonic()))

    def _most(self, limit: ReadLimit | None) -> int | None:
        if isinstance(limit, ReadAllAvailable):
            return None
        return limit.max_rows if isinstance(limit, ReadMaxRows) else self._settings.max_per_trigger

    def _offset(self, number: int, messages: int) -> Offset:
        settings = self._settings
        return {
            "claim": number,
            "consumer": settings.consumer,
            "messages": messages,
            "queue": settings.address.canonical,
        }

    def _number(self, offset: Mapping[str, Any]) -> int:
        """Return the claim an offset names; raises ConfigurationError for one of another queue or consumer."""
        found, wanted = (
            (offset["queue"], offset["consumer"]),
            (self._settings.address.canonical, self._settings.consumer),
        )
        if found != wanted:
            raise ConfigurationError(
                f"The checkpoint is of queue {found[0]} and consumer {found[1]!r}, not of {wanted[0]} and "
                f"{wanted[1]!r}; start with a new checkpoint."
            )
        return int(offset["claim"])
