"""The session of a receiving query: its connection, the consumer's lock, and the thread that extends its leases.

It lives in the process that Spark keeps beside the driver while the query runs, and dies with it: the server then
frees the lock, and the leases end.

Invariant: while the thread runs and the database can be reached, no lease of the consumer ends.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, TypeVar

from rowbus.errors import ConnectionLostError, ConsumerBusyError, RowbusError, TransactionConflictError
from rowbus.spark.schema import ensure

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.postgresql.database import Database
    from rowbus.spark.queue_source.claim_table import ClaimTable

logger = logging.getLogger("rowbus.spark")
T = TypeVar("T")

RETRIES = 5
PAUSE = 0.1  # seconds before the first retry, twice as long before each next, and between looks at a lock
BEATS = 4  # extensions in the time of a lease


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
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[Session], T]) -> T:
        """Run idempotent work on the session; reconnects a few times after a lost connection.

        Raises ConsumerBusyError when another query has the lock.
        """
        for attempt in range(RETRIES):
            try:
                return work(self._session or self._open())
            except TransactionConflictError as error:
                logger.warning("Queue %s: %s", self._table.address, error)
            except ConnectionLostError as error:
                self._drop()
                logger.warning("Queue %s: %s", self._table.address, error)
                time.sleep(PAUSE * 2**attempt)
        return work(self._session or self._open())

    def close(self) -> None:
        """Free the lock, and stop extending the leases."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        self._drop()

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
        while not self._stopped.is_set():
            try:
                with self._database.session() as session:
                    while not self._stopped.wait(pause):
                        session.run(self._table.extend(self._lease))
            except RowbusError as error:
                logger.warning("The leases on %s could not be extended: %s", self._table.address, error)
                self._stopped.wait(min(pause, 1))
