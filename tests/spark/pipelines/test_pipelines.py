"""The pipelines in a real Spark: each event once, nothing lost, wherever a run begins or ends."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, LogNotFoundError, StorageError
from rowbus.log.log import Log
from rowbus.messages.address import QueueAddress
from rowbus.spark.lake.tables.comparison import compare_tables
from rowbus.spark.lake.tables.folder import TableFormat
from rowbus.spark.pipelines import (
    LakeReport,
    ReplicaReport,
    archive,
    compact,
    lake,
    release_committed,
    replay,
    replicate,
)
from rowbus.spark.pipelines.event_replay import Choice, read_archive
from rowbus.spark.pipelines.query_run import Progress, Stop
from rowbus.transport.queues.postgresql import QueueTable
from tests.spark.pipelines.shop import Shop
from tests.spark.pipelines.test_replica import FILL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.one_version, pytest.mark.timeout(600)]


def append(shop: Shop, numbers: range, type_: str = "made") -> None:
    for number in numbers:
        shop.connection.execute("select pgq.insert_event('changes', %s, %s)", [type_, f'{{"n": {number}}}'])
    shop.tick()


def ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row.ev_id for row in spark.read.parquet(str(path)).select("ev_id").collect())


def written(shop: Shop) -> list[int]:
    return [event.id for event in Log(shop.dsn, "changes").read()]


def position(shop: Shop, consumer: str) -> int:
    return int(shop.one(f"select last_tick from pgq.get_consumer_info('changes', '{consumer}')"))


def files(path: Path) -> list[Path]:
    return list(path.glob("log=*/date=*/*.parquet"))


def test_an_archive_has_each_event_once_run_after_run_and_holds_back_nothing(
    spark: SparkSession, shop: Shop, spark_folder: Path
) -> None:
    path = spark_folder / "archive"
    append(shop, range(10))
    first = archive(spark, "changes", path, dsn=shop.dsn, max_events_per_batch=4)
    assert first.events == 10
    assert (
        position(shop, "archive")
        == first.released["changes"]
        == shop.one("select max(tick_id) from pgq.tick")
    )
    older = shutil.copytree(path / "_checkpoint", spark_folder / "older")
    append(shop, range(10, 15))
    assert archive(spark, "changes", path, dsn=shop.dsn).events == 5
    assert archive(spark, "changes", path, dsn=shop.dsn).events == 0
    rows = spark.read.parquet(str(path)).orderBy("ev_id").collect()
    told = list(Log(shop.dsn, "changes").read())
    assert [
        (row.ev_id, row.ev_time.replace(tzinfo=UTC), row.ev_txid, row.ev_type, row.ev_data) for row in rows
    ] == [(event.id, event.time, event.txid, event.type, event.data) for event in told]
    committed = files(path)
    leftover = committed[0].with_name("part-00000-of-a-batch-that-failed.c000.snappy.parquet")
    shutil.copy(committed[0], leftover)
    # From an older checkpoint Spark would skip the batches that the archive has, whatever they read now.
    with pytest.raises(ConfigurationError, match="the checkpoint is older"):
        archive(spark, "changes", path, dsn=shop.dsn, checkpoint=older)
    # So with one that was emptied.
    shutil.rmtree(path / "_checkpoint")
    with pytest.raises(ConfigurationError, match=r"checkpoint .* is gone or empty"):
        archive(spark, "changes", path, dsn=shop.dsn)
    again = archive(spark, "changes", path, dsn=shop.dsn, start_over=True)
    assert ids(spark, path) == [event.id for event in told]
    assert again.aside is not None
    assert ids(spark, Path(again.aside)) == [event.id for event in told]
    assert {file.name for file in files(Path(again.aside))} == {
        *(file.name for file in committed),
        f"_{leftover.name}",
    }


@pytest.mark.slow
def test_a_query_that_follows_goes_on_when_its_workers_and_sessions_are_killed(
    spark: SparkSession, shop: Shop, spark_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stop, appended = Stop(), [3]

    def watch(progress: Progress) -> None:
        if progress.events == appended[0] == 6:
            stop()
        elif progress.events == appended[0]:
            shop.connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'rowbus spark%'"
            )
            kill_workers(spark)
            append(shop, range(3, 6))
            appended[0] = 6

    append(shop, range(3))
    archive(spark, "changes", spark_folder / "archive", dsn=shop.dsn, follow=True, watch=watch, stop=stop)
    assert ids(spark, spark_folder / "archive") == written(shop)
    assert "The query fails" in caplog.text


def kill_workers(spark: SparkSession) -> None:
    """Kill the processes of Python's that Spark has begun, but for the daemons that begin them.

    Each process that waits for work fails one of the session's next calls if its daemon is gone: in other tests.
    """
    java: Any = spark.sparkContext._gateway
    family, known = {java.proc.pid}, parents()
    for _generation in range(3):
        family |= {pid for pid, parent in known.items() if parent in family}
    for pid in family:
        is_daemon = b"pyspark.daemon" in command(pid) and b"pyspark.daemon" not in command(known[pid])
        if b"pyspark" in command(pid) and b"java" not in command(pid) and not is_daemon:
            os.kill(pid, signal.SIGKILL)


def parents() -> dict[int, int]:
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    return found


def command(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_a_parquet_archive_is_not_compacted_and_the_error_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(ConfigurationError, match=r"only Delta archives .* --format delta, or rewrite"):
        compact(tmp_path)


def test_a_folder_without_an_archive_is_not_compacted(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no archive"):
        compact(tmp_path)


@pytest.mark.slow
def test_a_delta_archive_has_each_event_once_also_compacted_and_replayed(
    spark: SparkSession, shop: Shop, spark_folder: Path
) -> None:
    path = spark_folder / "archive"

    def archived() -> list[int]:
        return sorted(row.ev_id for row in read_archive(spark, path, "delta").collect())

    for start in range(0, 15, 5):
        append(shop, range(start, start + 5))
        assert archive(spark, "changes", path, dsn=shop.dsn, form="delta").events == 5
        assert archived() == written(shop)
    assert archive(spark, "changes", path, dsn=shop.dsn, form="delta").events == 0

    done = compact(path)

    assert done.files_after < done.files_before
    assert archived() == written(shop)
    append(shop, range(15, 20))
    archive(spark, "changes", path, dsn=shop.dsn, form="delta")
    assert archived() == written(shop)
    shop.connection.execute("select pgq.create_queue('again')")
    choice = Choice(where="ev_id % 2 = 0")
    done_again = replay(spark, path, into_log="again", dsn=shop.dsn, choice=choice, form="delta")
    assert done_again.events == sum(number % 2 == 0 for number in written(shop)) > 0


@pytest.mark.slow
def test_a_replica_follows_in_spark(spark: SparkSession, shop: Shop, spark_folder: Path) -> None:
    def bring_up_to_date(*, copy_again: bool = False) -> ReplicaReport:
        shop.tick()
        return replicate(
            spark,
            "changes",
            source=shop.dsn,
            schema="copy",
            consumer="copier",
            checkpoint=spark_folder / "replica",
            max_events_per_batch=5,
            copy_again=copy_again,
        )

    shop.connection.execute(FILL.format(count=30))
    first = bring_up_to_date()
    assert first.copied == {"public.Line items": 30, "public.orders": 30, "public.readings": 30}
    assert shop.differences() == []
    shop.connection.execute("delete from orders where id % 2 = 0")
    shop.connection.execute("update orders set customer = customer || '!', facts = null")
    shop.connection.execute(FILL.format(count=0) + "insert into readings values (7), (7)")
    done = bring_up_to_date()
    assert (done.batches, done.events > 5) == (1, True)  # a tick is never cut
    assert shop.differences() == []
    assert position(shop, "copier") == shop.one("select max(tick_id) from pgq.tick")
    shutil.rmtree(spark_folder / "replica")
    shop.connection.execute("insert into readings values (8)")
    with pytest.raises(StorageError, match="another checkpoint"):
        bring_up_to_date()
    shutil.rmtree(spark_folder / "replica")
    bring_up_to_date(copy_again=True)
    assert shop.differences() == []


@pytest.mark.filterwarnings("ignore")  # of the lake's library, about itself
@pytest.mark.parametrize("kind", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_a_lake_follows_in_spark(
    spark: SparkSession, shop: Shop, spark_folder: Path, kind: TableFormat
) -> None:
    def bring_up_to_date() -> LakeReport:
        shop.tick()
        return lake(
            spark, "changes", to=spark_folder / "lake", format=kind, dsn=shop.dsn, max_events_per_batch=5
        )

    def differing() -> list[str]:
        found = compare_tables(str(spark_folder / "lake"), "changes", ("*",), shop.dsn, str)
        return [f"{table.name}: {table.says}" for table in found if not table.equal]

    shop.connection.execute(FILL.format(count=30))
    assert bring_up_to_date().copied == {"public.Line items": 30, "public.orders": 30, "public.readings": 30}
    assert differing() == []
    shop.connection.execute("delete from orders where id % 2 = 0")
    shop.connection.execute("update orders set customer = customer || '!', facts = null")
    with shop.connection.transaction():
        shop.connection.execute("insert into readings values (7), (7)")
        token = Log(shop.connection, "changes").position()
    assert not rowbus.lake.is_complete(token, to=spark_folder / "lake")
    done = bring_up_to_date()
    assert (done.copied, done.batches, done.events) == ({}, 1, 32)  # a tick is never cut
    assert differing() == []
    assert rowbus.lake.is_complete(token, to=spark_folder / "lake")
    assert position(shop, "lake") == shop.one("select max(tick_id) from pgq.tick")
    quiet = shop.one("select clock_timestamp()")
    bring_up_to_date()
    assert rowbus.lake.is_complete(quiet, to=spark_folder / "lake")


@pytest.mark.slow
def test_a_replay_is_written_once(spark: SparkSession, shop: Shop, spark_folder: Path) -> None:
    path = spark_folder / "archive"
    append(shop, range(6))
    append(shop, range(6, 8), "other")
    archive(spark, "changes", path, dsn=shop.dsn)
    shop.connection.execute("select pgq.create_queue('again')")
    choice = Choice(start=datetime.now(UTC) - timedelta(hours=1), types=["made"], where="ev_id % 2 = 0")
    assert replay(spark, path, into_log="again", dsn=shop.dsn, choice=choice, dry_run=True).events == 3
    done = replay(spark, path, into_log="again", dsn=shop.dsn, choice=choice, lineage="ev_extra4")
    assert (done.events, done.written) == (3, True)
    second = replay(spark, path, into_log="again", dsn=shop.dsn, choice=choice, lineage="ev_extra4")
    assert (second.written, second.done_before) == (False, True)
    replay(spark, path, into_log="again", dsn=shop.dsn, choice=choice, replay_id="once more")
    shop.connection.execute("select pgq.force_tick('again'), pgq.ticker('again')")
    shop.connection.execute("select pgq.ticker('again')")
    told = list(Log(shop.dsn, "again").read())
    assert [event.data for event in told] == [f'{{"n": {n}}}' for n in (1, 3, 5)] * 2
    assert told[0].extra4 == '{"log": "changes", "tick_id": 2, "ev_id": 2}'
    with pytest.raises(ConfigurationError, match="Spark cannot read"):
        replay(spark, path, into_log="again", dsn=shop.dsn, choice=Choice(where="no_such_column = 1"))


def test_a_replay_into_a_queue_makes_messages(spark: SparkSession, shop: Shop, spark_folder: Path) -> None:
    path = spark_folder / "archive"
    append(shop, range(2), "Shop.PlaceOrder")
    archive(spark, "changes", path, dsn=shop.dsn)
    with Database(shop.dsn).session() as session:
        session.run_all(QueueTable(QueueAddress.from_user("Sales")).create())
    assert replay(spark, path, into_queue="Sales", dsn=shop.dsn).written
    found = shop.connection.execute(
        "select convert_from(body, 'UTF8'), headers::json from \"Sales\" order by seq"
    ).fetchall()
    assert [body for body, _ in found] == ['{"n": 0}', '{"n": 1}']
    assert found[0][1]["NServiceBus.EnclosedMessageTypes"] == "Shop.PlaceOrder"
    assert found[0][1]["NServiceBus.ContentType"] == "application/json"


def test_what_is_committed_is_released_where_spark_is_gone(
    spark: SparkSession, shop: Shop, spark_folder: Path
) -> None:
    append(shop, range(3))
    done = archive(spark, "changes", spark_folder / "archive", dsn=shop.dsn)
    shop.connection.execute("select pgq.register_consumer_at('changes', 'archive', 1)")
    assert release_committed(done.checkpoint, consumer="archive", dsn=shop.dsn) == done.released
    assert position(shop, "archive") == done.released["changes"]
    newest = shop.tick()
    shop.connection.execute(f"select pgq.register_consumer_at('changes', 'archive', {newest})")
    release_committed(done.checkpoint, consumer="archive", dsn=shop.dsn)
    assert position(shop, "archive") == newest  # never back
    (Path(done.checkpoint) / "commits" / "0").unlink()
    assert release_committed(done.checkpoint, consumer="archive", dsn=shop.dsn) == {}


def test_an_unknown_log_is_our_error_not_forty_lines(
    spark: SparkSession, shop: Shop, spark_folder: Path
) -> None:
    with pytest.raises(LogNotFoundError, match="no_such_log"):
        archive(spark, "no_such_log", spark_folder / "archive", dsn=shop.dsn)
