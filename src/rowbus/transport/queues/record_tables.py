"""What services ask of the tables that hold facts about messages, and of the catalogue, whatever the database.

As `tables.message_tables`: a method returns statements, each in its runner's transaction.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.diagnosis import Holder, Server, Storage
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.pubsub.subscription import Subscription
    from rowbus.transport.queues.rows import QueueState


class RecordTable(Protocol):
    """A table of facts."""

    @property
    def address(self) -> QueueAddress:
        """Where it is."""
        raise NotImplementedError

    def exists(self) -> Statement[bool]:
        """Say whether the table exists."""
        raise NotImplementedError

    def create(self) -> list[Statement[None]]:
        """Create the table if it is missing: in one transaction. Another creator may make it fail; see `services`."""
        raise NotImplementedError

    def grant(self, role: str) -> Statement[None]:
        """Let a role do what endpoints do with it."""
        raise NotImplementedError


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

    def list(self) -> Statement[list[Subscription]]:
        """List all subscriptions, by endpoint and topic. Locks nothing."""
        raise NotImplementedError


class InboxTable(RecordTable, Protocol):
    """Statements on the table of what an endpoint has processed."""

    def accept(self, message_id: str) -> Statement[bool]:
        """Note a message, and say whether it is new.

        Waits for a transaction that has just noted the same: if that commits, it is not new.
        """
        raise NotImplementedError

    def purge(self, older_than: timedelta, batch_size: int) -> Statement[int]:
        """Forget up to `batch_size` messages accepted longer ago than that, and say how many."""
        raise NotImplementedError


class Catalog(Protocol):
    """What exists in a database, and the server it is on; locks nothing but for what creates and grants."""

    def find_queues(self, named: Iterable[QueueAddress] = ()) -> Statement[list[QueueShape]]:
        """Describe every table that is a queue or nearly one, and those named, whatever they are, if they exist."""
        raise NotImplementedError

    def find_delayed(self, schema: str | None = None) -> Statement[list[QueueAddress]]:
        """Find all tables of delayed messages, or those of one schema."""
        raise NotImplementedError

    def queue_state(self, address: QueueAddress, most: int) -> Statement[QueueState]:
        """Count a queue's messages, up to `most`, and those of them in somebody's hands; show the oldest's headers."""
        raise NotImplementedError

    def queue_storage(self, addresses: Iterable[QueueAddress]) -> Statement[list[Storage]]:
        """Say what queues occupy, from the server's statistics; missing ones are left out."""
        raise NotImplementedError

    def server(self) -> Statement[Server]:
        """Gather the facts about the server."""
        raise NotImplementedError

    def clock(self) -> Statement[datetime]:
        """Ask what time it is by the server's clock; aware."""
        raise NotImplementedError

    def snapshot_holders(self) -> Statement[list[Holder]]:
        """Find who keeps dead rows from being removed, the oldest first."""
        raise NotImplementedError

    def schema_exists(self, schema: str) -> Statement[bool]:
        """Say whether a schema exists."""
        raise NotImplementedError

    def create_schema(self, schema: str) -> Statement[None]:
        """Create a schema if it is missing. Another creator at the same time may make this fail; see `services`."""
        raise NotImplementedError

    def grant_receive(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role receive from, peek and purge a queue, and nothing else."""
        raise NotImplementedError

    def grant_send(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role send to a queue, and nothing else."""
        raise NotImplementedError

    def grant_view(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role count, look at and judge the messages of a queue, and change nothing."""
        raise NotImplementedError

    def grant_view_table(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role look at a table of an endpoint that is no queue, and change nothing."""
        raise NotImplementedError
