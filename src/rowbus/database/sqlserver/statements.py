"""T-SQL files become statements: text with the driver's marks; values on their way to SQL Server and back.

A file runs unchanged in sqlcmd: `[$(name)]` is an identifier, `N'$(name)'` a value. Loading puts the identifiers into
the text, brackets doubled, and a `?` in place of each value. A value travels as text, or as bytes: drivers differ in
how they type anything else, and in what they make of NULL, so a file casts what it takes and reads `''` as NULL.

`dateadd` counts in int, so a span travels as days and milliseconds. `datetime` columns hold UTC and no offset.

Invariants: an identifier is in the text only between brackets, a value never, except in what `script` shows to people;
a span is rounded up to milliseconds, so that nothing becomes due early.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from rowbus.database.statements import Loader, Text, source
from rowbus.messages.address import refuse_nul

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rowbus.database.statements import Pairs, Rows, Statement
    from rowbus.messages.sqlserver_address import SqlServerAddress

_PLACEHOLDER = re.compile(r"\[\$\((?P<identifier>\w+)\)\](?P<dot>\.?)|N'\$\((?P<value>\w+)\)'")
_QUOTED = r"\[(?:[^\]]|\]\])*\]|(?<!N)'(?:[^']|'')*'"
_VALUE = re.compile(rf"{_QUOTED}|N'\$\((?P<value>\w+)\)'|N'(?:[^']|'')*'")
_MARK = re.compile(rf"{_QUOTED}|N'(?:[^']|'')*'|(?P<mark>\?)|(?P<percent>%)")
_LITERAL_START = "N'$("  # what a literal may not begin with: it would be taken for a value


def _bind(path: str, identifiers: Pairs[str], literals: Pairs[object]) -> Text:
    """Put identifiers in brackets.

    An empty identifier is left out with the dot behind it: a table without a catalog is in the connection's own. The
    driver's text has a `?` for each of its `names`, in their order (a value that the file holds twice is there twice);
    the native one is the file with its identifiers bound.
    """
    given, values = dict(identifiers), dict(literals)
    bound = _PLACEHOLDER.sub(lambda match: _bound(match, given, values), source(path))
    names = tuple(match["value"] for match in _VALUE.finditer(bound) if match["value"])
    text = _VALUE.sub(lambda match: "?" if match["value"] else match[0], bound)
    return Text(text.encode(), bound.encode(), names)


load = Loader(_bind)
"""Loads SQL Server's files."""


def script(statement: Statement[object]) -> str:
    """Return a statement as sqlcmd takes it, its parameters written into it as literals; for people to read and run."""
    parameters = statement.parameters
    native = statement.query.native.decode()
    return _VALUE.sub(
        lambda match: literal(parameters[match["value"]]) if match["value"] else match[0], native
    )


def as_procedure(statement: Statement[object]) -> str:
    """Return a statement as a call of `sp_executesql`: the same text for all its values, which are literals."""
    values = _values(statement)
    given = [f"@given_{place} = {literal(value)}" for place, value in enumerate(values.values(), 1)]
    text, kinds = _declared(statement, values)
    return f"exec sp_executesql {', '.join([text, kinds, *given] if given else [text])};"


def preparation(statement: Statement[object]) -> str:
    """Return a batch that has the server prepare a statement for its session, and answers with the handle."""
    text, kinds = _declared(statement, _values(statement))
    return f"declare @handle int; exec sp_prepare @handle output, {kinds}, {text}; select @handle as handle;"


def as_prepared(handle: int, statement: Statement[object]) -> str:
    """Return a call of a statement that the server has prepared, its values literals."""
    return f"exec sp_execute {', '.join([str(handle), *map(literal, _values(statement).values())])};"


def _declared(statement: Statement[object], values: Mapping[str, str | bytes]) -> tuple[str, str]:
    """Return a statement's text with a variable for each value, and their declarations, as literals."""
    places = {name: f"@given_{place}" for place, name in enumerate(values, 1)}
    text = _VALUE.sub(
        lambda match: places[match["value"]] if match["value"] else match[0], statement.query.native.decode()
    )
    kinds = ", ".join(f"{places[name]} {_kind(value)}" for name, value in values.items())
    return literal(text), literal(kinds)


def _values(statement: Statement[object]) -> dict[str, str | bytes]:
    return {name: adapt(statement.parameters[name]) for name in statement.query.names}


def values(statement: Statement[object]) -> list[str | bytes]:
    """Return a statement's parameters as the driver gets them, one for each mark."""
    return [adapt(statement.parameters[name]) for name in statement.query.names]


