"""Destinations that messages name: whether the operator allows them, and whether they are queues at all.

The database is asked once for each destination and then not for a while, so that what repeats costs nothing, and a
table that has changed is noticed.

A role that may insert into one queue writes the headers of its messages, and a header may name any table that the
receiver may write to. So a destination from a header is obeyed only within what the operator allows: any queue, those
of the same schema, or some that are listed. What an application's own code sends is its own affair.

Invariants: what is remembered is bounded, and only destinations that passed are remembered; an address is allowed or
not by its names alone, compared exactly.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import DestinationRefusedError, QueueNotFoundError
from rowbus.settings import AllowedDestinations
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.settings import Allowed

    Ask = Callable[[Statement[bool | None]], Awaitable[bool | None]]

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


REMEMBERED: Final = 1000  # destinations
FOR_SECONDS: Final = 60.0
REMEDY: Final = "EndpointSettings(allowed_destinations=…) allows more"
NO_QUEUE: Final = "it is a table, but no queue"


def destination_rule(allowed: Allowed, queue: QueueAddress) -> DestinationRule:
    """Return the rule of a setting, for what comes from a queue. Raises InvalidAddressError."""
    if allowed is AllowedDestinations.ANY_QUEUE:
        return ANY_QUEUE
    if allowed is AllowedDestinations.SAME_SCHEMA:
        return same_schema(queue)
    return listed(queue.meant(text) for text in allowed)


class Destinations:
    """What may be sent on from one queue."""

    def __init__(
        self,
        rule: DestinationRule,
        queue: QueueAddress,
        *,
        remedy: str = REMEDY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Say what is allowed to messages of a queue; `remedy` tells people how to allow more. No I/O."""
        self._rule = rule
        self._queue = queue
        self._remedy = remedy
        self._clock = clock
        self._known: OrderedDict[QueueAddress, float] = OrderedDict()

    async def require(self, destination: QueueAddress, ask: Ask) -> None:
        """Raise DestinationRefusedError unless a message may go there; QueueNotFoundError if nothing is there."""
        self.require_allowed(destination)
        await self.require_queue(destination, ask)

    def require_allowed(self, destination: QueueAddress) -> None:
        """As `require`, without a look at what is there: it may come into being until the message is due."""
        if not self._rule.allows(destination):
            raise self._refused(
                destination,
                f"messages of {self._queue} are sent on to {self._rule.allowed} only; {self._remedy}",
            )

    async def require_queue(self, destination: QueueAddress, ask: Ask) -> None:
        """As `require`, for a destination that the operator's rule is not about: it must be a queue."""
        if self.knows(destination):
            return
        self.judge(destination, await ask(queue_table(destination).is_queue()))

    def judge(self, destination: QueueAddress, is_queue: bool | None) -> None:  # noqa: FBT001 - the database's answer
        """Raise as `require_queue`, when the database has said whether it is a queue (None: there is nothing)."""
        if is_queue is None:
            raise QueueNotFoundError(
                f"Failed to send to {destination}: the queue does not exist; create it with `rowbus queue create`.",
                queue=str(destination),
            )
        if not is_queue:
            raise self._refused(destination, NO_QUEUE)
        self._remember(destination)

    def knows(self, destination: QueueAddress) -> bool:
        """Say whether a destination is known to be a queue, from when it was last asked about."""
        return self._known.get(destination, 0.0) > self._clock()

    def _remember(self, destination: QueueAddress) -> None:
        self._known[destination] = self._clock() + FOR_SECONDS
        self._known.move_to_end(destination)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _refused(self, destination: QueueAddress, reason: str) -> DestinationRefusedError:
        return DestinationRefusedError(
            f"A message of {self._queue} names {destination} as its destination and does not go there: {reason}.",
            destination=str(destination),
            queue=str(self._queue),
            reason=reason,
        )


def moved_destinations(allowed: Allowed, delayed: QueueAddress) -> Destinations:
    """Return what the due messages of a table may be moved to. Raises InvalidAddressError."""
    remedy = "NativeDelayedDelivery(allowed_destinations=…) allows more"
    return Destinations(destination_rule(allowed, delayed), delayed, remedy=remedy)
