"""Subscriptions: the table in which publishers look up subscribers, in the exact shape NServiceBus gives it.

Source: docs/wire-format.md#subscriptions. One row for a logical endpoint and a topic, however many instances there are.

Invariant: all endpoints that exchange events use the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, affected, load, no_rows, scalar
from rowbus.messages.address import QueueAddress
from rowbus.transport.pubsub.subscription import TopicSubscription

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Query, Rows

_FOLDER = "transport/pubsub/sql/postgresql"
_REMEDY = (
    "the table does not exist; starting an endpoint creates it, as do `rowbus schema install MODULE:ENDPOINT` and "
    "`rowbus subscriptions create`."
)


class SubscriptionRouting:
    """Statements on one table of subscriptions; each runs in its runner's transaction."""

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        self.address = address
        self._subscribers = self._load("subscribers", "Failed to look up subscribers in", prepare=True)

    def _load(self, operation: str, failing: str, *, prepare: bool = False, role: str | None = None) -> Query:
        address = self.address
        role_of = {} if role is None else {"role": role}
        return load(
            f"{_FOLDER}/{operation}.sql",
            identifiers={"schema": address.schema, "table": address.table, **role_of},
            failing=f"{failing} {address}",
            remedy=_REMEDY,
            prepare=prepare,
        )

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing. Another creator at the same time may make this fail; see `services`."""
        return [Statement(self._load("create", "Failed to create"), {}, no_rows)]

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        query = self._load("exists", "Failed to look for")
        return Statement(query, {"table_name": str(self.address)}, scalar)

    def grant(self, role: str) -> Statement[None]:
        """Let a role publish, subscribe and unsubscribe."""
        failing = f"Failed to grant {role} privileges on"
        return Statement(self._load("grant", failing, role=role), {}, no_rows)

    def subscribe(self, endpoint: str, topics: Sequence[str], queue: QueueAddress) -> Statement[int]:
        """Have an endpoint's copies of these topics go to a queue; say for how many that is news.

        Waits for others who subscribe or unsubscribe the same.
        """
        query = self._load("subscribe", f"Failed to subscribe {endpoint} in")
        parameters = {
            "endpoint": endpoint,
            "topics": list(dict.fromkeys(topics)),
            "queue_address": queue.canonical,
        }
        return Statement(query, parameters, affected)

    def unsubscribe(self, endpoint: str, topics: Sequence[str]) -> Statement[list[str]]:
        """End an endpoint's subscriptions and return the topics it had. Waits for others who change the same."""
        query = self._load("unsubscribe", f"Failed to unsubscribe {endpoint} in")
        return Statement(query, {"endpoint": endpoint, "topics": list(topics)}, _texts)

    def subscribers(self, topics: Sequence[str]) -> Statement[tuple[QueueAddress, ...]]:
        """Find the queues of those who subscribe to any of these topics, each once. Locks nothing."""
        return Statement(self._subscribers, {"topics": list(topics)}, self._addresses)

    def list(self) -> Statement[list[TopicSubscription]]:
        """List all subscriptions, by endpoint and topic. Locks nothing."""
        return Statement(self._load("list", "Failed to list the subscriptions in"), {}, _subscriptions)

    def _addresses(self, rows: Rows, _count: int) -> tuple[QueueAddress, ...]:
        """Read addresses; what they leave out is as in this table's own."""
        return tuple(dict.fromkeys(self.address.neighbour(address) for (address,) in rows))


def _texts(rows: Rows, _count: int) -> list[str]:
    return [text for (text,) in rows]


def _subscriptions(rows: Rows, _count: int) -> list[TopicSubscription]:
    return [TopicSubscription(*row) for row in rows]
