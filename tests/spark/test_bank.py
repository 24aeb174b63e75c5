"""pgbench's bank under load from several clients, replicated and archived by Spark while it changes.

Nobody here wrote the load. In the end each of the four tables and its replica have the same rows, and the archive has
every change, as a consumer of PgQ's own functions has seen them.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from rowbus.database.embedded import find_binaries
from rowbus.spark.pipelines import archive, replicate
from tests.fixtures.pairs import effort

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(400),
]

TABLES = {
    "pgbench_accounts": "aid",
    "pgbench_tellers": "tid",
    "pgbench_branches": "bid",
    "pgbench_history": None,
}
CLIENTS = 4
SECONDS = int(os.environ.get("ROWBUS_TEST_SECONDS", effort("15", "60")))
RATE = 400  # transactions a second that the clients aim at: a stream shares two cores with them
LOG = "bank"
WITNESS = "witness"
TICK = 0.1  # seconds


def pgbench(*arguments: str) -> list[str | Path]:
    return [find_binaries() / "pgbench", *arguments]


def make_bank(connection: psycopg.Connection[Any], dsn: str) -> None:
    """Make pgbench's tables and the log of their changes, and somebody who reads it."""
    subprocess.run(pgbench("-i", "-q", "-s", "1", dsn), check=True, capture_output=True)
    connection.execute("select pgq.create_queue(%s)", (LOG,))
    for name in ("ticker_max_lag", "ticker_idle_period", "rotation_period"):
        connection.execute("select pgq.set_queue_config(%s, %s, '0')", (LOG, name))
    connection.execute("select pgq.register_consumer(%s, %s)", (LOG, WITNESS))
    connection.execute("create table seen (ev_id bigint, ev_type text, ev_data text)")
    for table, key in TABLES.items():
        query = "select pgq.capture_table(%s::regclass, %s, 'json', %s::text[])"
        connection.execute(query, (f"public.{table}", LOG, [] if key else ["insert-only"]))


def look_after(connection: psycopg.Connection[Any]) -> None:
    """Tick, rotate as far as consumers allow, and note what is in the log."""
    connection.execute("select pgq.ticker(%s)", (LOG,))
    connection.execute("select pgq.maint_rotate_tables_step1(%s)", (LOG,))
    connection.execute("select pgq.maint_rotate_tables_step2()")
    while True:
        with connection.transaction():
            batch = connection.execute("select pgq.next_batch(%s, %s)", (LOG, WITNESS)).fetchone()
            if batch is None or batch[0] is None:
                return
            connection.execute(
                "insert into seen select ev_id, ev_type, ev_data from pgq.get_batch_events(%s)", batch
            )
            connection.execute("select pgq.finish_batch(%s)", batch)


@contextmanager
def looked_after(dsn: str) -> Iterator[None]:
    """Look after the log every tenth of a second, in a thread."""
    ended = threading.Event()

    def work() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not ended.wait(TICK):
                look_after(connection)
            look_after(connection)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def load(dsn: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run TPC-B; kill it if the test fails meanwhile."""
    command = pgbench("-n", "-c", str(CLIENTS), "-j", "2", "-T", str(SECONDS), "-R", str(RATE), dsn)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def difference(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    """Give the rows that one of a table and its replica has and the other has not, or has more often."""
    query = """
        (select 'lost', t.* from (table public.{0} except all table replica.{0}) as t)
        union all
        (select 'wrong', t.* from (table replica.{0} except all table public.{0}) as t)
    """
    return connection.execute(sql.SQL(query).format(sql.Identifier(table))).fetchall()


def current_table(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute(
        "select queue_switch_step1 from pgq.queue where queue_name = %s", (LOG,)
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_the_banks_replica_has_its_rows_and_its_archive_every_change(
    log_database: str, spark: SparkSession, spark_folder: Path
) -> None:
    folder = spark_folder / "archive"

    def catch_up() -> None:
        replicate(spark, LOG, source=log_database, checkpoint=str(spark_folder / "replica"))
        archive(spark, LOG, str(folder), dsn=log_database)

    with psycopg.connect(log_database, autocommit=True) as connection:
        make_bank(connection, log_database)
        catch_up()  # from here on nothing is rotated away that one of them has not read
        begun, rounds = current_table(connection), 0
        with load(log_database) as process:
            with looked_after(log_database):
                while process.poll() is None or rounds < 2:
                    catch_up()  # each time it is started anew, from where it was
                    rounds += 1
            assert process.returncode == 0
        catch_up()

        assert [difference(connection, table)[:5] for table in TABLES] == [[]] * len(TABLES)
        seen = {row[0]: row[1:] for row in connection.execute("select ev_id, ev_type, ev_data from seen")}
        (transactions,) = connection.execute("select count(*) from pgbench_history").fetchone() or (0,)
        assert len(seen) == len(TABLES) * transactions > 0
        assert current_table(connection) > begun, "it never rotated"
    archived = spark.read.parquet(str(folder)).select("ev_id", "ev_type", "ev_data").collect()
    assert len(archived) == len(seen)
    assert {row.ev_id: (row.ev_type, row.ev_data) for row in archived} == seen
