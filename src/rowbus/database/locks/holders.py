"""The names of a lock's holders, for the sessions that wait for it.

Invariant: not being allowed to know is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.locks.holder import UNSEEN, describe
from rowbus.errors import ConnectionLostError, StorageError

if TYPE_CHECKING:
    from rowbus.database.locks.holder import LockHolder
    from rowbus.database.sessions import AsyncSession, Session
    from rowbus.database.statements import Statement


async def name_holders(session: AsyncSession, holders: Statement[list[LockHolder]]) -> str:
    """Say who holds a lock, as far as this session may know. Raises ConnectionLostError."""
    try:
        return describe(await session.run(holders))
    except ConnectionLostError:
        raise
    except StorageError:
        return UNSEEN


def find_holders_now(session: Session, holders: Statement[list[LockHolder]]) -> str | None:
    """Do the same on a synchronous session; None when the lock is free, as far as this session can see."""
    try:
        found = session.run(holders)
    except ConnectionLostError:
        raise
    except StorageError:
        return None
    return describe(found) if found else None
