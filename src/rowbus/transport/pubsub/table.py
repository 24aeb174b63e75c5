"""The table of subscriptions: the operations on it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rowbus.database.backends import bound_table
from rowbus.transport.queues.table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.pubsub.subscription import TopicSubscription


class SubscriptionRouting(RecordTable, Protocol):
    """Statements on one table of who subscribes to what."""

    def subscribe(self, endpoint: str, topics: Sequence[str], queue: QueueAddress) -> Statement[int]:
        """Have an endpoint's copies of these topics go to a queue; say for how many that is news.

        Waits for others who subscribe or unsubscribe the same.
        """
        raise NotImplementedError

    def unsubscribe(self, endpoint: str, topics: Sequence[str]) -> Statement[list[str]]:
        """End an endpoint's subscriptions and return the topics it had. Waits for others who change the same."""
        raise NotImplementedError

    def subscribers(self, topics: Sequence[str]) -> Statement[tuple[QueueAddress, ...]]:
        """Find the queues of those who subscribe to any of these topics, each once. Locks nothing."""
        raise NotImplementedError

    def list(self) -> Statement[list[TopicSubscription]]:
        """List all subscriptions, by endpoint and topic. Locks nothing."""
        raise NotImplementedError


def subscription_routing(address: QueueAddress) -> SubscriptionRouting:
    """Return the statements on a table of subscriptions. No I/O."""
    table: SubscriptionRouting = bound_table("rowbus.transport.pubsub", "SubscriptionRouting", address)
    return table
