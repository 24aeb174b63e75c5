"""Which classes are PostgreSQL's tables, for `rowbus.transport.queues.tables`.

Invariant: whatever services ask of a table is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.statements import script
from rowbus.transport.queues.tables import Tables
from rowbus.transport.queues.catalog import postgresql as catalog
from rowbus.transport.delayed.postgresql import DelayedTable
from rowbus.transport.delayed_store.postgresql import DelayedStoreTable
from rowbus.transport.recoverability.postgresql import ErrorQueueTable
from rowbus.transport.deduplication.postgresql import InboxTable
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.pubsub.postgresql import SubscriptionRouting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.addresses import Addresses
    from rowbus.transport.queues.record_tables import Catalog


def _catalog(_addresses: Addresses) -> Catalog:
    return catalog  # the module: it needs to know nothing


def _definition(statements: Sequence[Statement[None]]) -> str:
    return "\n\n".join(map(script, statements))


def _transaction(statements: Sequence[Statement[None]]) -> str:
    return "\n\n".join(["begin transaction;", *map(script, statements), "commit transaction;"])


TABLES: Final = Tables(
    queue=QueueTable,
    delayed=DelayedTable,
    error_queue=ErrorQueueTable,
    delayed_store=DelayedStoreTable,
    subscription_routing=SubscriptionRouting,
    inbox=InboxTable,
    catalog=_catalog,
    script=script,
    definition=_definition,
    transaction=_transaction,
)
