"""The server killed between a task's write and the batch's commit."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from rowbus.database.embedded import Cluster, find_binaries
from rowbus.errors import ConfigurationError, StorageError
from tests.fixtures.database import PREPARED, CrashableServer, Server, _place, joined, run_directory
from tests.spark.sink.conftest import Writing, rows

BATCH = rows(id=[1, 2], name=["a", "b"])
MORE = rows(id=[3], name=["c"])
COLUMNS = ["id", "name"]


@pytest.fixture
def server() -> Iterator[CrashableServer]:
    """Give a server of this test's own, on disk, with fsync, that allows prepared transactions."""
    with run_directory(_place(Server("pg18", durable=True))) as directory:
        cluster = Cluster(find_binaries(), directory / "server", settings=PREPARED)
        with joined(cluster):
            yield CrashableServer(cluster)


def prepare(dsn: str) -> Writing:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table goods (id int8 primary key, name text)")
    return Writing(dsn)


def goods(dsn: str) -> list[tuple[int, str]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("select id, name from goods order by id").fetchall()


def test_stages_lost_in_a_crash_fail_the_batch_and_the_next_run_writes_it(server: CrashableServer) -> None:
    writing = prepare(server.dsn)
    options = {"deliver": "table", "table": "goods"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "select txid_current()"
        )  # commits, and so flushes what came before: the stages exist
    server.kill()
    server.start()
    with pytest.raises(StorageError, match="lost"):
        writing.commit(0, messages, COLUMNS, **options)
    writing.abort(0, messages, COLUMNS, **options)
    assert goods(server.dsn) == []
    writing.batch(0, BATCH, MORE, **options)
    assert goods(server.dsn) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_committed_batch_is_known_after_a_crash(server: CrashableServer) -> None:
    writing = prepare(server.dsn)
    for guarantee, batch in (("staged", BATCH), ("prepared", MORE)):
        options = {"deliver": "table", "table": "goods", "exactlyOnce": guarantee}
        number = int(guarantee == "prepared")
        writing.batch(number, batch, **options)
        server.kill()
        server.start()
        writing.batch(number, batch, **options)
    assert goods(server.dsn) == [(1, "a"), (2, "b"), (3, "c")]


def test_prepared_parts_survive_a_crash(server: CrashableServer) -> None:
    writing = prepare(server.dsn)
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    server.kill()
    server.start()
    writing.commit(0, messages, COLUMNS, **options)
    assert goods(server.dsn) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_server_without_prepared_transactions_is_told_apart(crashable_server: CrashableServer) -> None:
    writing = prepare(crashable_server.dsn)
    with pytest.raises(ConfigurationError, match="max_prepared_transactions"):
        writing.tasks(0, BATCH, deliver="table", table="goods", exactlyOnce="prepared")
