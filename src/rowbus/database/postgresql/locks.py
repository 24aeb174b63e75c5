"""Our session locks: who holds one.

Invariant: reads, and takes no lock itself.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from rowbus.database.locks import LockHolder
from rowbus.database.statements import Statement, load

if TYPE_CHECKING:
    from rowbus.database.statements import Rows


def lock_holders(lock_name: str) -> Statement[list[LockHolder]]:
    """Find the session that holds a lock, by the lock's name."""
    query = load(
        "database/sql/postgresql/lock_holders.sql", failing="Failed to look for a lock", prepare=False
    )
    return Statement(query, {"lock_name": lock_name}, _holders)


def _holders(rows: Rows, _count: int) -> list[LockHolder]:
    return [
        LockHolder(pid, role, application, address, since and since.replace(tzinfo=UTC), is_superuser)
        for pid, role, application, address, since, is_superuser in rows
    ]
