"""Events of a log, the ticks and batches that divide it, and the changes of rows that events tell.

Changes are read in two formats: that of `pgq.jsontriga` (the type is a JSON object) and that of `pgq.logutriga`
(`I:id`, `U:id`, `D:id`, `R`; the data is URL-encoded). `pgq.sqltriga` writes ends of SQL statements, which cannot be
applied safely to another table. Source: docs/wire-format.md#trigger-formats.

Invariants: an event's fields are in the order of the columns of `pgq.get_batch_events`, so that a row becomes an event
as it is (docs/wire-format.md#log-tables and docs/wire-format.md#batches); a changed row is a JSON object whose values,
read as text (`->>` in PostgreSQL), are the text forms of its columns; no digit and no NULL is lost on the way.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from rowbus.errors import ConfigurationError
from rowbus.running.bounded import LONGEST_REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


INSERT: Final = "I"
UPDATE: Final = "U"
DELETE: Final = "D"
TRUNCATE: Final = "T"
ALTER: Final = "A"
"""The table has another shape, or is gone: not a change of rows, and nothing to tell rows by."""

RENAME: Final = "N"
"""The table of this name is or was another: rows that were written under the other name are not told of it."""

_OPERATIONS: Final = {
    "INSERT": INSERT,
    "UPDATE": UPDATE,
    "DELETE": DELETE,
    "TRUNCATE": TRUNCATE,
    "ALTER": ALTER,
    "DROP": ALTER,
}
_LETTERS: Final = {"I": INSERT, "U": UPDATE, "D": DELETE}
_EMPTY: Final = "{}"
_TYPES_REMEMBERED: Final = 10_000  # one for each table, operation and key

Row = dict[str, str | None]


class Event(NamedTuple):
    """One event of a log, as a consumer is given it."""

    id: int
    """Its number in the log. Numbers are given when events are written, not when they commit."""

    time: datetime
    """When it was written: the start of the writing transaction."""

    txid: int
    """The transaction that wrote it; of an event that was retried, the one that put it back."""

    retry: int | None
    """The number of times this consumer has retried it; None at the first delivery."""

    type: str | None
    data: str | None
    extra1: str | None = None
    extra2: str | None = None
    extra3: str | None = None
    extra4: str | None = None

    def json(self) -> object:
        """Return the data, read as JSON (None for NULL). Raises ValueError."""
        return None if self.data is None else json.loads(self.data)


class Tick(NamedTuple):
    """A point in a log: everything committed before it is behind it."""

    id: int
    time: datetime
    event_seq: int
    """The event sequence when it was made: a hint of how many events lie between two ticks, no more."""


class Batch(NamedTuple):
    """The events between two ticks, held by one consumer."""

    id: int
    from_tick: int
    """The consumer's last tick: its events are not in the batch."""

    to_tick: int
    from_time: datetime
    to_time: datetime


class DeadEvent(NamedTuple):
    """An event that a consumer has given up on."""

    id: int
    """The dead letter's number, not the event's."""

    time: datetime
    """When it was given up on."""

    reason: str
    event: Event


# Changes of rows.


class RowChange(NamedTuple):
    """A change of one row of a table, or of all of them."""

    table: str
    """Schema and table, joined by a dot and without quotes, as triggers write them to `extra1`."""

    operation: str
    key: tuple[str, ...]
    """The columns of the key, in its order; empty for a table without one, and for TRUNCATE."""

    row: str
    """The row as a JSON object: the new one, of a DELETE the old one; `{}` for TRUNCATE."""


class EventKind(NamedTuple):
    """The operation, key and format that an event's type names."""

    operation: str
    key: tuple[str, ...]
    is_json: bool


def changes_in(
    type_: str | None, data: str | None, extra1: str | None, extra2: str | None
) -> tuple[RowChange, ...]:
    """Return the row changes of an event: none for events of other origin, two for an update of a key.

    A change of a table's shape is an ALTER or, of both names, a RENAME.

    An update shows its old key only where the trigger has the argument `backup`; then it is a DELETE of the old key and
    an UPDATE of the new one. Raises ConfigurationError for events of sqltriga, ValueError for data that does not
    match its type.
    """
    kind = kind_of(type_)
    if kind is None or not extra1:
        return ()
    if kind.operation == TRUNCATE:
        return (RowChange(extra1, TRUNCATE, (), _EMPTY),)
    if kind.operation == ALTER:
        return _changes_of_shape(data or "")
    row = _as_json(data or "", kind)
    change = RowChange(extra1, kind.operation, kind.key, row)
    if kind.operation != UPDATE or not extra2:
        return (change,)
    before = _as_json(extra2, kind)
    if _key_values(before, kind.key) == _key_values(row, kind.key):
        return (change,)
    return (RowChange(extra1, DELETE, kind.key, before), change)


def _changes_of_shape(data: str) -> tuple[RowChange, ...]:
    try:
        told = json.loads(data)
        names = {".".join(told[when]["table"]) for when in ("before", "after") if told[when]}
    except (ValueError, KeyError, TypeError):
        return ()  # a user's own event
    operation = ALTER if len(names) == 1 else RENAME
    return tuple(RowChange(name, operation, (), _EMPTY) for name in sorted(names))


def kind_of(type_: str | None) -> EventKind | None:
    """Decode an event's type; None for types that no trigger writes."""
    if not type_:
        return None
    return _remembered_kind(type_) if len(type_) <= LONGEST_REMEMBERED else _read_kind(type_)


def _read_kind(type_: str) -> EventKind | None:
    if type_.startswith("{"):
        return _json_kind(type_)
    if type_ == "R":
        return EventKind(TRUNCATE, (), is_json=False)
    letter, colon, key = type_.partition(":")
    if letter in _LETTERS and colon:
        return EventKind(_LETTERS[letter], tuple(filter(None, key.split(","))), is_json=False)
    if type_ in _LETTERS:
        raise ConfigurationError(
            f"An event of type {type_!r} was written by a trigger of the format sql, which cannot be replicated; "
            "capture the table with --format json."
        )
    return None


_remembered_kind = lru_cache(maxsize=_TYPES_REMEMBERED)(_read_kind)


def decode_row(data: str) -> Row:
    """Decode a row that `pgq.logutriga` wrote; a column without `=` is NULL."""
    return dict(_pairs(data))


def _pairs(data: str) -> Iterator[tuple[str, str | None]]:
    for pair in filter(None, data.split("&")):
        name, equals, value = pair.partition("=")
        yield unquote_plus(name), unquote_plus(value) if equals else None


def _json_kind(type_: str) -> EventKind | None:
    try:
        said = json.loads(type_)
        return EventKind(_OPERATIONS[said["op"]], tuple(said["pkey"]), is_json=True)
    except (ValueError, KeyError, TypeError):
        return None  # a user's own type that begins with a brace


def _as_json(data: str, kind: EventKind) -> str:
    return data if kind.is_json else json.dumps(decode_row(data), ensure_ascii=False)


def _key_values(row: str, key: tuple[str, ...]) -> list[object]:
    values: Mapping[str, object] = json.loads(row)
    return [values.get(name) for name in key]
