"""Which classes are SQL Server's tables, for `rowbus.transport.queues.tables`.

Invariant: whatever services ask of a table is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.sqlserver.statements import script
from rowbus.transport.queues.tables import Tables
from rowbus.transport.queues.catalog.sqlserver import Catalog
from rowbus.transport.delayed.sqlserver import DelayedTable
from rowbus.transport.delayed_store.sqlserver import DelayedStoreTable
from rowbus.transport.recoverability.sqlserver import ErrorQueueTable
from rowbus.transport.deduplication.sqlserver import InboxTable
from rowbus.transport.queues.sqlserver import QueueTable
from rowbus.transport.pubsub.sqlserver import SubscriptionRouting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement


def _definition(statements: Sequence[Statement[None]]) -> str:
    """Write statements as batches of sqlcmd's, in a transaction if there are several: the first locks for the others.

    Each is a batch of its own, because each declares its variables.
    """
    texts = [script(statement) for statement in statements]
    if len(texts) > 1:
        texts = ["begin transaction;", *texts, "commit transaction;"]
    return "\n\n".join(f"{text}\ngo" for text in texts)


TABLES: Final = Tables(
    queue=QueueTable,
    delayed=DelayedTable,
    error_queue=ErrorQueueTable,
    delayed_store=DelayedStoreTable,
    subscription_routing=SubscriptionRouting,
    inbox=InboxTable,
    catalog=Catalog,
    script=script,
    definition=_definition,
    transaction=_definition,
)
