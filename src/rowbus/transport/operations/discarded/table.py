"""The table of discarded messages: what one operation discarded is brought back together, for a week.

Invariants: a message is in its error queue or here, at any time; what is brought back goes to the queue that it left,
if that is still one of a trusted owner. Each discard forgets what is older than a week.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.backends import bound_table
from rowbus.database.statements import BlockingSession, run_now, run_steps_now
from rowbus.errors import QueueNotFoundError
from rowbus.transport.operations.table import operations_table
from rowbus.transport.queues.catalog.looking import NotLookedAtError, is_there, refuse_strangers
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.records.table import RecordStatements
from rowbus.transport.queues.table import find_queues

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress

DISCARDED: Final = "Rowbus.Discarded"
"""The name of the table, in the schema of names that are given without one."""

KEPT_DAYS: Final = 7
MOST_LISTED: Final = 1_000


class DiscardedMessages(NamedTuple):
    """The part of one queue in what one operation discarded, and when."""

    operation: str
    queue: str
    messages: int
    at: datetime


class DiscardedTable(RecordStatements):
    """Statements on the table of discarded messages; each runs in its runner's transaction."""

    folder = "transport/operations/discarded"
    variable = "discarded"
    remedy = (
        "the table does not exist; the first discard creates it, if its role may, and "
        "`rowbus schema grants --web --role ROLE` prints it."
    )

    def keep(self, operation: str, queue: QueueAddress, row_ids: Sequence[str]) -> Statement[int]:
        """Move rows of a queue here and say how many; passes over those that are gone or in flight."""
        raise NotImplementedError

    def bring_back(self, operation: str, queue: QueueAddress) -> Statement[int]:
        """Move what an operation discarded back to its queue, and say how many messages that were."""
        raise NotImplementedError

    def forget(self) -> Statement[int]:
        """Delete what is older than a week; passes over what another one deletes."""
        raise NotImplementedError

    def list(self, most: int) -> Statement[list[DiscardedMessages]]:
        """Return what can be brought back, the latest first."""
        raise NotImplementedError


class Keep(NamedTuple):
    """Where an operation puts what it discards."""

    table: DiscardedTable
    operation: str

    def take(self, queue: QueueAddress, row_ids: Sequence[str]) -> Statement[int]:
        """Move rows of a queue there, and say how many."""
        return self.table.keep(self.operation, queue, row_ids)


def discarded_table(address: QueueAddress) -> DiscardedTable:
    """Return the statements on a table of discarded messages. No I/O."""
    table: DiscardedTable = bound_table("rowbus.transport.operations.discarded", "DiscardedTable", address)
    return table


def discarded_address(addresses: Addresses) -> QueueAddress:
    """Return the table of discarded messages of a database."""
    return addresses.for_endpoint(DISCARDED)


def find_obstacle(session: Session, addresses: Addresses) -> str:
    """Say why nothing that is discarded can be kept, and what to do; an empty text if it can be."""
    if addresses.backend != "postgresql":
        return "this database keeps nothing that is discarded; `rowbus errors discard` deletes it for good."
    table = discarded_table(discarded_address(addresses))
    try:
        is_there(session, table)
    except NotLookedAtError as error:
        return str(error)
    if session.run(table.can_be_changed()):
        return ""
    role = session.run(operations_table(addresses).role())
    return (
        f"the role {role} needs SELECT, INSERT, UPDATE and DELETE on {table.address}, which keeps it for a week; "
        f"`rowbus schema grants --web --role {role}` prints what the owner is to run."
    )


def begin_to_keep(session: Session, addresses: Addresses, operation: str) -> Keep:
    """Prepare to keep what an operation discards; create the table if it is missing. Raises StorageError."""
    table = discarded_table(discarded_address(addresses))
    if not session.run(table.exists()):
        run_now(make_table(BlockingSession(session), table))
    refuse_strangers(session, table.address)
    session.run(table.forget())
    return Keep(table, operation)


def find_discarded(session: Session, addresses: Addresses) -> list[DiscardedMessages]:
    """Return what can be brought back, the latest first; nothing where nothing was discarded. Raises StorageError."""
    table = discarded_table(discarded_address(addresses))
    if addresses.backend != "postgresql" or not session.run(table.exists()):
        return []
    refuse_strangers(session, table.address)
    return session.run(table.list(MOST_LISTED))


def bring_back(session: Session, addresses: Addresses, discarded: DiscardedMessages) -> int:
    """Put messages back into the queue that they left, and say how many; raises QueueNotFoundError if it is gone."""
    table = discarded_table(discarded_address(addresses))
    queue = addresses.parse(discarded.queue)
    if not run_steps_now(session, find_queues([queue])).get(queue):
        raise QueueNotFoundError(
            f"There is no queue {queue} any more; create it, and bring its messages back then.",
            queue=str(queue),
        )
    refuse_strangers(session, queue)
    return session.run(table.bring_back(discarded.operation, queue))
