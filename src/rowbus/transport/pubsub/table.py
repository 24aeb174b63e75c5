"""The table of subscriptions: the operations on it, on every database.

Invariants: nothing here names a database; a table that exists stays as it is, also if another process created it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.backends import bound_table
from rowbus.database.statements import Statement
from rowbus.transport.pubsub.publication import TopicSubscription
from rowbus.transport.queues.installer import create_table
from rowbus.transport.queues.records.table import RecordStatements

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress


class SubscriptionRouting(RecordStatements):
    """Statements on one table of who subscribes to what; each runs in its runner's transaction."""

    folder = "transport/pubsub"
    variable = "table"
    remedy = (
        "the table does not exist; starting an endpoint creates it, as do `rowbus schema install MODULE:ENDPOINT` and "
        "`rowbus subscriptions create`."
    )

    def __init__(self, address: QueueAddress) -> None:
        """Bind the SQL files to the table. No I/O."""
        super().__init__(address)
        self._subscribers = self._load("subscribers", "Failed to look up subscribers in", prepare=True)

    def subscribe(self, endpoint: str, topics: Sequence[str], queue: QueueAddress) -> Statement[int]:
        """Have an endpoint's copies of these topics go to a queue; say for how many that is news.

        Waits for others who subscribe or unsubscribe the same.
        """
        query = self._load("subscribe", f"Failed to subscribe {endpoint} in")
        each = self._texts(dict.fromkeys(topics))
        parameters = {"endpoint": endpoint, "topics": each, "queue_address": queue.canonical}
        return Statement(query, parameters, self._counted)

    def unsubscribe(self, endpoint: str, topics: Sequence[str]) -> Statement[list[str]]:
        """End an endpoint's subscriptions and return the topics it had. Waits for others who change the same."""
        query = self._load("unsubscribe", f"Failed to unsubscribe {endpoint} in")
        return Statement(query, {"endpoint": endpoint, "topics": self._texts(topics)}, _topics)

    def subscribers(self, topics: Sequence[str]) -> Statement[tuple[QueueAddress, ...]]:
        """Find the queues of those who subscribe to any of these topics, each once. Keeps no lock."""
        return Statement(self._subscribers, {"topics": self._texts(topics)}, self._addresses)

    def list(self) -> Statement[list[TopicSubscription]]:
        """List all subscriptions, by endpoint and topic. Keeps no lock."""
        return Statement(self._load("list", "Failed to list the subscriptions in"), {}, _subscriptions)

    def _texts(self, texts: Iterable[str]) -> object:
        """Return texts as the database takes several."""
        raise NotImplementedError

    def _addresses(self, rows: Rows, _count: int) -> tuple[QueueAddress, ...]:
        """Read addresses; what they leave out is as in this table's own."""
        return tuple(dict.fromkeys(self.address.neighbour(address) for (address,) in rows))


def _topics(rows: Rows, _count: int) -> list[str]:
    return [topic for (topic,) in rows]


def _subscriptions(rows: Rows, _count: int) -> list[TopicSubscription]:
    return [TopicSubscription(*row) for row in rows]


def subscription_routing(address: QueueAddress) -> SubscriptionRouting:
    """Return the statements on a table of subscriptions. No I/O."""
    table: SubscriptionRouting = bound_table("rowbus.transport.pubsub", "SubscriptionRouting", address)
    return table


async def create_subscriptions(session: AsyncSession, address: QueueAddress) -> bool:
    """Create the table of who subscribes to what if it is missing; say whether it was. Raises as `create_queue`."""
    return await create_table(session, subscription_routing(address), "the table of subscriptions")
