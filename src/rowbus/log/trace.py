"""Who changed a row, and what a message changed: changes of captured tables that logs still hold, with their causes.

Invariants: nothing is locked or changed; a change is told only where its row's key, or its cause's message, is exactly
the one asked for.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError
from rowbus.log.cause import Cause, read_cause
from rowbus.log.queries import log_query
from rowbus.log.row_change import DELETE, INSERT, TRUNCATE, UPDATE, EventKind, decode_row, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from rowbus.database.statements import Rows

_WORDS: Final = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate"}


class CausedChange(NamedTuple):
    """A change of a row, and what caused it."""

    log: str
    event: int
    time: datetime
    """When the transaction began that made it."""

    transaction: int
    table: str
    operation: str
    key: Mapping[str, str | None]
    """The row's key as texts; empty for TRUNCATE, and where the event does not show it."""

    cause: Cause


class _ChangeRow(NamedTuple):
    """A row of `trace/changes.sql`."""

    log: str
    event: int
    time: datetime
    transaction: int
    type: str | None
    data: str | None
    table: str
    extra4: str | None


def row_changes(table: str, key: Sequence[str]) -> Statement[list[CausedChange]]:
    """List the changes of one row, by the values of its key in their order, and those that emptied its table.

    Values are texts as PostgreSQL writes them; those that a mask hides are looked for as it writes them. Reads all
    events of all logs. Raises StorageError.
    """
    plain = max((value for value in key if _is_plain(value)), key=len, default=None)

    def decode(rows: Rows, _count: int) -> list[CausedChange]:
        changes = _changes(rows)
        return [
            change for change in changes if change.operation == "truncate" or [*change.key.values()] == [*key]
        ]

    return _statement(f"Failed to trace a row of {table}", decode, table=table, in_data=plain)


def message_changes(message_id: str) -> Statement[list[CausedChange]]:
    """List what the handlers of one message changed. Reads all events of all logs. Raises StorageError."""

    def decode(rows: Rows, _count: int) -> list[CausedChange]:
        return [change for change in _changes(rows) if change.cause.message_id == message_id]

    return _statement("Failed to trace a message", decode, in_cause=json.dumps(message_id))


def _statement(failing: str, decode: Any, **given: str | None) -> Statement[list[CausedChange]]:  # noqa: ANN401 - a decoder
    parameters = {"table": None, "in_data": None, "in_cause": None, **given}
    return Statement(log_query("trace/changes", failing), parameters, decode)


def _changes(rows: Rows) -> Iterator[CausedChange]:
    for row in rows:
        found = _ChangeRow._make(row)
        kind = _kind(found.type)
        if kind is not None:
            operation, cause = _WORDS[kind.operation], read_cause(found.extra4)
            yield CausedChange(*found[:4], found.table, operation, _key(found.data, kind), cause)


def _kind(type_: str | None) -> EventKind | None:
    try:
        return kind_of(type_)
    except ConfigurationError:  # the format sql, whose data does not show the key
        return EventKind(cast("str", type_), (), is_json=False)


def _key(data: str | None, kind: EventKind) -> dict[str, str | None]:
    """Return the key that data shows, as texts."""
    if not kind.is_json:
        row: Mapping[str, object] = decode_row(data or "")
    else:
        try:
            found: object = json.loads(data or "", parse_int=str, parse_float=str)
        except (ValueError, RecursionError):
            return {}
        row = cast("Mapping[str, object]", found) if isinstance(found, dict) else {}
    return {name: _text(row.get(name)) for name in kind.key}


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_plain(value: str) -> bool:
    """Say whether all formats write a value's text as it is."""
    return value.isascii() and value.replace("-", "").isalnum()
