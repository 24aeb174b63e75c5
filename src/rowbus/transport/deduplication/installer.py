"""Creates an endpoint's table of processed messages, or requires it.

Invariant: a table that exists stays as it is, also if another process created it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import QueueNotFoundError
from rowbus.transport.deduplication.table import inbox_table
from rowbus.transport.queues.installer import create_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import QueueAddress


async def create_inbox(session: AsyncSession, address: QueueAddress) -> bool:
    """Create an endpoint's table of processed messages if it is missing; say whether it was."""
    return await create_table(session, inbox_table(address), "the table of processed messages")


async def require_inbox(session: AsyncSession, address: QueueAddress) -> None:
    """Raise QueueNotFoundError if a table of processed messages is missing."""
    if not await session.run(inbox_table(address).exists()):
        raise QueueNotFoundError(
            f"The table of processed messages {address} does not exist; create it with "
            f"`rowbus schema install MODULE:ENDPOINT` or install=True, or do without: deduplicate_for=None.",
            queue=str(address),
        )
