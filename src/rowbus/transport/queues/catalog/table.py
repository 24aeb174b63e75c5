"""The catalogue: what a database holds, and the server it is on.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.database.backends import backend_class
from rowbus.transport.queues.catalog.ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from rowbus.database.statements import Statement, Steps
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.transport.queues.diagnosis import EndedLoops, FullDisk, Server, SnapshotHolder, Storage
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.queues.traffic import QueueState, Receivers


class Guard(NamedTuple):
    """The statements that keep tables as they are for the rest of a transaction, and then say whose they are."""

    lock: Sequence[Statement[None]]
    owners: Statement[Mapping[QueueAddress, Ownership]]


class Catalog(Protocol):
    """The contents of a database, and the server it is on; what waits for a lock says so.

    Tables are found by their shape, whoever made them: `catalog.looking` finds those that may be read.
    """

    def find_queues(self, named: Iterable[QueueAddress] = ()) -> Statement[list[QueueShape]]:
        """Describe every table that is a queue or nearly one, and all those named that exist.

        Where `positions` is a statement, that alone says where their sequences stand.
        """
        raise NotImplementedError

    def owners(self, addresses: Iterable[QueueAddress]) -> Statement[Mapping[QueueAddress, Ownership]] | None:
        """Say whose tables these are; None where a look runs no code of a table's owner."""
        raise NotImplementedError

    def begin_look(self) -> Statement[None] | None:
        """Have a transaction wait for no lock for long; None where what is found is not waited for."""
        raise NotImplementedError

    def positions(self, shapes: Iterable[QueueShape]) -> Statement[Mapping[QueueAddress, int | None]] | None:
        """Say where the sequences of queues stand. Waits for who alters one. None where `find_queues` says it."""
        raise NotImplementedError

    def find_delayed(self, schema: str | None = None) -> Statement[list[QueueAddress]]:
        """Find all tables of delayed messages, or those of one schema."""
        raise NotImplementedError

    def find_tables(self, columns: Mapping[str, str]) -> Statement[list[QueueAddress]] | None:
        """Find the tables that have these columns, of these types, and no other; None where none can be found."""
        raise NotImplementedError

    def find_satellites(self, queue: QueueAddress) -> Statement[list[QueueAddress]] | None:
        """Find an endpoint's queue and the tables that are called after it; None where none can be found."""
        raise NotImplementedError

    def find_subscriptions(self) -> Statement[list[QueueAddress]]:
        """Find all tables of subscriptions."""
        raise NotImplementedError

    def receivers(self, addresses: Iterable[QueueAddress]) -> Statement[list[Receivers]] | None:
        """Find who receives from queues: processes that listen, by their lock. None: nobody can be seen."""
        raise NotImplementedError

    def queue_state(self, address: QueueAddress, most: int) -> Statement[QueueState]:
        """Count a queue's messages, up to `most`, and those of them in flight; show the oldest's headers."""
        raise NotImplementedError

    def count_acknowledgements(self, address: QueueAddress, most: int) -> Statement[int]:
        """Count the messages of an error queue that are acknowledgements for ServiceControl, of up to `most`."""
        raise NotImplementedError

    def count_undispatched(self, address: QueueAddress, most: int) -> Statement[int]:
        """Count what an outbox of .NET's holds that is not sent yet, up to `most`."""
        raise NotImplementedError

    def queue_storage(self, addresses: Iterable[QueueAddress]) -> Statement[list[Storage]]:
        """Say what queues occupy, from the server's statistics; missing ones are left out. May wait for a lock."""
        raise NotImplementedError

    def server(self) -> Statement[Server]:
        """Gather the facts about the server."""
        raise NotImplementedError

    def clock(self) -> Statement[datetime]:
        """Ask what time it is by the server's clock; aware."""
        raise NotImplementedError

    def snapshot_holders(self) -> Statement[list[SnapshotHolder]]:
        """Find who keeps dead rows from being removed, the oldest first."""
        raise NotImplementedError

    def ended_loops(self) -> Statement[list[EndedLoops]] | None:
        """Find the programs of which loops ended unasked; None where sessions do not say it."""
        raise NotImplementedError

    def full_disks(self) -> Statement[list[FullDisk]] | None:
        """Find the processes that meet a full disk of the server; None where sessions do not say it."""
        raise NotImplementedError

    def schema_exists(self, schema: str) -> Statement[bool]:
        """Say whether a schema exists."""
        raise NotImplementedError

    def create_schema(self, schema: str) -> Statement[None]:
        """Create a schema if it is missing. Another creator at the same time may make this fail; see `installer`."""
        raise NotImplementedError

    def refuse_foreign(self, schema: str) -> Steps[None]:
        """Raise ConfigurationError for a schema of a role that this one cannot trust."""
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

    def grant_monitor(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role measure how long a queue is and what went through it, as ServiceControl does, and nothing else."""
        raise NotImplementedError

    def grant_view_table(self, address: QueueAddress, role: str) -> Statement[None]:
        """Let a role look at a table of an endpoint that is no queue, and change nothing."""
        raise NotImplementedError


def catalog_of(addresses: Addresses) -> Catalog:
    """Return the statements that ask the database of these addresses what it holds. No I/O."""
    table: Catalog = backend_class("rowbus.transport.queues.catalog", addresses.backend, "catalog")(addresses)
    return table


def guard_of(*addresses: QueueAddress) -> Guard | None:
    """Return what guards a look into tables, at least one; None where it runs no code of an owner. No I/O."""
    backend = addresses[0].backend
    found: Guard | None = backend_class("rowbus.transport.queues.catalog", backend, "guard")(addresses)
    return found