def percent_marks(text: str) -> str:
    """Return the text of a query with `%s` for each mark, as pymssql wants it, and every other percent sign doubled."""
    return _MARK.sub(_percent_mark, text)


def adapt(value: object) -> str | bytes:
    """Return a value as it travels: bytes as they are, everything else as text, nothing as the empty text.

    A number's text has no sign but a minus, a truth is `1` or `0`, an identifier is in lower case, a point in time is
    UTC with milliseconds, rounded up, so that nothing becomes due early. Raises TypeError for a time span, whose unit
    its table must choose.
    """
    if isinstance(value, bytes | str):
        return value
    if value is None:
        return ""
    return _TEXTS.get(type(value), _refuse)(value)


def literal(value: object) -> str:
    """Return a value as a T-SQL literal that stands for what `adapt` sends."""
    adapted = adapt(value)
    if isinstance(adapted, bytes):
        return f"0x{adapted.hex()}"
    return "N'" + adapted.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return a name in brackets."""
    return "[" + name.replace("]", "]]") + "]"


def _kind(value: str | bytes) -> str:
    return "varbinary(max)" if isinstance(value, bytes) else "nvarchar(max)"


def _bound(match: re.Match[str], identifiers: Mapping[str, str], literals: Mapping[str, object]) -> str:
    """Put an identifier or a literal into the text; leave the other values as they are."""
    if (name := match["identifier"]) is not None:
        refuse_nul(name, identifiers[name])
        return f"{identifier(identifiers[name])}{match['dot']}" if identifiers[name] else ""
    if (name := match["value"]) not in literals:
        return match[0]
    text = literal(literals[name])
    if text.startswith(_LITERAL_START):
        raise ValueError(f"The literal {name!r} reads like a placeholder.")
    return text


def _percent_mark(match: re.Match[str]) -> str:
    return "%s" if match["mark"] else match[0].replace("%", "%%")


def _point_in_time(value: datetime) -> str:
    utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    beyond = -utc.microsecond % 1000
    return (utc + timedelta(microseconds=beyond)).isoformat(sep="T", timespec="milliseconds")


def _refuse(value: object) -> str:
    raise TypeError(
        f"{type(value).__qualname__} has no text that SQL Server reads; convert it in the table's method."
    )


_TEXTS: dict[type, Callable[[Any], str]] = {
    int: str,
    bool: lambda value: str(int(value)),
    float: repr,
    Decimal: str,
    UUID: str,
    datetime: _point_in_time,
}


_MILLISECOND: Final = timedelta(milliseconds=1)
_DAY: Final = timedelta(days=1)
# SQL Server's dates end with the year 9999; what would last longer ends before that.
LONGEST_SPAN: Final = timedelta(days=2_900_000)


def span(name: str, value: timedelta | None) -> dict[str, int | None]:
    """Return a span as the two parameters `<name>_days` and `<name>_ms`; both are None for no span."""
    if value is None:
        return {f"{name}_days": None, f"{name}_ms": None}
    days, rest = divmod(min(value, LONGEST_SPAN), _DAY)
    return {f"{name}_days": days, f"{name}_ms": -(-rest // _MILLISECOND)}


def aware(value: Any) -> datetime | None:  # noqa: ANN401 - drivers give datetime, or its text
    """Return a column's UTC time as an aware datetime, None as None."""
    if value is None:
        return None
    time = datetime.fromisoformat(value[:26]) if isinstance(value, str) else value
    return time.replace(tzinfo=UTC)


def instant(value: Any) -> datetime:  # noqa: ANN401 - as above
    """Return a column's UTC time, which is not null, as an aware datetime."""
    time = aware(value)
    if time is None:
        raise ValueError("The server returned null for a time.")
    return time


def lines(texts: Iterable[str]) -> str:
    """Return texts, none of which holds a line break, as one; the server splits it again."""
    return "\n".join(texts)


def truth(rows: Rows, _count: int) -> bool:
    """Decode a statement whose answer is 1 or 0."""
    return bool(rows[0][0])


def number(rows: Rows, _count: int) -> int:
    """Decode a statement whose answer is a number of rows."""
    return int(rows[0][0])


def lock_name(kind: str, table: SqlServerAddress, key: str) -> str:
    """Name an application lock on one row of a table, in at most 255 characters."""
    digest = hashlib.sha256(f"{table.canonical}\0{key}".encode()).hexdigest()
    return f"rowbus {kind} {digest}"
