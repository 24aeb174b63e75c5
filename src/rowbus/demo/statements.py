"""The demo's SQL: files in `sql/` that psql can run, for handlers and for the programs around them.

Handlers execute the text on their own connection, `context.connection`; the programs around them run it on a session.

Invariant: nothing is ever formatted into a statement; values travel as parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Row, Rows, Statement, load, load_script, no_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.database.sessions import Session


def sql(name: str) -> bytes:
    """Return the text of `sql/<name>.sql` as psycopg takes it: psql's `:'value'` becomes `%(value)s`."""
    return load(f"demo/sql/{name}.sql").text


def ask(session: Session, name: str, **parameters: object) -> list[Row]:
    """Run `sql/<name>.sql`, one statement, and return its rows; raises StorageError."""
    query = load(f"demo/sql/{name}.sql", failing=f"The demo failed at {name}", prepare=False)
    return session.run(Statement(query, parameters, _rows))


def run_script(session: Session, name: str) -> None:
    """Run the statements of `sql/<name>.sql`, one after the other; raises StorageError."""
    for query in load_script(f"demo/sql/{name}.sql", failing=f"The demo failed at {name}"):
        session.run(Statement(query, {}, no_rows))


def run_texts(session: Session, texts: Iterable[str]) -> None:
    """Run the statements that Rowbus gives for migrations, word for word; raises StorageError."""
    for text in texts:
        escaped = text.replace("%", "%%").encode()
        query = Query(escaped, text.encode(), (), "The demo failed to make its tables", prepare=False)
        session.run(Statement(query, {}, no_rows))


def _rows(rows: Rows, _count: int) -> list[Row]:
    return list(rows)
