"""Which classes are SQL Server's tables, for `rowbus.tables.messaging`.

Invariant: whatever services ask of a table is here.
"""

from __future__ import annotations

from typing import Final

from rowbus.database.sqlserver.statements import script
from rowbus.tables.messaging import Tables
from rowbus.tables.sqlserver.catalog import Catalog
from rowbus.tables.sqlserver.delayed import DelayedTable
from rowbus.tables.sqlserver.delayed_store import DelayedStoreTable
from rowbus.tables.sqlserver.error_queue import ErrorQueueTable
from rowbus.tables.sqlserver.inbox import InboxTable
from rowbus.tables.sqlserver.queue import QueueTable
from rowbus.tables.sqlserver.subscription_routing import SubscriptionRouting

TABLES: Final = Tables(
    queue=QueueTable,
    delayed=DelayedTable,
    error_queue=ErrorQueueTable,
    delayed_store=DelayedStoreTable,
    subscription_routing=SubscriptionRouting,
    inbox=InboxTable,
    catalog=Catalog,
    script=script,
)
