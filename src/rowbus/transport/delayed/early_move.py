"""A delayed message is moved to its queue before it is due, because a person says so.

Invariant: in the transaction of its runner, and under the locks that movers take, so that nothing goes twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.transport.delayed.policy import by_route
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.steps import Steps
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.delayed.table import DelayedTable
    from rowbus.transport.queues.destination_rule import Destinations


def send_now(
    table: DelayedTable,
    own: QueueAddress,
    destinations: Destinations,
    message_id: str,
    due: datetime | None = None,
) -> Steps[int]:
    """Move the message of this id to its queue, as the mover would when it is due; say how many rows: 1, or 0.

    To be run in a transaction. 0: it is not there, or a mover has it in its hands; that is passed over, never waited
    for. One that does not say where it goes goes to the endpoint's `own` queue, which forwards it. The time when it is
    `due` saves reading the whole table. Raises DestinationRefusedError, QueueNotFoundError or StorageError when it
    cannot go where it should: once that is rolled back, it waits on.
    """
    taken = yield table.take(message_id, due)
    for route, ids in by_route(taken, table.address).items():
        if route is None:
            yield table.move(ids, own)
            continue
        destinations.require_allowed(route.destination)
        if not destinations.knows(route.destination):
            destinations.judge(route.destination, (yield queue_table(route.destination).is_queue()))
        yield table.move(ids, *route)
    return len(taken)
