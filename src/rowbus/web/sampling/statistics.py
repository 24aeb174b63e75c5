"""Statements on what the server has counted: rows in and out of tables, and sessions by their program.

Invariant: PostgreSQL's alone (`Database.has_logs`); each reads the catalogue and the statistics, and no queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Statement, load
from rowbus.messages.address import QueueAddress

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
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


def counters(addresses: Iterable[QueueAddress]) -> Statement[dict[QueueAddress, Counters]]:
    """Read the counters of tables; missing ones are left out."""
    query = load(f"{_FOLDER}/counters.sql", failing="Failed to read the statistics of queues", prepare=False)
    named = list(addresses)
    parameters = {"schemas": [one.schema for one in named], "tables": [one.table for one in named]}
    return Statement(query, parameters, _counters)


def may_delete(session: Session, address: QueueAddress) -> bool:
    """Whether the database's role may delete from a table; where the database does not say, it is tried."""
    if address.backend != "postgresql":
        return True
    counted = session.run(counters([address])).get(address)
    return counted is not None and counted.may_delete


def instances() -> Statement[list[Instances]]:
    """Find the sessions of Rowbus's programs."""
    query = load(f"{_FOLDER}/instances.sql", failing="Failed to look for sessions", prepare=False)
    return Statement(query, {}, _instances)


def _counters(rows: Rows, _count: int) -> dict[QueueAddress, Counters]:
    return {QueueAddress(schema, name): Counters(*counted) for schema, name, *counted in rows}


def _instances(rows: Rows, _count: int) -> list[Instances]:
    return [Instances._make(row) for row in rows]
