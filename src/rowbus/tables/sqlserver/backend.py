"""Which classes are SQL Server's tables, for `rowbus.tables.messaging`.

Invariant: whatever services ask of a table is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.sqlserver.statements import script
from rowbus.tables.messaging import Tables
from rowbus.tables.sqlserver.catalog import Catalog
from rowbus.tables.sqlserver.delayed import DelayedTable
from rowbus.tables.sqlserver.delayed_store import DelayedStoreTable
from rowbus.tables.sqlserver.error_queue import ErrorQueueTable
from rowbus.tables.sqlserver.inbox import InboxTable
from rowbus.tables.sqlserver.queue import QueueTable
from rowbus.tables.sqlserver.subscription_routing import SubscriptionRouting

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
