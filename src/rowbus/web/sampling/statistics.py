"""Statements on what the server has counted: rows in and out of tables, and sessions by their program and queue.

Invariant: PostgreSQL's alone (`Database.has_logs`); each reads the catalogue and the statistics, and no queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.locks import receiver_lock
from rowbus.database.statements import Statement, load
from rowbus.messages.address import QueueAddress

if TYPE_CHECKING:
    from rowbus.database.statements import Rows

_FOLDER = "web/sql/postgresql"


class Counters(NamedTuple):
    """What was counted of a table since the statistics were reset; `live` is an estimate."""

    inserted: int
    deleted: int
    live: int
    may_delete: bool


class Instances(NamedTuple):
    """The sessions of one program, from one place: an address. None: the role may not see it."""

    name: str
    place: str | None
    sessions: int
    busy: int | None
    since: datetime | None


class Receivers(NamedTuple):
    """The processes that receive from a queue, from one place, and when the first and the last of them connected."""

    queue: QueueAddress
    place: str | None
    processes: int
    since: datetime | None
    latest: datetime | None


def counters(addresses: Iterable[QueueAddress]) -> Statement[dict[QueueAddress, Counters]]:
    """Read the counters of tables; missing ones are left out."""
    query = load(f"{_FOLDER}/counters.sql", failing="Failed to read the statistics of queues", prepare=False)
    named = list(addresses)
    parameters = {"schemas": [one.schema for one in named], "tables": [one.table for one in named]}
    return Statement(query, parameters, _counters)


def instances() -> Statement[list[Instances]]:
    """Find the sessions of Rowbus's programs."""
    query = load(f"{_FOLDER}/instances.sql", failing="Failed to look for sessions", prepare=False)
    return Statement(query, {}, _instances)


def receivers(addresses: Iterable[QueueAddress]) -> Statement[list[Receivers]]:
    """Find who receives from queues: processes that listen, by the lock that they share.

    Processes without notifications, and those of NServiceBus, cannot be found.
    """
    queues = {str(address): address for address in addresses}
    query = load(f"{_FOLDER}/receivers.sql", failing="Failed to look for endpoints", prepare=False)
    parameters = {"queues": list(queues), "lock_names": [receiver_lock(name) for name in queues]}

    def decode(rows: Rows, _count: int) -> list[Receivers]:
        return [Receivers(queues[name], *found) for name, *found in rows]

    return Statement(query, parameters, decode)


def _counters(rows: Rows, _count: int) -> dict[QueueAddress, Counters]:
    return {QueueAddress(schema, name): Counters(*counted) for schema, name, *counted in rows}


def _instances(rows: Rows, _count: int) -> list[Instances]:
    return [Instances._make(row) for row in rows]
