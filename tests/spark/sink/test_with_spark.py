"""The sink under a real Spark: what it calls, with what, and when."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, current_timestamp, expr

from tests.spark.sink.conftest import Writing

pytestmark = [pytest.mark.spark, pytest.mark.one_version]


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Read the numbers in a folder of files, a file a micro-batch."""
    reader = spark.readStream.schema("id long, name string").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def put(folder: Path, *numbers: int) -> None:
    folder.mkdir(exist_ok=True)
    lines = "".join(f'{{"id": {number}, "name": "n{number}"}}\n' for number in numbers)
    (folder / f"{numbers[0]:03}.json").write_text(lines)


def run(frame: DataFrame, checkpoint: Path, dsn: str, **options: str) -> None:
    writer = frame.writeStream.format("rowbus").option("dsn", dsn).options(**options)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)


def goods(connection: psycopg.Connection) -> list[Any]:
    return connection.execute("select id, name from goods order by id, name").fetchall()


@pytest.mark.parametrize("guarantee", ["staged", "prepared"])
def test_a_deleted_commit_log_repeats_a_batch_and_publishes_nothing_twice(
    spark: SparkSession, writing: Writing, pgq: psycopg.Connection, spark_folder: Path, guarantee: str
) -> None:
    source, checkpoint = spark_folder / "in", spark_folder / "checkpoint"
    options = {"deliver": "table", "table": "goods", "exactlyOnce": guarantee}
    put(source, 1, 2)
    run(stream(spark, source), checkpoint, writing.dsn, **options)
    (checkpoint / "commits" / "0").unlink()
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    put(source, 3)
    run(stream(spark, source), checkpoint, writing.dsn, **options)
    assert goods(pgq) == [(1, "n1"), (2, "n2"), (3, "n3")]
    ledger = pgq.execute(
        "select batch_id, guarantee, row_count, query_id <> '' from rowbus_spark.ledger order by 1"
    )
    assert ledger.fetchall() == [(0, guarantee, 2, True), (1, guarantee, 1, True)]


def test_a_new_checkpoint_at_an_old_place_is_not_taken_for_the_old_one(
    spark: SparkSession, writing: Writing, pgq: psycopg.Connection, spark_folder: Path
) -> None:
    source, checkpoint = spark_folder / "in", spark_folder / "checkpoint"
    pgq.execute("alter table goods drop constraint goods_pkey")
    put(source, 1)
    for _run in range(2):
        run(stream(spark, source), checkpoint, writing.dsn, deliver="table", table="goods")
        shutil.rmtree(checkpoint)
    assert goods(pgq) == [(1, "n1"), (1, "n1")]


def test_batch_writes_are_runs_of_their_own_unless_they_are_named(
    spark: SparkSession, writing: Writing, pgq: psycopg.Connection
) -> None:
    pgq.execute("alter table goods drop constraint goods_pkey")
    frame = spark.range(3).repartition(2).select("id", col("id").cast("string").alias("name"))
    writer = (
        frame.write.format("rowbus").mode("append").options(dsn=writing.dsn, deliver="table", table="goods")
    )
    for _time in range(2):
        writer.options(txnAppId="import", txnVersion="1").save()
    assert len(goods(pgq)) == 3
    plain = (
        frame.write.format("rowbus").mode("append").options(dsn=writing.dsn, deliver="table", table="goods")
    )
    for _time in range(2):
        plain.save()
    assert len(goods(pgq)) == 9
    plain.mode("overwrite").save()
    assert goods(pgq) == [(0, "0"), (1, "1"), (2, "2")]


def test_every_type_finds_its_column(spark: SparkSession, writing: Writing, pgq: psycopg.Connection) -> None:
    pgq.execute(
        "create table kinds (i int8, s int2, d float8, n numeric(20, 4), b bool, t timestamptz, ntz timestamp,"
        " day date, raw bytea, doc jsonb, doc2 json, words text[], numbers int4[], struct jsonb, map jsonb, code uuid,"
        " short varchar(5), moments timestamptz[], nothing text, digits numeric, fromtext timestamptz)"
    )
    frame = spark.range(1).select(
        expr("id as i"),
        expr("cast(1 as smallint) as s"),
        expr("cast(1.5 as double) as d"),
        expr("cast(-123456.789 as decimal(20, 4)) as n"),
        expr("true as b"),
        expr("timestamp'2026-01-02T03:04:05.123456+02:00' as t"),
        expr("timestamp_ntz'2026-01-02T03:04:05' as ntz"),
        expr("date'2026-02-03' as day"),
        expr("X'00ff' as raw"),
        expr("""'{"a": 1}' as doc"""),
        expr("""'[1]' as doc2"""),
        expr("array('x', null) as words"),
        expr("array(1L, 2L) as numbers"),
        expr("named_struct('k', 1, 'inner', array(1)) as struct"),
        expr("map('k', 'v') as map"),
        expr("'6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29' as code"),
        expr("'abc' as short"),
        expr("array(timestamp'2026-01-02T03:04:05Z') as moments"),
        expr("null as nothing"),
        expr("'12.50' as digits"),
        expr("'2026-01-02T03:04:05Z' as fromtext"),
    )
    frame.write.format("rowbus").mode("append").options(
        dsn=writing.dsn, deliver="table", table="kinds"
    ).save()
    row = pgq.execute(
        "select i, s, d, n::text, b, t at time zone 'UTC' = '2026-01-02 01:04:05.123456', ntz::text, day::text, raw,"
        " doc->'a', doc2->0, words, numbers, struct, map, code::text, short, moments[1] = '2026-01-02 03:04:05Z',"
        " nothing, digits::text, fromtext = '2026-01-02 03:04:05Z' from kinds"
    ).fetchone()
    code = "6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29"
    assert row == (
        *(0, 1, 1.5, "-123456.7890", True, True, "2026-01-02 03:04:05", "2026-02-03", b"\x00\xff", 1, 1),
        *(["x", None], [1, 2], {"k": 1, "inner": [1]}, {"k": "v"}, code, "abc", True, None, "12.50", True),
    )


def test_a_log_gets_a_micro_batch_in_one_transaction(
    spark: SparkSession, writing: Writing, pgq: psycopg.Connection, spark_folder: Path
) -> None:
    put(spark_folder / "in", *range(20))
    frame = (
        stream(spark, spark_folder / "in")
        .repartition(2)
        .select(
            col("name").alias("ev_data"),
            expr("'counted'").alias("ev_type"),
            current_timestamp().alias("ev_time"),
            expr("id as tick_id"),
        )
    )
    run(frame, spark_folder / "c", writing.dsn, deliver="log", log="orders", lineage="ev_extra4")
    found = pgq.execute(
        "select count(*), count(distinct ev_txid), min(ev_type), min(ev_extra4::json->>'tick_id') from pgq.event_1"
    ).fetchone()
    assert found == (20, 1, "counted", "0")


def test_a_failing_row_fails_the_query_and_leaves_nothing(
    spark: SparkSession, writing: Writing, pgq: psycopg.Connection
) -> None:
    frame = spark.range(2).select("id", expr("'far too long' as name"))
    pgq.execute("alter table goods alter name type varchar(5)")
    writer = (
        frame.write.format("rowbus").mode("append").options(dsn=writing.dsn, deliver="table", table="goods")
    )
    with pytest.raises(Exception, match="value too long"):
        writer.save()
    assert goods(pgq) == []
    assert pgq.execute("select count(*) from rowbus_spark.stage").fetchone() == (0,)
