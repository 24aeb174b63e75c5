"""Rights of a role that reads the log with Spark: `rowbus schema grants --log --receive`, and no more."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from tests.log.orders import Orders
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Query, datas


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
