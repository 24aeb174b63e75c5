"""The queues of answers in a database, and the lock by which each is owned: the operations, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rowbus.database.backends import bound_table

if TYPE_CHECKING:
    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress


class AnswerQueue(Protocol):
    """Statements on one queue of answers beyond those of every queue; none waits."""

    def own(self) -> Statement[bool]:
        """Own the queue for as long as the session lasts, whether it exists or not; say whether no other owns it."""
        raise NotImplementedError

    def beside(self) -> Statement[list[str]]:
        """Find the tables of its schema whose names are those of such queues, its own too. Locks nothing."""
        raise NotImplementedError


def answer_queue(address: QueueAddress) -> AnswerQueue:
    """Return the statements on a queue of answers. No I/O."""
    table: AnswerQueue = bound_table("rowbus.transport.requests", "AnswerQueue", address)
    return table
