"""The table of an endpoint's running work: the operations on it, and the lease by which a process holds a row.

A row comes from the queue in the transaction that receives its message. A process takes it with a lease and an epoch;
one whose lease is over is taken by another, under the next epoch. What a process commits for a row it commits with a
look at the epoch, under the row's lock: so who was too late commits nothing.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.errors import ConfigurationError, WorkCancelledError
from rowbus.transport.queues.records.table import OwnTable, RecordStatements

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress

RUNNING: Final = "Running"
"""The qualifier of the table: `Sales.Running`."""


COLUMNS: Final = {
    "id": "pg_catalog.uuid",
    "seq": "pg_catalog.int8",
    "queue": "pg_catalog.text",
    "headers": "pg_catalog.text",
    "body": "pg_catalog.bytea",
    "failures": "pg_catalog.int4",
    "epoch": "pg_catalog.int4",
    "lease": "pg_catalog.timestamptz",
    "process": "pg_catalog.text",
    "since": "pg_catalog.timestamptz",
    "progress": "pg_catalog.float8",
    "note": "pg_catalog.text",
    "cancelled_by": "pg_catalog.text",
    "cancelled_why": "pg_catalog.text",
}
"""By which such tables are found, whoever made them."""


class Work(NamedTuple):
    """A row that a process has taken."""

    id: str
    queue: str
    """The queue that its message was received from, as its address is written in headers."""
    headers: str
    body: bytes
    failures: int
    epoch: int
    is_lost: bool = False
    """Whether another process had it, whose lease is over."""
    server: datetime | None = None
    """Since when the server runs that gave it."""


class Cancelling(NamedTuple):
    """A person who wants work to end, and why."""

    by: str
    why: str

    def error(self) -> WorkCancelledError:
        """Return the failure of a message whose handler was ended."""
        return WorkCancelledError(f"Cancelled by {self.by}: {self.why}")


class WorkStatus(NamedTuple):
    """The state of a message whose handler takes long, from its move out of the queue to the handler's end.

    `fraction` and `note` are what the handler said last with `LongContext.progress`; None: nothing so far.
    """

    endpoint: str
    message_id: str
    types: str
    """Its wire names, as its header has them."""
    process: str | None
    """The process that has it, as machine/pid; None while it waits for one."""
    since: datetime | None
    """When that process took it; aware."""
    failures: int
    """Attempts that failed before this one."""
    fraction: float | None
    note: str | None
    cancelled_by: str | None
    """The person who has asked for its end."""


class LongWorkTable(RecordStatements):
    """Statements on the table of an endpoint's running work; each runs in its runner's transaction."""

    folder = "transport/long_work"
    variable = "running"
    remedy = (
        "the table does not exist; starting an endpoint with a handler that takes long creates it, as does "
        "`rowbus schema install MODULE:ENDPOINT`."
    )

    def put(self, work: Work) -> Statement[None]:
        """Put a message here, in the transaction that takes it from its queue."""
        raise NotImplementedError

    def take(self, count: int, process: str, lease: timedelta) -> Statement[list[Work]]:
        """Take rows that nobody holds, the oldest first. Locks them, and passes over those that are locked."""
        raise NotImplementedError

    def renew(self, work: Sequence[Work], lease: timedelta) -> Statement[dict[str, Cancelling | None]]:
        """Hold rows for longer; return those that are still this process's, by their ids, and who cancels them.

        Waits for no lock: a row that is locked stays as it is, and nobody can take it meanwhile.
        """
        raise NotImplementedError

    def hold(self, work: Work, lease: timedelta) -> Statement[bool]:
        """Keep a row from others while this transaction is open; say whether it is still this process's.

        The server ends the session when it is silent for as long as a lease.
        """
        raise NotImplementedError

    def fail(self, work: Work) -> Statement[bool]:
        """Count a failed attempt; say whether the row is still this process's."""
        raise NotImplementedError

    def release(self, work: Sequence[Work]) -> Statement[None]:
        """Let go of rows: another process takes them."""
        raise NotImplementedError

    def remove(self, work: Work) -> Statement[None]:
        """Delete the row of work that is done."""
        raise NotImplementedError

    def finish(self, work: Sequence[Work]) -> Statement[set[str]]:
        """Delete the rows of work that is done; return the ids of those that were still held, and that are deleted.

        Waits for no lock: a row that is locked stays.
        """
        raise NotImplementedError

    def progress(self, work: Work, fraction: float, note: str) -> Statement[bool]:
        """Note how far work is; say whether the row is still this process's."""
        raise NotImplementedError

    def list(self) -> Statement[list[WorkStatus]]:
        """Return all running work, the oldest first. Locks nothing."""
        raise NotImplementedError

    def status(self, message_id: str) -> Statement[WorkStatus | None]:
        """Return how a message stands, None if it is not here. Locks nothing."""
        raise NotImplementedError

    def cancel(self, message_id: str, cancelling: Cancelling) -> Statement[Sequence[str]]:
        """Ask the process that has a message to end its work; say who asked first, once for each row of this id."""
        raise NotImplementedError


def long_work_table(address: QueueAddress) -> LongWorkTable:
    """Return the statements on a table of running work. No I/O."""
    table: LongWorkTable = bound_table("rowbus.transport.long_work", "LongWorkTable", address)
    return table


def own_long_work(address: QueueAddress) -> OwnTable:
    """Return a table of running work as an endpoint has it."""
    return OwnTable(long_work_table(address), "the table of running work", is_viewed=True)


def long_work_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's running work. Raises ConfigurationError where there can be none."""
    address: QueueAddress = addresses.for_endpoint(endpoint, qualifier=RUNNING)
    if address.backend != "postgresql":
        raise ConfigurationError(
            f"Endpoint {endpoint} has a handler that takes long: they work on PostgreSQL alone."
        )
    return address


def work_status(queue: QueueAddress, message_id: str) -> Statement[WorkStatus | None]:
    """Return the question how far a queue's endpoint is with a message. Raises ConfigurationError on SQL Server."""
    if queue.backend != "postgresql":
        raise ConfigurationError(
            f"There is no running work of {queue}: handlers that take long work on PostgreSQL alone."
        )
    return long_work_table(queue.satellite(RUNNING)).status(message_id)
