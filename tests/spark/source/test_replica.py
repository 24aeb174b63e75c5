"""Reading from a streaming replica: offsets and registration on the primary, events from the replica."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from rowbus.database.embedded import Cluster, find_binaries
from rowbus.database.embedded.directories import make_directory, make_private, server_account
from rowbus.errors import StorageError
from tests.fixtures.database import (
    DEBIAN_15,
    EXTERNAL,
    MEMORY,
    PREPARED,
    THROW_AWAY,
    joined,
    run_directory,
    with_database,
)
from tests.log.orders import Orders
from tests.spark.source.conftest import Streams
from tests.spark.source.reading import Query, datas

pytestmark = pytest.mark.skipif(bool(EXTERNAL), reason="a server that is not ours is not copied")


@pytest.fixture
def replica(orders: Orders) -> Iterator[str]:
    """Give the DSN of the log's database on a streaming replica of the server."""
    fifteen = orders.connection.info.server_version < 16_00_00
    binaries = DEBIAN_15 if fifteen else find_binaries()
    with run_directory(MEMORY) as directory:
        server = Cluster(binaries, directory / "server", settings=PREPARED | THROW_AWAY)
        copy(orders.dsn, server, binaries)
        with joined(server) as dsn:
            yield with_database(dsn, orders.connection.info.dbname)


def copy(dsn: str, server: Cluster, binaries: Path) -> None:
    account = server_account(server.data)
    make_directory(server.directory, account)
    make_private(server.data, account)
    options = ["-d", dsn, "-D", str(server.data), "-R", "-X", "stream", "-c", "fast", "-N"]
    subprocess.run([str(binaries / "pg_basebackup"), *options], check=True, cwd="/", **account.switch)


@pytest.fixture
def on_replica(replica: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(replica, autocommit=True) as connection:
        yield connection


def test_events_are_read_from_a_replica_as_soon_as_it_has_them(
    orders: Orders, stream: Streams, replica: str, on_replica: psycopg.Connection[Any]
) -> None:
    orders.deliver("a")
    query = Query(stream(readDsn=replica))
    assert datas(query.batch() or []) == ["a"]
    on_replica.execute("select pg_wal_replay_pause()")
    orders.deliver("b")
    with ThreadPoolExecutor(1) as threads:
        batch = threads.submit(query.batch)
        with pytest.raises(StillWaiting):
            batch.result(timeout=0.5)
        on_replica.execute("select pg_wal_replay_resume()")
        assert datas(batch.result(timeout=30) or []) == ["b"]
    assert query.batch() is None
    assert orders.position("spark") == (query.at["orders"]["tick"], None)


def test_large_ticks_are_cut_on_a_replica_too(orders: Orders, stream: Streams, replica: str) -> None:
    orders.deliver(*[f"{number} {'x' * 600}" for number in range(300)])
    query = Query(stream(readDsn=replica, minPartitions=2))
    rows = [row["ev_data"] for batch in query.batches(ReadMaxRows(100)) for row in batch]
    assert len(rows) == len(set(rows)) == 300


def test_a_replica_that_is_too_far_behind_fails_the_batch_and_loses_nothing(
    orders: Orders, stream: Streams, replica: str, on_replica: psycopg.Connection[Any]
) -> None:
    query = Query(stream(readDsn=replica, replicaTimeoutMs=200))
    on_replica.execute("select pg_wal_replay_pause()")
    orders.deliver("a")
    with pytest.raises(StorageError, match="replica"):
        query.batch()
    on_replica.execute("select pg_wal_replay_resume()")
    query.reader.stop()
    assert datas(Query(stream(readDsn=replica), query.at).batch() or []) == ["a"]
