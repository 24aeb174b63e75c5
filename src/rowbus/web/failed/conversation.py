"""The messages of a conversation that can still be found: in the error queue, and among the newest of the audit queue.

Invariant: bounded in messages and in time; what was not looked at is said.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import QueueNotFoundError, StorageError
from rowbus.transport.queues.catalog.looking import NotLookedAtError, look, looking
from rowbus.transport.recoverability.failures.search import Search
from rowbus.transport.recoverability.failures.table import Copy, failures_table
from rowbus.transport.recoverability.table import error_queue_table
from rowbus.web.failed.diagram import Diagram, drawn
from rowbus.web.failed.story import Step, in_order, step

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failures.index import FailureIndex

MOST: Final = 60
LOOKED_AT: Final = 20_000  # newest messages of the audit queue
SECONDS: Final = 1.0


class Conversation(NamedTuple):
    """Messages in the order in which they were sent, their drawing, and a note of what was looked at."""

    steps: list[Step]
    diagram: Diagram
    note: str


def conversation(
    session: Session, index: FailureIndex, identity: str, audit: QueueAddress, *, this: str
) -> Conversation | None:
    """Find the messages of a conversation; `this` is the row that is looked at. None without an id."""
    if not identity or "\0" in identity:
        return None
    failed = list(islice(Search(conversation=identity).among(index.failures), MOST))
    asked = error_queue_table(index.address).headers([one.failed.row_id for one in failed])
    rows = look(session, index.address, asked)
    copies, note = _audited(session, audit, identity)
    steps = in_order(
        [
            *(step(row.headers, row_id=row.id, is_this=row.id == this) for row in rows),
            *(step(copy.headers) for copy in copies),
        ]
    )
    return Conversation(steps[:MOST], drawn(steps[:MOST]), note)


def _audited(session: Session, audit: QueueAddress, identity: str) -> tuple[list[Copy], str]:
    table = failures_table(audit)
    try:
        with looking(session, audit):
            session.run(table.bound_time(SECONDS))
            found = session.run(table.newest_with(identity, looked_at=LOOKED_AT, most=MOST))
    except QueueNotFoundError:
        return [], f"There is no audit queue {audit}: only messages that failed are shown."
    except (NotLookedAtError, StorageError) as error:
        return (
            [],
            f"The audit queue could not be looked into, so only messages that failed are shown: {error}",
        )
    return found, f"Processed messages are found among the newest {LOOKED_AT:,} of {audit}."
