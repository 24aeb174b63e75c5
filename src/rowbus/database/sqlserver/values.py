"""Values on their way to SQL Server and back: spans of time, points in time, several texts in one.

`dateadd` counts in int, so a span travels as days and milliseconds. `datetime` columns hold UTC and no offset.

Invariant: a span is rounded up to milliseconds, so that nothing becomes due early.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.statements import Rows
    from rowbus.messages.sqlserver_address import SqlServerAddress

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
