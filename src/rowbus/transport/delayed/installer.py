"""Creates a table of delayed messages, or requires it.

Invariant: a table that exists stays as it is, whichever process created it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors import QueueNotFoundError
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.installer import create_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import QueueAddress


async def create_delayed(session: AsyncSession, address: QueueAddress) -> bool:
    """Create a table of delayed messages if it is missing; say whether it was. Raises as `create_queue`."""
    return await create_table(session, delayed_table(address), "the table of delayed messages")


async def require_delayed(session: AsyncSession, address: QueueAddress) -> None:
    """Raise QueueNotFoundError if a table of delayed messages is missing."""
    if not await session.run(delayed_table(address).exists()):
        raise QueueNotFoundError(
            f"The table of delayed messages {address} does not exist; create it with `rowbus delayed create` or "
            "install=True, or do without: delayed_delivery=None.",
            queue=str(address),
        )
