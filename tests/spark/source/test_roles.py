"""What a role that reads the log with Spark needs: what `rowbus schema grants --log --receive` prints, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from rowbus.database.statements import script
from rowbus.log.schema import table as log_schema
from tests.log.orders import Orders
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Query, datas

ROLE = "rowbus_test_spark_reader"


@pytest.fixture
def reader_dsn(orders: Orders, pgq: psycopg.Connection[Any]) -> Iterator[str]:
    """Give the connection string of a role that has exactly what is printed."""
    pgq.execute(f"drop role if exists {ROLE}; create role {ROLE}")
    for statement in (log_schema.set_grants("new"), log_schema.grant_role("pgq_reader", ROLE)):
        pgq.execute(script(statement).encode())
    yield make_conninfo(orders.dsn, options=f"-c role={ROLE}")
    pgq.execute(f"drop owned by {ROLE}; drop role {ROLE}")


def test_a_source_reads_and_follows_a_log_with_what_is_granted(
    orders: Orders, stream: Streams, reader_dsn: str
) -> None:
    orders.deliver("a", "b")
    query = Query(stream(dsn=reader_dsn))
    assert datas(query.batch() or []) == ["a", "b"]
    orders.deliver("c")
    assert datas(query.batch() or []) == ["c"]


@pytest.mark.parametrize(
    "refused",
    ["select pgq.insert_event('orders', 't', 'd')", "delete from pgq.event_1", "create schema rowbus_spark"],
)
def test_a_source_neither_writes_nor_makes_anything(reader_dsn: str, refused: str) -> None:
    with psycopg.connect(reader_dsn) as connection, pytest.raises(errors.InsufficientPrivilege):
        connection.execute(refused.encode())
