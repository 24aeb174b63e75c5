"""Creates an endpoint's table of schedules, or requires it.

Invariant: a table that exists stays as it is, whichever process created it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import QueueNotFoundError
from rowbus.transport.queues.installer import create_table
from rowbus.transport.recurring.table import RecurringTable, recurring_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import QueueAddress


async def create_recurring(session: AsyncSession, address: QueueAddress) -> bool:
    """Create an endpoint's table of schedules if it is missing; say whether it was."""
    return await create_table(session, recurring_table(address), "the table of schedules")


async def require_recurring(session: AsyncSession, address: QueueAddress) -> None:
    """Raise QueueNotFoundError if a table of schedules is missing."""
    if not await session.run(recurring_table(address).exists()):
        raise QueueNotFoundError(
            f"Cannot send recurring messages by {address}: {RecurringTable.remedy}", queue=str(address)
        )
