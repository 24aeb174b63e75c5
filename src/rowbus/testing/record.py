"""The statements of tests: the record of what was sent, the state of queues and logs, time that passes.

Invariant: a message is in the record when its transaction has committed, and once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Query, Statement, load, load_script, no_rows, scalar
from rowbus.messages.headers import decode_headers
from rowbus.transport.delayed.policy import route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress

_FOLDER = "testing/sql/postgresql"


class TableMessage(NamedTuple):
    """A message as it was put into a table: where, its header text and body, and when it is due, if it is delayed."""

    position: int
    place: str
    headers: str
    body: bytes
    due: datetime | None

    def destination(self, tables: Mapping[str, QueueAddress]) -> QueueAddress:
        """Return the queue it is for: the one it was put into, or the one that a delayed message names."""
        table = tables[self.place]
        found = route(self.headers, table) if self.due is not None else None
        return table if found is None else found.destination

    def readable_headers(self) -> dict[str, str | None]:
        """Return its headers; raises MalformedHeadersError."""
        return decode_headers(self.headers)


class LogState(NamedTuple):
    """How all logs stand: consumers that are behind, events after the last tick, events that wait for a retry."""

    behind: int
    fresh: int
    retries: int


def create_record() -> list[Statement[None]]:
    """Create the record where it is missing."""
    script = load_script(f"{_FOLDER}/create_record.sql", failing="Failed to create the record of a test")
    return [Statement(query, {}, no_rows) for query in script]


def record(table: QueueAddress) -> Statement[None]:
    """Have a table's messages noted from now on."""
    names = {"schema": table.schema, "table": table.table}
    query = _load("record", identifiers=names, literals={"place": table.canonical})
    return Statement(query, {}, no_rows)


def position() -> Statement[int]:
    """Ask how far the record goes."""
    return Statement(_load("position"), {}, scalar)


def sent(after: int) -> Statement[list[TableMessage]]:
    """Return what was sent after a position."""
    return Statement(_load("sent"), {"after": after}, _noted)


def one_state() -> Statement[None]:
    """Have a transaction's statements see one state of the database."""
    return Statement(_load("snapshot"), {}, no_rows)


def let_pass(delayed: QueueAddress, time: timedelta) -> Statement[None]:
    """Let time pass for the messages of a table of delayed messages."""
    query = _load("let_pass", identifiers={"schema": delayed.schema, "delayed": delayed.table})
    return Statement(query, {"time": time}, no_rows)


def let_limits_pass(limits: QueueAddress, time: timedelta) -> Statement[None]:
    """Let time pass for the rate limits of an endpoint."""
    query = _load("let_pass_limits", identifiers={"schema": limits.schema, "limits": limits.table})
    return Statement(query, {"time": time}, no_rows)


def log_state() -> Statement[LogState]:
    """Ask how all logs stand."""
    return Statement(_load("logs"), {}, _log_state)


def tick() -> Statement[None]:
    """Tick all logs now."""
    return Statement(_load("tick"), {}, no_rows)


def retry_now() -> list[Statement[None]]:
    """Put all events that wait for a retry back into their logs."""
    return [Statement(_load(name), {}, no_rows) for name in ("retry_now", "move_retries")]


def _load(
    operation: str,
    *,
    identifiers: Mapping[str, str] | None = None,
    literals: Mapping[str, object] | None = None,
) -> Query:
    return load(
        f"{_FOLDER}/{operation}.sql",
        identifiers=identifiers or {},
        literals=literals or {},
        failing="Failed to look after a test's database",
        prepare=False,
    )


def _noted(rows: Rows, _count: int) -> list[TableMessage]:
    return [TableMessage(*row) for row in rows]


def _log_state(rows: Rows, _count: int) -> LogState:
    return LogState._make(rows[0])
