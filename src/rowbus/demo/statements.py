"""The demo's SQL: files in `sql/` that psql can run, for handlers and for the programs around them.

Handlers execute the text on their own connection, `context.connection`; the programs around them run it on a session.

Invariant: nothing is ever formatted into a statement; values travel as parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rowbus.database.statements import Row, Rows, Statement, load

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

T = TypeVar("T")


def sql(name: str) -> bytes:
    """Return the text of `sql/<name>.sql` as psycopg takes it: psql's `:'value'` becomes `%(value)s`."""
    return load(f"demo/sql/{name}.sql").text


def ask(session: Session, name: str, make: Callable[[Row], T], **parameters: object) -> list[T]:
    """Run `sql/<name>.sql` and return its rows, each through `make`; raises StorageError."""
    query = load(f"demo/sql/{name}.sql", failing=f"The demo failed at {name}", prepare=False)

    def decode(rows: Rows, _count: int) -> list[T]:
        return [make(row) for row in rows]

    return session.run(Statement(query, parameters, decode))


def execute(session: Session, name: str, **parameters: object) -> None:
    """Run `sql/<name>.sql` in the session's transaction; raises StorageError."""
    ask(session, name, tuple, **parameters)
