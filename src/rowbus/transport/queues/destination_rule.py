"""Destinations that messages name: whether the operator allows them, are queues at all, and run no stranger's code.

A role that may insert into one queue writes the headers of its messages, and a header may name any table that the
receiver may write to. So a destination from a header is obeyed only within what the operator allows: any queue, those
of the same schema, or some that are listed. What an application's own code sends is its own affair.

A table runs its owner's code (triggers, defaults, constraints) with the rights of who writes to it. So its owner must
be trusted, unless the operator lists that very queue, and so must the owner of each function that it runs.

The database is asked once for each destination and then not for a while, so that what repeats costs nothing. Where a
stranger could change the table, or put another in its place, it is asked each time, and again once the transaction that
sends there has locked it.

Invariants: what is remembered is bounded, and only destinations that passed are remembered. `DestinationRule` is pure:
an address is allowed or not by its names alone, compared exactly.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.database.statements import answer_steps
from rowbus.errors import DestinationRefusedError, QueueNotFoundError
from rowbus.settings import AllowedDestinations
from rowbus.transport.queues.catalog.ownership import advice
from rowbus.transport.queues.table import find_queues, queue_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, MutableMapping, Sequence

    from rowbus.database.statements import Statement, Steps
    from rowbus.messages.address import QueueAddress
    from rowbus.settings import Allowed
    from rowbus.transport.queues.catalog.ownership import Ownership

    Ask = Callable[[Statement[Any]], Awaitable[Any]]
    Doubtful = MutableMapping[QueueAddress, "Destinations"]

EVERY: Final = "*"
"""As the table of an address that is allowed: every queue of its schema."""

REMEMBERED: Final = 1000  # destinations
FOR_SECONDS: Final = 60.0
REMEDY: Final = "EndpointSettings(allowed_destinations=…) allows more"
NO_QUEUE: Final = "what is there is no queue"


class DestinationRule(NamedTuple):
    """Allowed destinations: `queues`, some of which stand for a schema's, or None for any; `allowed` is for people."""

    queues: frozenset[QueueAddress] | None
    allowed: str

    def allows(self, destination: QueueAddress) -> bool:
        """Say whether a message may go there."""
        return (
            self.queues is None
            or destination in self.queues
            or replace(destination, table=EVERY) in self.queues
        )

    def names(self, destination: QueueAddress) -> bool:
        """Say whether the operator listed this very queue, and so answers for its owner."""
        return self.queues is not None and destination in self.queues


ANY_QUEUE: Final = DestinationRule(None, "any queue")


class Standing(NamedTuple):
    """The database's word on a destination: None for `reason` if nothing is there, empty if it is a queue to use."""

    reason: str | None
    is_firm: bool = True
    """Whether only trusted roles could change that."""


BY_COLUMNS: Final = {True: Standing(""), False: Standing(NO_QUEUE), None: Standing(None)}
"""The standing of a table that has a queue's columns, has not, or is missing, whoever owns it."""


def same_schema(queue: QueueAddress) -> DestinationRule:
    """Allow the queues of the schema that a queue is in."""
    return DestinationRule(frozenset((replace(queue, table=EVERY),)), f"the queues beside {queue}")


def listed(queues: Iterable[QueueAddress]) -> DestinationRule:
    """Allow these queues, and those of the schemas that some of them stand for."""
    allowed = frozenset(queues)
    return DestinationRule(allowed, ", ".join(sorted(map(str, allowed))) or "no queue")


def destination_rule(allowed: Allowed, queue: QueueAddress) -> DestinationRule:
    """Return the rule of a setting, for what comes from a queue. Raises InvalidAddressError."""
    if allowed is AllowedDestinations.ANY_QUEUE:
        return ANY_QUEUE
    if allowed is AllowedDestinations.SAME_SCHEMA:
        return same_schema(queue)
    return listed(queue.meant(text) for text in allowed)


def moved_destinations(allowed: Allowed, delayed: QueueAddress) -> Destinations:
    """Return what the due messages of a table may be moved to. Raises InvalidAddressError."""
    remedy = "NativeDelayedDelivery(allowed_destinations=…) allows more"
    return Destinations(destination_rule(allowed, delayed), delayed, remedy=remedy)


