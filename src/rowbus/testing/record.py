"""Statements of tests on what was sent, how queues and logs stand, and time that passes; and the next move of `drain`.

Invariants: a message is in the record when its transaction has committed, and once. `next_move` and `time_to_pass` are
pure; their times are spans by the database's clock.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Query, Statement, load, load_script, no_rows, scalar
from rowbus.messages.headers import decode_headers
from rowbus.transport.delayed.policy import route

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.database.statements import Rows
    from rowbus.messages.address import QueueAddress

_FOLDER = "testing/sql/postgresql"
NOTHING = timedelta()


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
    """The state of all logs: consumers that are behind, events after the last tick, events that wait for a retry."""

    behind: int
    fresh: int
    retries: int


class State(NamedTuple):
    """The state of all at one moment: messages in queues, when the next delayed one is due, consumers and events.

    `next_due` is None when no message is delayed, and not positive when one is due now.
    """

    queued: int
    next_due: timedelta | None
    behind: int = 0
    fresh: int = 0
    retries: int = 0

    @property
    def is_due(self) -> bool:
        """Whether a delayed message is due, and about to be moved."""
        return self.next_due is not None and self.next_due <= NOTHING

    def __str__(self) -> str:
        """Return what is left, in words."""
        left = {
            "messages in queues": self.queued,
            "delayed messages": int(self.next_due is not None),
            "consumers that are behind": self.behind,
            "events that wait for a tick": self.fresh,
            "events that wait for a retry": self.retries,
        }
        return ", ".join(
            f"{what}: {'some' if what[0] == 'd' else count}" for what, count in left.items() if count
        )


class Move(Enum):
    """The work that is to be done."""

    WAIT = "wait for what is being processed"
    RETRY = "have the events that failed come again"
    TICK = "tick the logs"
    ADVANCE = "let time pass until the next delayed message"
    END = "nothing is left"


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


def next_move(state: State, *, ticked: bool, left: timedelta | None) -> Move:
    """Say what to do; `ticked`: the logs were ticked since a queue held something; `left`: time that may pass.

    None: as much as the delayed messages need.
    """
    if state.queued or state.is_due or state.behind:
        return Move.WAIT
    if state.retries:
        return Move.RETRY
    if state.fresh or not ticked:
        return Move.TICK
    return Move.END if (left is None and state.next_due is None) or left == NOTHING else Move.ADVANCE


def time_to_pass(next_due: timedelta | None, left: timedelta | None) -> timedelta:
    """Say how much time is to pass: until the next delayed message, or what is left of the time, if that is less."""
    if next_due is None:
        return left or NOTHING
    return next_due if left is None else min(next_due, left)


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
