"""Which classes are PostgreSQL's tables, for `rowbus.tables.messaging`.

Invariant: whatever services ask of a table is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.statements import script
from rowbus.tables.messaging import Tables
from rowbus.tables.postgresql import catalog
from rowbus.tables.postgresql.delayed import DelayedTable
from rowbus.tables.postgresql.delayed_store import DelayedStoreTable
from rowbus.tables.postgresql.error_queue import ErrorQueueTable
from rowbus.tables.postgresql.inbox import InboxTable
from rowbus.tables.postgresql.queue import QueueTable
from rowbus.tables.postgresql.subscription_routing import SubscriptionRouting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.model.addresses import Addresses
    from rowbus.tables.record_tables import Catalog


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
