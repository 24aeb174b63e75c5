"""Creates a table of delayed messages, or requires it.

Invariant: a table that exists stays as it is, also if another process created it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from rowbus.errors import QueueNotFoundError, ShiftedTimesError
from rowbus.transport.delayed.diagnosis import MOST_LOOKED_AT, diagnose_shifts, shifts_of
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.installer import add_body_string, create_table

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.messages.address import QueueAddress

logger = logging.getLogger("rowbus.delaying")

START_ALL_THE_SAME: Final = (
    "What waits stays as it is: put its column due right, or start all the same, with "
    "NativeDelayedDelivery(refuse_shifted_times=False)."
)


async def create_delayed(session: AsyncSession, address: QueueAddress, *, body_string: bool = False) -> bool:
    """Create a table of delayed messages if it is missing; say whether it was. Raises as `create_queue`."""
    missing = await create_table(session, delayed_table(address), "the table of delayed messages")
    if body_string:
        await add_body_string(session, address)
    return missing


async def require_delayed(session: AsyncSession, address: QueueAddress) -> None:
    """Raise QueueNotFoundError if a table of delayed messages is missing."""
    if not await session.run(delayed_table(address).exists()):
        raise QueueNotFoundError(
            f"The table of delayed messages {address} does not exist; create it with `rowbus delayed create` or "
            "install=True, or do without: delayed_delivery=None.",
            queue=str(address),
        )


async def check_times(session: AsyncSession, address: QueueAddress, *, refuse: bool) -> None:
    """Raise ShiftedTimesError if the time zone of other sessions moved the times of messages that wait.

    Unless told to `refuse` them, logs it as an ERROR. Reads the messages due next, and locks nothing.
    """
    waiting = await session.run(delayed_table(address).peek(MOST_LOOKED_AT))
    shifted = diagnose_shifts(str(address), shifts_of(waiting))
    if shifted is None:
        return
    text = f"{shifted.subject}: {shifted.text}; {shifted.advice}"
    if refuse:
        raise ShiftedTimesError(f"{text}. {START_ALL_THE_SAME}", queue=str(address))
    logger.error("%s", text)
