"""A queue "q" as tests of schema pgq use it through SQL, call by call."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg.rows import scalar_row

Connect = Callable[[], psycopg.Connection]


def scalar(connection: psycopg.Connection, query: str, *values: object) -> object:
    """Give the single value that a query returns."""
    return connection.cursor(row_factory=scalar_row).execute(query.encode(), values).fetchone()


def insert(connection: psycopg.Connection, *datas: str) -> None:
    """Insert an event for each of the data."""
    for data in datas:
        connection.execute("select pgq.insert_event('q', 't', %s)", [data])


def tick(connection: psycopg.Connection) -> None:
    """Tick now, whatever the rules of quiet times say."""
    connection.execute("select pgq.force_tick('q')")
    assert scalar(connection, "select pgq.ticker('q')") is not None


def consume(connection: psycopg.Connection, consumer: str = "c") -> list[str]:
    """Give what the next batch contains, and finish it."""
    batch = scalar(connection, "select pgq.next_batch('q', %s)", consumer)
    assert batch is not None
    found = connection.execute("select ev_data from pgq.get_batch_events(%s)", [batch]).fetchall()
    assert scalar(connection, "select pgq.finish_batch(%s)", batch) == 1
    return [data for (data,) in found]
