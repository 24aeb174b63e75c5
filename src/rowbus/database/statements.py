"""SQL files become statements: text with safe placeholders, parameters, and how to read the rows.

A file runs unchanged in psql: `:"name"` is an identifier, `:'name'` a value. Loading quotes the identifiers through
the driver and leaves the values to it as parameters. A table's method returns a `Statement`; a connection, sync or
async, runs it, so that each operation is written once.

Invariant: this is the only place that vouches for SQL text, and nothing is ever formatted into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeVar

from psycopg import sql

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Row = tuple[Any, ...]  # columns have the types their decoder states; the driver cannot know them
Rows = Sequence[Row]
Decode = Callable[[Rows, int], T]

_PLACEHOLDER = re.compile(r""":"(?P<identifier>\w+)"|:'(?P<value>\w+)'""")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


class Query(NamedTuple):
    """The text of one SQL file, bound to its identifiers; ready for the driver.

    `failing` begins the message of any error ("Failed to send message to …"); `queue` names the table whose absence
    is a `QueueNotFoundError`; `prepare` keeps the parsed statement on the server, where the connection allows it.
    """

    text: bytes
    failing: str
    queue: str | None = None
    prepare: bool = True


class Statement(NamedTuple, Generic[T_co]):
    """One execution of a query: its parameters and how its rows are read."""

    query: Query
    parameters: Mapping[str, object]
    decode: Decode[T_co]


def load(
    path: str,
    *,
    identifiers: Mapping[str, str] | None = None,
    literals: Mapping[str, object] | None = None,
    failing: str = "The database refused",
    queue: str | None = None,
    prepare: bool = True,
) -> Query:
    """Read `sql/<path>` and bind its identifiers, quoted by the driver; values remain parameters.

    `literals` are values written into the text, quoted, for DDL, which takes no parameters. Raises KeyError for an
    identifier that the file asks for and the call lacks.
    """
    names, values = identifiers or {}, literals or {}

    def bind(match: re.Match[str]) -> str:
        if (name := match["identifier"]) is not None:
            return _doubled(sql.Identifier(names[name]))
        if (name := match["value"]) in values:
            return _doubled(sql.Literal(values[name]))
        return f"%({name})s"

    return Query(_PLACEHOLDER.sub(bind, source(path)).encode(), failing, queue, prepare)


@cache
def source(path: str) -> str:
    """Return the text of `sql/<path>` without its comments, with `%` doubled as the driver wants it."""
    text = files("rowbus.database").joinpath("sql", path).read_text(encoding="utf-8")
    return _COMMENT.sub("", text).strip().replace("%", "%%")


def _doubled(part: sql.Composable) -> str:
    return part.as_string(None).replace("%", "%%")


def no_rows(_rows: Rows, _count: int) -> None:
    """Decode a statement that answers nothing."""


def affected(_rows: Rows, count: int) -> int:
    """Decode a statement whose answer is how many rows it touched."""
    return count


def scalar(rows: Rows, _count: int) -> Any:  # noqa: ANN401 - the type of a column is known to the caller only
    """Decode a statement whose answer is one value."""
    return rows[0][0]
