"""An event on its way to its subscribers, each of which gets a copy.

Where the database can, one statement sends many copies. It fails as a whole, and cannot say because of which queue; so
the copies are then sent one by one, and that fails with the name of the queue, and what to do. Or it succeeds, where
the plan of the one statement was gone, discarded behind the driver's back.

Invariant: all subscribers get a copy, or none does and the caller's transaction goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import StorageError
from rowbus.transport.queues.table import destination_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.blocking import UserSession
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage

_OF_NO_QUEUE: Final = ("25", "57")  # the transaction had failed before; a user or a timeout cancelled it


class Publication(NamedTuple):
    """An event, what keeps its values, the question who subscribes to it, and whether receivers are woken."""

    event: OutgoingMessage
    kept: Sequence[Statement[None]]
    subscribers: Statement[tuple[QueueAddress, ...]]
    notify: bool

    @property
    def message_id(self) -> str:
        """The id that all copies have."""
        return self.event.message_id

    def together(self, addresses: Sequence[QueueAddress]) -> list[Statement[None]]:
        """Return the statements that send a copy to each of these queues, in as few as the database can."""
        tables = [destination_table(each) for each in addresses]  # raises for names that no queue can have
        together = tables[0].send_together(self.event, addresses, notify=self.notify) if tables else []
        return [*self.kept, *together] if together else self.one_by_one(addresses)

    def one_by_one(self, addresses: Sequence[QueueAddress]) -> list[Statement[None]]:
        """Return a statement for each of these queues, whose failure names it; the last wakes all receivers."""
        if not addresses:
            return []
        first, *others = [destination_table(each) for each in addresses]
        sent = first.send(self.event, notify=False)
        woken = first.notify_all(addresses) if self.notify else ()
        return [*self.kept, sent, *(table.send_copy(sent) for table in others), *woken]


async def publish(session: UserSession, publication: Publication) -> None:
    """Ask who subscribes and send the copies, in the session's transaction; raises as `Client.publish`."""
    try:
        await session.run(publication.subscribers, then=publication.together)
    except StorageError as error:
        if not _may_be_a_queues(error):
            raise
        await session.run(publication.subscribers, then=publication.one_by_one)


def _may_be_a_queues(error: StorageError) -> bool:
    """Say whether the statements of single queues could tell more of an error, or succeed."""
    return not error.transient and not (error.sqlstate or "").startswith(_OF_NO_QUEUE)
