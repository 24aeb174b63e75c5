"""Names of the locks that make a process the only one of its kind in a database.

Invariant: two different lists of names never make one lock's name. Names without a space are joined as earlier versions
joined all names, so that processes of both know each other's locks.
"""

from __future__ import annotations

import json

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


def answers_lock(queue: str) -> str:
    """Name the lock of who asks, and has its answers come to a queue."""
    return f"rowbus answers {queue}"


def _joined(kind: str, *names: str) -> str:
    if any(" " in name for name in names):
        return f"{kind}: {json.dumps(names)}"
    return " ".join((kind, *names))
