"""Tables from addresses: an address knows its database, and a table's statements are that database's.

Each backend says in `tables.<backend>.backend` which classes are its tables; that module is imported when the first
address of its kind is met.

Invariant: whoever works with queues asks here, and never imports a backend's tables.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.messages.addresses import refuse_missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.queues.message_tables import DelayedStoreTable, DelayedTable, ErrorQueueTable, QueueTable
    from rowbus.transport.queues.record_tables import Catalog, InboxTable, SubscriptionRouting


class Tables(NamedTuple):
    """What makes one backend's tables: callables that take an address of the backend's kind.

    `catalog` takes the backend's `Addresses`. `script` writes a statement as people run it, values as literals;
    `definition` writes the statements that create something, `transaction` such as belong into one transaction.
    """

    queue: Callable[[Any], QueueTable]
    delayed: Callable[[Any], DelayedTable]
    error_queue: Callable[[Any], ErrorQueueTable]
    delayed_store: Callable[[Any], DelayedStoreTable]
    subscription_routing: Callable[[Any], SubscriptionRouting]
    inbox: Callable[[Any], InboxTable]
    catalog: Callable[[Any], Catalog]
    script: Callable[[Statement[object]], str]
    definition: Callable[[Sequence[Statement[None]]], str]
    transaction: Callable[[Sequence[Statement[None]]], str]


def tables_of(where: QueueAddress | Addresses) -> Tables:
    """Return what makes the tables of the database that an address, or a way to make addresses, belongs to."""
    return _backend(where.backend)


def queue_table(address: QueueAddress) -> QueueTable:
    """Return the statements on a queue. No I/O, nor for the others below."""
    return tables_of(address).queue(address)


def destination_table(address: QueueAddress) -> QueueTable:
    """Return the statements on a queue that a message or a call names; QueueNotFoundError if none can have the name."""
    refuse_missing(address, "Failed to send message to")
    return queue_table(address)


def delayed_table(address: QueueAddress) -> DelayedTable:
    """Return the statements on a table of delayed messages."""
    return tables_of(address).delayed(address)


def error_queue_table(address: QueueAddress) -> ErrorQueueTable:
    """Return the statements on an error queue, for those who put its messages back."""
    return tables_of(address).error_queue(address)


def delayed_store_table(address: QueueAddress) -> DelayedStoreTable:
    """Return the statements on the table of a delayed message store."""
    return tables_of(address).delayed_store(address)


def subscription_routing(address: QueueAddress) -> SubscriptionRouting:
    """Return the statements on a table of subscriptions."""
    return tables_of(address).subscription_routing(address)


def inbox_table(address: QueueAddress) -> InboxTable:
    """Return the statements on a table of processed messages."""
    return tables_of(address).inbox(address)


def catalog_of(addresses: Addresses) -> Catalog:
    """Return the statements that ask the database of these addresses what it holds."""
    return tables_of(addresses).catalog(addresses)


@cache  # one entry for each backend there is
def _backend(name: str) -> Tables:
    tables: Tables = import_module(f"rowbus.tables.{name}.backend").TABLES
    return tables
