"""Batches into tables and logs: published once, whole, or not at all."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql.types import StringType, StructField, StructType, YearMonthIntervalType

from rowbus.database.statements import script
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark import schema as spark_schema
from rowbus.spark.sink.writer import batch_writer
from tests.spark.sink.conftest import Writing, rows

GUARANTEES = ("staged", "prepared", "none")


def goods(connection: psycopg.Connection) -> list[tuple[int, str]]:
    return connection.execute("select id, name from goods order by id").fetchall()


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_the_rows_of_all_tasks_are_in_the_table(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    writing.batch(
        0,
        rows(id=[1, 2], name=["a", None]),
        rows(id=[3], name=["c"]),
        deliver="table",
        table="goods",
        exactlyOnce=guarantee,
    )
    assert goods(pgq) == [(1, "a"), (2, None), (3, "c")]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_events_are_in_the_log(writing: Writing, pgq: psycopg.Connection, guarantee: str) -> None:
    batch = rows(ev_type=["t", None], ev_data=["1", "2"], ev_extra2=[None, "x"])
    writing.batch(0, batch, deliver="log", log="orders", exactlyOnce=guarantee)
    found = pgq.execute(
        "select ev_id, ev_type, ev_data, ev_extra1, ev_extra2, ev_time > now() - interval '1 min', ev_txid > 0"
        " from pgq.event_1 order by ev_id"
    ).fetchall()
    assert found == [(1, "t", "1", None, None, True, True), (2, None, "2", None, "x", True, True)]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_values_are_converted_to_the_types_of_the_table(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    pgq.execute(
        "create table kinds (n numeric, doc jsonb, at timestamptz, raw bytea, tag uuid, words text, span interval)"
    )
    batch = rows(
        n=["1.50"],
        doc=['{"a": 1}'],
        at=["2026-01-02T03:04:05Z"],
        raw=["ä\\x"],
        tag=["6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29"],
        words=[1],
        span=[timedelta(hours=36)],
    )
    writing.batch(0, batch, deliver="table", table="kinds", exactlyOnce=guarantee)
    query = "select n::text, doc->'a', at = '2026-01-02 03:04:05Z', raw, tag::text, words, span from kinds"
    tag = "6ee4b1b1-93f6-4f4c-9a52-17d3e02b1a29"
    assert pgq.execute(query).fetchall() == [
        ("1.50", 1, True, "ä\\x".encode(), tag, "1", timedelta(hours=36))
    ]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_text_that_is_too_long_is_refused_and_not_cut(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    pgq.execute("create table short (a varchar(3), b char(3), c bit(3))")
    for column, value in (("a", "abcd"), ("b", "abcd"), ("c", "1111")):
        with pytest.raises(StorageError):
            writing.batch(0, rows(**{column: [value]}), deliver="table", table="short", exactlyOnce=guarantee)
    assert pgq.execute("select * from short").fetchall() == []


def test_a_view_with_a_rule_is_written_through(writing: Writing, pgq: psycopg.Connection) -> None:
    pgq.execute("create view wares as select id, name from goods")
    for number, guarantee in enumerate(GUARANTEES):
        row = rows(id=[number], name=["x"])
        writing.batch(number, row, deliver="table", table="wares", exactlyOnce=guarantee)
    assert goods(pgq) == [(0, "x"), (1, "x"), (2, "x")]


def test_names_match_in_any_case_unless_that_is_ambiguous(writing: Writing, pgq: psycopg.Connection) -> None:
    writing.batch(0, rows(ID=[1], Name=["a"]), deliver="table", table="public.goods")
    assert goods(pgq) == [(1, "a")]
    pgq.execute('create table twice ("Id" int8, id int8)')
    with pytest.raises(ConfigurationError, match="no column ID"):
        writing.batch(1, rows(ID=[1]), deliver="table", table="twice")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_column_or_a_table_that_is_not_there_is_named(writing: Writing, guarantee: str) -> None:
    options = {"deliver": "table", "exactlyOnce": guarantee}
    with pytest.raises(ConfigurationError, match="no column colour"):
        writing.batch(0, rows(id=[1], colour=["red"]), table="goods", **options)
    with pytest.raises(ConfigurationError, match="no table nowhere"):
        writing.batch(0, rows(id=[1]), table="nowhere", **options)


def test_rows_may_say_which_log_they_are_for(writing: Writing, pgq: psycopg.Connection) -> None:
    pgq.execute("select pgq.create_queue('payments')")
    batch = rows(log=["orders", "payments", "orders"], ev_data=["1", "2", "3"])
    writing.batch(0, batch, deliver="log")
    assert pgq.execute("select ev_data from pgq.event_1 order by ev_id").fetchall() == [("1",), ("3",)]
    assert pgq.execute("select ev_data from pgq.event_2 order by ev_id").fetchall() == [("2",)]
    with pytest.raises(ConfigurationError, match="A log takes each column once, in any case"):
        writing.batch(1, rows(log=["orders"], ev_data=["1"], EV_DATA=["2"]), deliver="log")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_where_an_event_came_from_is_kept_on_request(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    batch = rows(log=["source"], tick_id=[7], ev_id=[70], ev_data=["1"], ev_retry=[1])
    options = {"deliver": "log", "log": "orders", "lineage": "ev_extra3"}
    writing.batch(0, batch, **options, exactlyOnce=guarantee)
    (lineage,) = pgq.execute("select ev_extra3::json from pgq.event_1").fetchone() or ()
    assert lineage == {"log": "source", "tick_id": 7, "ev_id": 70}


def test_events_keep_their_order(writing: Writing, pgq: psycopg.Connection) -> None:
    texts = [str(number) for number in range(500)]
    writing.batch(0, rows(ev_data=texts[:300]), rows(ev_data=texts[300:]), deliver="log", log="orders")
    assert [data for (data,) in pgq.execute("select ev_data from pgq.event_1 order by ev_id")] == texts


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_role_that_may_only_append_appends_by_function(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    writing.batch(0, rows(id=[1], name=["makes the schema"]), deliver="table", table="goods")
    role = f"writer_{guarantee}"
    pgq.execute(f"drop role if exists {role}")
    pgq.execute(f"create role {role} login in role pgq_writer")
    try:
        pgq.execute("select pgq.set_grants('new')")
        pgq.execute(
            script(spark_schema.grant_use(role)).encode()
        )  # as `rowbus schema grants --spark` prints it
        writing.dsn = make_conninfo(writing.dsn, options=f"-c role={role}")
        texts = [str(number) for number in range(2500)]
        writing.batch(0, rows(ev_data=texts), deliver="log", log="orders", exactlyOnce=guarantee)
        found = pgq.execute("select ev_data, ev_txid > 0 from pgq.event_1 order by ev_id").fetchall()
        assert found == [(text, True) for text in texts]
    finally:
        pgq.execute(f"drop owned by {role}")
        pgq.execute(f"drop role {role}")


@pytest.mark.one_version
def test_what_cannot_work_is_said_before_anything_is_written(writing: Writing) -> None:
    for columns, options, word in (
        (["ev_data"], {"deliver": "log"}, "Which log"),
        (["data"], {"deliver": "log", "log": "orders"}, "not data"),
        (["log"], {"deliver": "log", "log": "orders"}, "ev_data"),
        (["id"], {"deliver": "table"}, "table"),
        (["id"], {"deliver": "table", "table": "goods", "mergeKeys": "id"}, "mergeKeys"),
        (["id"], {"deliver": "table", "table": "goods", "txnVersion": "1"}, "txnVersion"),
        (["id"], {"deliver": "tables"}, "deliver"),
    ):
        with pytest.raises(ConfigurationError, match=word):
            writing.writer(columns, **options)
    months = StructType().add("part", StructType().add("span", YearMonthIntervalType()))
    with pytest.raises(ConfigurationError, match="'part' has intervals of months"):
        batch_writer({"deliver": "table", "table": "goods"}, months, False)  # noqa: FBT003 - as Spark calls it


@pytest.mark.one_version
def test_a_batch_write_is_named_wholly_or_not_at_all(writing: Writing) -> None:
    schema = StructType([StructField("id", StringType())])
    given = {"dsn": writing.dsn, "deliver": "table", "table": "goods", "txnAppId": "app"}
    with pytest.raises(ConfigurationError, match="txnVersion"):
        batch_writer(given, schema, False)  # noqa: FBT003 - as Spark calls it
    with pytest.raises(ConfigurationError, match="none"):
        batch_writer({**given, "txnVersion": "1", "exactlyOnce": "none"}, schema, False)  # noqa: FBT003 - as Spark
