"""The lanes of an endpoint in one process: which it serves, and how their receivers share the process.

Lanes without order are received from all the time, and take turns. A lane with order belongs to one process at a time:
to the one whose session holds its lock, and works on it in that session alone. So who has lost the lock has lost what
was in hand, too, and nothing of it takes effect late (docs/decisions/0040-lanes-are-queues.md).

Invariant: a lane with order is received from in the session that holds its lock, one unit after the other.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError, ConnectionLostError
from rowbus.settings import TransactionMode
from rowbus.transport.lanes.held_lanes import HeldLanes
from rowbus.transport.lanes.order import Order
from rowbus.transport.lanes.rule import OWN_SHARE
from rowbus.transport.lanes.turns import Turns
from rowbus.transport.limits.rate import RateLimit
from rowbus.transport.queues.lookout import close

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from rowbus.database.sessions import Database, ReceiveSession
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.address import QueueAddress
    from rowbus.running.critical import Alarm
    from rowbus.transport.lanes.rule import Lanes
    from rowbus.transport.receiving.receiver import Receiver


def turns_of(lanes: Lanes, parts: Parts) -> Turns:
    """Return the turns that an endpoint's queues share in one process: its lanes, and those that are none."""
    weights: dict[Hashable, int] = dict(zip(lanes.addresses(parts.address), lanes.weights, strict=True))
    weights |= dict.fromkeys(parts.queues, OWN_SHARE)
    return Turns(weights, parts.settings.effective_concurrency)


class OrderedLanes(HeldLanes["Receiver"]):
    """The lanes with order that one process of an endpoint has. For one event loop."""

    def __init__(
        self,
        database: Database,
        queue: QueueAddress,
        lanes: Sequence[QueueAddress],
        make_receiver: Callable[[QueueAddress], Receiver],
        alarm: Alarm,
    ) -> None:
        """Serve lanes of the endpoint with this queue, by receivers that are made for them. No I/O."""
        super().__init__(database, queue, lanes, alarm)
        self._make_receiver = make_receiver
        self._taken_by: dict[int, ReceiveSession] = {}  # those that no slot has needed yet

    async def begin(self, lane: int) -> Receiver | None:
        """Take a lane and receive from it."""
        address = self._lanes[lane]
        session = await self._taken(address)
        if session is None:
            return None
        receiver = self._make_receiver(address)
        receiver.order = Order(lambda: datetime.now(UTC))
        self._taken_by[lane] = session
        receiver.connect = partial(self._connect, lane)
        receiver.change_concurrency(1)
        await receiver.start()
        return receiver

    async def ended(self, lane: int) -> None:
        """Close the session that took the lane, if no slot has."""
        await close(self._taken_by.pop(lane, None))

    async def _taken(self, lane: QueueAddress) -> ReceiveSession | None:
        """Return a session that has the lane; None if another session has it."""
        session = await self._database.connect_receiver()
        try:
            take = self._table.take(lane, self._process)
            is_ours = await session.run(take)
            session.keep_locks(take, [self._table.keep(lane)])
        except BaseException:
            await session.close()
            raise
        if is_ours:
            return session
        await session.close()
        return None

    async def _connect(self, lane: int) -> ReceiveSession:
        """Return the session that took the lane, or after it one that takes it again. Raises StorageError."""
        session = self._taken_by.pop(lane, None) or await self._taken(self._lanes[lane])
        if session is None:
            text = f"Another session has {self._lanes[lane]}: this process waits until it is free."
            raise ConnectionLostError(text, sqlstate=None, transient=True)
        return session


def check_lanes(parts: Parts) -> None:
    """Raise ConfigurationError for what cannot be kept in lanes with order."""
    lanes, handlers = parts.lanes, parts.handlers
    if lanes is None:
        return
    if parts.address.backend != "postgresql":
        raise ConfigurationError("Lanes need PostgreSQL.")
    if not lanes.is_ordered:
        return
    reasons = (
        (parts.settings.transaction_mode is TransactionMode.NONE, "mode NONE loses messages"),
        (handlers.has_long, "a long handler's message leaves its lane before it is handled"),
        (
            bool(handlers.limited(RateLimit)),
            "a message that waits for its handler's rate limit lets later ones by",
        ),
    )
    for is_so, reason in reasons:
        if is_so:
            raise ConfigurationError(f"Endpoint {parts.name} cannot keep the order of its lanes: {reason}.")
