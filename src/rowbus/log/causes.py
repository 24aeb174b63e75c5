"""Causes of captured changes: said in a transaction, read from an event, and asked for by a row or by a message.

Invariants: asking locks and changes nothing, and tells a change only where its row's key, or its cause's message, is
exactly the one asked for; reading takes any text, and raises nothing, because the field is free for events of other
kinds; what is said is said for one transaction. Source: docs/wire-format.md#causes.
"""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.database.postgresql.cause import cause_values
from rowbus.database.postgresql.pipelines import is_callers
from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError
from rowbus.errors.strangers import printable_value
from rowbus.log.event import DELETE, INSERT, TRUNCATE, UPDATE, EventKind, decode_row, kind_of
from rowbus.log.queries import log_query
from rowbus.messages.headers import Header
from rowbus.running.handling import subject_in_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rowbus.database.postgresql.connection import AsyncSession, Session
    from rowbus.database.statements import Rows


_WORDS: Final = {INSERT: "insert", UPDATE: "update", DELETE: "delete", TRUNCATE: "truncate"}


class Cause(NamedTuple):
    """The cause of a change; what is not known is None."""

    message_id: str | None = None
    """The message's id; `log/event`, or `log/first-last`, where a consumer of events made the change."""

    conversation_id: str | None = None
    message_type: str | None = None
    handler: str | None = None
    endpoint: str | None = None
    user: str | None = None
    request: str | None = None


NO_CAUSE: Final = Cause()


def read_cause(text: str | None) -> Cause:
    """Return the cause that the last extra field of a captured change tells; `NO_CAUSE` where it tells none."""
    if not text or not text.startswith("{"):
        return NO_CAUSE
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return NO_CAUSE
    given = cast("dict[str, Any]", found if isinstance(found, dict) else {})
    return Cause(*(_text_of(given.get(name)) for name in Cause._fields))


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def cause(connection: object, *, user: str | None = None, request: str | None = None) -> dict[str, str]:
    """Say in your transaction who changes rows of captured tables, and in which request; return what messages carry on.

    It holds until the transaction ends, for the changes that follow. Give the headers that are returned to what you
    send, `headers=`: handlers' changes then say it too, and those of all messages that they send. The connection is one
    that `Log` takes. Within a handler, its message stays what caused the change. Raises ConfigurationError outside of a
    transaction, for the statement would be all that it held for, and StorageError.
    """
    session = borrow(connection)()
    session.run(_said(session, user, request))
    return _headers(user, request)


async def cause_async(
    connection: object, *, user: str | None = None, request: str | None = None
) -> dict[str, str]:
    """Do what `cause` does, on an asynchronous connection."""
    session = await borrow_async(connection)()
    await session.run(_said(session, user, request))
    return _headers(user, request)


def _said(session: Session | AsyncSession, user: str | None, request: str | None) -> Statement[None]:
    if not is_callers(session.connection):
        raise ConfigurationError(
            "What causes a change is said for a transaction, and the connection is in none: begin one before, as by "
            "`with connection.transaction():`."
        )
    subject = subject_in_hand()
    parts = {} if subject is None else dict(subject.cause())
    for name, text in (("user", user), ("request", request)):
        if text is not None:
            parts[name] = _checked(name, text)
    return cause_values(parts, session.connection.pgconn)


def _headers(user: str | None, request: str | None) -> dict[str, str]:
    given = {Header.USER: user, Header.REQUEST: request}
    return {name: text for name, text in given.items() if text}


def _checked(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise ConfigurationError(f"{name} is {printable_value(text, repr)}; give a text.")
    return text


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
    """A row of `causes/changes.sql`."""

    log: str
    event: int
    time: datetime
    transaction: int
    type: str | None
    data: str | None
    table: str
    extra4: str | None
    types: Mapping[str, str] | None
    """The names of the types of the columns that the table has now, of those that are PostgreSQL's own."""


def row_changes(table: str, key: Sequence[str]) -> Statement[list[CausedChange]]:
    """List the changes of one row, by the values of its key in their order, and those that emptied its table.

    Values are texts of any form that PostgreSQL takes for the column's type as the same number, time, id or boolean; of
    other types, and those that a mask hides, they are texts as it writes them. Of a partitioned table, rows of all its
    partitions are looked for. Reads all events of all logs. Raises ConfigurationError for another number of values than
    the key has, and StorageError.
    """
    plain = max((value for value in key if _is_plain(value)), key=len, default=None)

    def decode(rows: Rows, _count: int) -> list[CausedChange]:
        types: Mapping[str, str] = _ChangeRow._make(rows[0]).types or {} if rows else {}
        found = [*_changes(rows)]
        keys = {tuple(change.key) for change in found if change.key}
        if keys and all(len(names) != len(key) for names in keys):
            names = ", ".join(max(keys))
            raise ConfigurationError(f"The key of {table} is ({names}): give as many values, in this order.")
        return [change for change in found if change.operation == "truncate" or _is_key(change, key, types)]

    return _statement(f"Failed to trace a row of {table}", decode, table=table, in_data=plain)


def _is_key(change: CausedChange, key: Sequence[str], types: Mapping[str, str]) -> bool:
    return len(change.key) == len(key) and all(
        held == given
        or (held is not None and _value(held, types.get(name)) == _value(given, types.get(name)))
        for (name, held), given in zip(change.key.items(), key, strict=True)
    )


def _value(text: str, type_name: str | None) -> object:
    """Return the value that a text of a type means, where it may have several forms; else the text."""
    try:
        return _MEANINGS[type_name](text) if type_name in _MEANINGS else text
    except (ValueError, ArithmeticError):
        return text


_MEANINGS: Final[Mapping[str | None, Callable[[str], object]]] = {
    "bool": {"t": True, "true": True, "f": False, "false": False}.get,
    **dict.fromkeys(("float4", "float8", "numeric"), Decimal),
    **dict.fromkeys(("timestamp", "timestamptz"), datetime.fromisoformat),
    "uuid": str.lower,
    "bpchar": str.rstrip,
}


def message_changes(message_id: str) -> Statement[list[CausedChange]]:
    """List what the handlers of one message changed. Reads all events of all logs. Raises StorageError."""

    def decode(rows: Rows, _count: int) -> list[CausedChange]:
        return [change for change in _changes(rows) if change.cause.message_id == message_id]

    return _statement(
        "Failed to trace a message", decode, in_cause=message_id if _is_plain(message_id) else ""
    )


def _statement(failing: str, decode: Any, **given: str | None) -> Statement[list[CausedChange]]:  # noqa: ANN401 - a decoder
    parameters = {"table": None, "in_data": None, "in_cause": None, **given}
    return Statement(log_query("causes/changes", failing, log=""), parameters, decode)


def _changes(rows: Rows) -> Iterator[CausedChange]:
    for row in rows:
        found = _ChangeRow._make(row)
        kind = _kind(found.type)
        if kind is not None and kind.operation in _WORDS:
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
    """Say whether this text stands for the value in every format, apart from its case."""
    return value.isascii() and value.replace("-", "").isalnum() and value not in {"true", "false"}
