"""The rule for destinations that messages name themselves: to which queues they may be sent on.

A role that may insert into one queue writes the headers of its messages, and a header may name any table that the
receiver may write to. So a destination from a header is obeyed only within what the operator allows: any queue, those
of the same schema, or some that are listed. What an application's own code sends is its own affair.

Invariant: pure; an address is allowed or not by its names alone, compared exactly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.messages.address import QueueAddress

EVERY: Final = "*"
"""As the table of an address that is allowed: every queue of its schema."""


class DestinationRule(NamedTuple):
    """What is allowed: `queues`, some of which stand for a schema's, or None for any; `allowed` is for people."""

    queues: frozenset[QueueAddress] | None
    allowed: str

    def allows(self, destination: QueueAddress) -> bool:
        """Say whether a message may go there."""
        return (
            self.queues is None
            or destination in self.queues
            or replace(destination, table=EVERY) in self.queues
        )


ANY_QUEUE: Final = DestinationRule(None, "any queue")


def same_schema(queue: QueueAddress) -> DestinationRule:
    """Allow the queues of the schema that a queue is in."""
    return DestinationRule(frozenset((replace(queue, table=EVERY),)), f"the queues beside {queue}")


def listed(queues: Iterable[QueueAddress]) -> DestinationRule:
    """Allow these queues, and those of the schemas that some of them stand for."""
    allowed = frozenset(queues)
    return DestinationRule(allowed, ", ".join(sorted(map(str, allowed))) or "no queue")
