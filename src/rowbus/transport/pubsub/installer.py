"""Creates the table of subscriptions where it is missing.

Invariant: a table that exists stays as it is, also if another process created it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.transport.pubsub.table import subscription_routing
from rowbus.transport.queues.installer import create_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import QueueAddress


async def create_subscriptions(session: AsyncSession, address: QueueAddress) -> bool:
    """Create the table of who subscribes to what if it is missing; say whether it was. Raises as `create_queue`."""
    return await create_table(session, subscription_routing(address), "the table of subscriptions")
