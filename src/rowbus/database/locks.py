"""Session locks: the names of those that make a process the only one of its kind, and who holds them.

Invariants: two different lists of names never make one lock's name. Names without a space are joined as earlier
versions joined all names, so that processes of both know each other's locks. What a session calls itself cannot break a
line of a log. Not being allowed to know is no error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError, ConnectionLostError, StorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, Database, Session
    from rowbus.database.statements import Statement

TICKER = "rowbus ticker"


def consumer_lock(log: str, consumer: str, subconsumer: str = "") -> str:
    """Name the lock of a consumer of a log, or of one member of a cooperative consumer."""
    return _joined("rowbus consumer", log, consumer, subconsumer)


def workers_lock(log: str, consumer: str, subconsumer: str = "") -> str:
    """Name the lock that all workers of the process that leads a consumer share."""
    return _joined("rowbus workers", log, consumer, subconsumer)


def members_lock(log: str, consumer: str) -> str:
    """Name the lock that the workers of all members of a cooperative consumer share."""
    return _joined("rowbus members", log, consumer)


def hold_lock(log: str, consumer: str) -> str:
    """Name the lock of who moves a consumer's position."""
    return _joined("rowbus hold", log, consumer)


def claim_lock(queue: str, consumer: str) -> str:
    """Name the lock of a consumer of a queue."""
    return _joined("", queue, consumer).lstrip()


def mover_lock(table: str) -> str:
    """Name the lock of who moves the messages of a table of delayed messages."""
    return f"rowbus mover {table}"


def receiver_lock(queue: str) -> str:
    """Name the lock that all processes which receive from a queue share."""
    return f"rowbus receiver {queue}"


def require_sessions(database: Database, who: str) -> None:
    """Raise ConfigurationError where a pooler would lend a session's lock to others, and keep it. Blocks."""
    if not database.keeps_sessions():
        raise ConfigurationError(
            f"{who} holds a lock of its session, and {database.name} is a pooler that lends a connection for one "
            "transaction at a time: give the address of the server itself."
        )


FULL_DISK_LOCK: Final = "rowbus full disk"
"""The name of the lock that all processes share whom the server refuses to write for want of room."""


def answers_lock(queue: str) -> str:
    """Name the lock of who asks, and has its answers come to a queue."""
    return f"rowbus answers {queue}"


def _joined(kind: str, *names: str) -> str:
    if " " in "".join(names):
        return f"{kind}: {json.dumps(names)}"
    return " ".join((kind, *names))


UNSEEN: Final = "a session that this role may not see"


class LockHolder(NamedTuple):
    """A session that holds a lock; what the asking role may not see is None."""

    pid: int
    role: str | None
    application: str | None
    address: str | None
    since: datetime | None
    """When it connected."""

    is_superuser: bool | None = None
    """Whether the role is one."""

    def __str__(self) -> str:
        name = _plain(self.application) if self.application else "a program without a name"
        role = f" as {_plain(self.role)}" if self.role else ""
        address = f", from {_plain(self.address)}" if self.address else ""
        since = f", since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        return f"{name}{role} (process {self.pid} of the server{address}{since})"


def describe(holders: Sequence[LockHolder]) -> str:
    """Name who holds a lock; where the server cannot tell locks of similar names apart, who may."""
    return " or ".join(map(str, holders)) or "a session that has just ended"


def _plain(text: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


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
    found = list_holders_now(session, holders)
    return describe(found) if found else None


def list_holders_now(session: Session, holders: Statement[list[LockHolder]]) -> list[LockHolder] | None:
    """Return who holds a lock; None where this session may not know. Raises ConnectionLostError."""
    try:
        return session.run(holders)
    except ConnectionLostError:
        raise
    except StorageError:
        return None