class Destinations:
    """The destinations of what may be sent on from one queue."""

    def __init__(
        self,
        rule: DestinationRule,
        queue: QueueAddress,
        *,
        remedy: str = REMEDY,
        named_by: str = "",
        doubtful: Doubtful | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Say what is allowed to messages of a queue; `remedy` tells people how to allow more. No I/O.

        `named_by` says what names the destinations, where that is not a message of the queue. Those that strangers
        could change are noted in `doubtful`.
        """
        self._doubtful: Doubtful = {} if doubtful is None else doubtful
        self._named_by = named_by or f"A message of {queue}"
        self._rule = rule
        self._queue = queue
        self._remedy = remedy
        self._clock = clock
        self._known: OrderedDict[QueueAddress, float] = OrderedDict()

    async def require(self, destination: QueueAddress, ask: Ask, *, keeps: bool = False) -> None:
        """Raise DestinationRefusedError unless a message may go there; QueueNotFoundError if nothing is there.

        With `keeps`, to be asked in the transaction that sends there, it stays what it was found to be.
        """
        self.require_allowed(destination)
        await answer_steps(ask, self.look(destination, keeps=keeps))

    def require_allowed(self, destination: QueueAddress) -> None:
        """As `require`, without a look at what is there: it may come into being until the message is due."""
        if not self._rule.allows(destination):
            raise self._refused(
                destination,
                f"messages of {self._queue} are sent on to {self._rule.allowed} only; {self._remedy}",
            )

    def look(self, *destinations: QueueAddress, keeps: bool = False) -> Steps[None]:
        """As `require`, for destinations that are allowed, or that the operator's rule is not about; asked together.

        One that is refused is told before one where nothing is.
        """
        asked = [each for each in destinations if not self.knows(each)]
        if not asked:
            return
        named = frozenset(filter(self._rule.names, asked))
        found = yield from find_standings(asked, self._queue, named, keeps=keeps)
        for destination, standing in found.items():
            self._note(destination, standing)
        for destination in asked:
            if reason := found[destination].reason:
                raise self._refused(destination, reason)
        for destination in asked:
            if found[destination].reason is None:
                raise QueueNotFoundError(
                    f"Failed to send to {destination}: the queue does not exist; create it with `rowbus queue create`.",
                    queue=str(destination),
                )

    def knows(self, destination: QueueAddress) -> bool:
        """Say whether a destination is known to be a queue, from when it was last asked about."""
        return self._known.get(destination, 0.0) > self._clock()

    def forget(self, missing: str | None) -> bool:
        """Forget a queue that was found to be gone, given as text; say whether it was remembered."""
        gone = [each for each in self._known if str(each) == missing and self.knows(each)]
        for each in gone:
            del self._known[each]
        return bool(gone)

    def _note(self, destination: QueueAddress, standing: Standing) -> None:
        """Remember a queue that no stranger could change, and doubt one that a stranger could, or that is missing."""
        if standing.reason:
            return
        if standing.reason is None or not standing.is_firm:
            self._doubtful[destination] = self
            return
        self._doubtful.pop(destination, None)
        self._known[destination] = self._clock() + FOR_SECONDS
        self._known.move_to_end(destination)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _refused(self, destination: QueueAddress, reason: str) -> DestinationRefusedError:
        return DestinationRefusedError(
            f"{self._named_by} names {destination} as its destination and does not go there: {reason}.",
            destination=str(destination),
            queue=str(self._queue),
            reason=reason,
        )


def find_standings(
    destinations: Sequence[QueueAddress],
    queue: QueueAddress,
    named: Collection[QueueAddress] = (),
    *,
    keeps: bool = False,
) -> Steps[dict[QueueAddress, Standing]]:
    """Ask which destinations that a message of `queue` names are queues, and whose code they run; at least one.

    The owners of those that the operator `named` are not asked about. With `keeps`, in the transaction that sends
    there, those that strangers could change are locked and asked about again; else nothing is locked.
    """
    found = yield from _ask(destinations, queue, named)
    kept = [each for each in destinations if keeps and found[each] == Standing("", is_firm=False)]
    if kept:
        for each in kept:
            yield from queue_table(each).keep()
        found |= yield from _ask(kept, queue, named)
    return found


def _ask(
    destinations: Sequence[QueueAddress], queue: QueueAddress, named: Collection[QueueAddress]
) -> Steps[dict[QueueAddress, Standing]]:
    are_queues = yield from find_queues(destinations)
    found = {each: BY_COLUMNS[are_queues.get(each)] for each in destinations}
    asked = [each for each in destinations if found[each].reason == "" and each not in named]
    question = queue_table(destinations[0]).ownerships(asked, queue) if asked else None
    if question is not None:
        owners: Mapping[QueueAddress, Ownership] = yield question
        found |= {each: _judge(owners.get(each)) for each in asked}
    return found


def _judge(whose: Ownership | None) -> Standing:
    if whose is None:
        return Standing(None)
    reason = whose.reason or whose.runs
    return Standing(f"{reason}; {advice(reason)}" if reason else "", whose.is_firm)
