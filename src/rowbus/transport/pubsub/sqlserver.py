"""Subscriptions: the table in which publishers look up subscribers, in the exact shape NServiceBus gives it.

Source: docs/wire-format.md#subscriptions. One row for a logical endpoint and a topic, however many instances there are.

Invariant: all endpoints that exchange events use the same table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.values import lines, number
from rowbus.database.statements import Statement
from rowbus.transport.pubsub.subscription import TopicSubscription
from rowbus.transport.queues.record_table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.sqlserver_address import SqlServerAddress


class SubscriptionRouting(RecordTable):
    """Statements on one table of subscriptions; each runs in its runner's transaction."""

    folder = "transport/pubsub/sql/sqlserver"
    variable = "table"
    remedy = (
        "the table does not exist; starting an endpoint creates it, as do `rowbus schema install MODULE:ENDPOINT` and "
        "`rowbus subscriptions create`."
    )

    def __init__(self, address: SqlServerAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._subscribers = self._load("subscribers", "Failed to look up subscribers in", prepare=True)

    def subscribe(self, endpoint: str, topics: Sequence[str], queue: QueueAddress) -> Statement[int]:
        """Have an endpoint's copies of these topics go to a queue; say for how many that is news.

        Waits for others who subscribe or unsubscribe the same.
        """
        query = self._load("subscribe", f"Failed to subscribe {endpoint} in")
        parameters = {"endpoint": endpoint, "topics": lines(topics), "queue_address": queue.canonical}
        return Statement(query, parameters, number)

    def unsubscribe(self, endpoint: str, topics: Sequence[str]) -> Statement[list[str]]:
        """End an endpoint's subscriptions and return the topics it had. Waits for others who change the same."""
        query = self._load("unsubscribe", f"Failed to unsubscribe {endpoint} in")
        return Statement(query, {"endpoint": endpoint, "topics": lines(topics)}, _texts)

    def subscribers(self, topics: Sequence[str]) -> Statement[tuple[QueueAddress, ...]]:
        """Find the queues of those who subscribe to any of these topics, each once; keeps no lock."""
        return Statement(self._subscribers, {"topics": lines(topics)}, self._addresses)

    def list(self) -> Statement[list[TopicSubscription]]:
        """List all subscriptions, by endpoint and topic; keeps no lock."""
        return Statement(self._load("list", "Failed to list the subscriptions in"), {}, _subscriptions)

    def _addresses(self, rows: Rows, _count: int) -> tuple[QueueAddress, ...]:
        """Read addresses; what they leave out is as in this table's own."""
        return tuple(dict.fromkeys(self.address.neighbour(address) for (address,) in rows))


def _texts(rows: Rows, _count: int) -> list[str]:
    return [text for (text,) in rows]


def _subscriptions(rows: Rows, _count: int) -> list[TopicSubscription]:
    return [TopicSubscription(*row) for row in rows]
