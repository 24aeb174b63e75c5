"""The option `changes` in a real session: as batch, stream, table and view; each mistake is one sentence at load."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from pyspark.errors import PySparkException

from rowbus.database.statements import script
from rowbus.log.schema import table as log_schema
from tests.log.orders import Orders
from tests.spark.source.reading import Options, assert_one_sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.one_version

ROLE = "rowbus_test_no_reader"


@pytest.fixture
def shop(orders: Orders) -> Orders:
    """Give the log, into which `shop.orders` is captured with the old row, and changes of it are written."""
    for statement in (
        "create schema shop",
        "create table shop.orders (id int primary key, total numeric(12, 2), tags text[], during tstzrange)",
        "select pgq.capture_table('shop.orders', 'orders', 'json', '{backup}')",
        "insert into shop.orders values (1, 1.5, '{a,b}', '[2026-11-23 00:00+01,)')",
        "update shop.orders set total = 2",
        "delete from shop.orders",
        "truncate shop.orders",
        "insert into shop.orders values (2, 'NaN')",
    ):
        orders.connection.execute(statement.encode())
    orders.tick()
    return orders


def told(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Give what the changes say, in their order."""
    rows = frame.selectExpr("op", "before.total", "after.total", "after.tags", "after.during", "ev_id")
    return [tuple(row)[:-1] for row in rows.orderBy("ev_id").collect()]


INSERTED = ("insert", None, Decimal("1.50"), ["a", "b"], '["2026-11-22 23:00:00+00",)')
CHANGES = [
    INSERTED,
    ("update", Decimal("1.50"), Decimal("2.00"), *INSERTED[3:]),
    ("delete", Decimal("2.00"), None, None, None),
    ("truncate", None, None, None, None),
    ("insert", None, None, None, None),
]


def test_changes_are_a_frame_and_a_stream(
    spark: SparkSession, shop: Orders, options: Options, spark_folder: Path
) -> None:
    frame = spark.read.format("rowbus").options(**options(consumer=None, changes="shop.orders")).load()

    row = "struct<id:int,total:decimal(12,2),tags:array<string>,during:string>"
    assert frame.dtypes == [
        ("op", "string"),
        ("before", row),
        ("after", row),
        ("transaction_time", "timestamp"),
        ("transaction", "bigint"),
        ("ev_id", "bigint"),
        ("tick_id", "bigint"),
        ("_corrupt_record", "string"),
    ]
    assert told(frame) == CHANGES
    nothing = "op = 'truncate' and before is null and after is null"
    assert frame.where(f"{nothing} or _corrupt_record is not null").count() == 2

    given = options(changes="shop.orders", mode="DROPMALFORMED")
    out = str(spark_folder / "out")
    stream = spark.readStream.format("rowbus").options(**given).load()
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(spark_folder / "at"))
    query.trigger(availableNow=True).start(out).awaitTermination()
    assert told(spark.read.parquet(out)) == CHANGES[:4]


def test_changes_are_a_table_and_a_view_in_sql(spark: SparkSession, shop: Orders, options: Options) -> None:
    given = ", ".join(f"{name} '{value}'" for name, value in options(consumer=None).items())

    spark.sql(
        f"create table changed using rowbus options ({given}, changes 'shop.orders', mode 'DROPMALFORMED')"
    )
    spark.sql(
        f"create temporary view changed_view using rowbus options ({given}, changes 'shop.orders', where 'ev_id < 3')"
    )
    try:
        assert told(spark.table("changed_view")) == CHANGES[:2]
        kept = spark.sql("select op, before.id from changed where before.tags[0] = 'a' order by ev_id")
        assert [tuple(row) for row in kept.collect()] == [("update", 1), ("delete", 1)]
    finally:
        spark.sql("drop table if exists changed")
        spark.sql("drop view if exists changed_view")


@pytest.fixture
def mistaken(shop: Orders) -> Iterator[Orders]:
    """Have tables that are not captured, or not so that their changes can be read, and a role without rights."""
    for statement in (
        f"drop role if exists {ROLE}",
        f"create role {ROLE}",
        "select pgq.create_queue('others')",
        "create table plain (id int primary key)",
        "create table elsewhere (id int primary key)",
        "select pgq.capture_table('elsewhere', 'others')",
        "create table ends (id int primary key)",
        "select pgq.capture_table('ends', 'orders', 'sql')",
        "create table made (id int primary key)",
        "select pgq.capture_table('made', 'orders', 'json', array['ev_data=null'])",
        "create table magic (id int primary key, _pgq_ev_type text)",
        "select pgq.capture_table('magic', 'orders', 'json')",
        "create table twice (id int primary key)",
        "select pgq.capture_table('twice', 'orders'), pgq.capture_table('twice', 'orders', 'url', '{}', 'second')",
        "create table parts (id int primary key) partition by range (id)",
        "create table part partition of parts for values from (0) to (9)",
        "select pgq.capture_table('parts', 'orders', 'json', '{insert-only}')",
    ):
        shop.connection.execute(statement.encode())
    shop.connection.execute(script(log_schema.set_grants("new")).encode())
    yield shop
    shop.connection.execute(f"drop owned by {ROLE}; drop role {ROLE}".encode())


MISTAKES: list[tuple[dict[str, object], str]] = [
    (
        {"changes": "shop.order"},
        'there is no table shop.order to capture into log "orders"; captured into it is public.ends, ',
    ),
    (
        {"changes": "plain"},
        'public.plain is not captured into log "orders"; capture it by `rowbus log capture public.plain --log orders',
    ),
    (
        {"changes": "elsewhere"},
        'public.elsewhere is captured into "others", not into log "orders": read that',
    ),
    ({"changes": "parts"}, "as a partitioned table, whose changes name its partitions"),
    ({"changes": "ends"}, "public.ends is captured in the format sql, so its events do not show its rows"),
    (
        {"changes": "made"},
        "public.made is captured with the argument ev_data=null, so its events do not show its rows",
    ),
    (
        {"changes": "magic"},
        "public.magic is captured with the column _pgq_ev_type, so its events do not show its rows",
    ),
    (
        {"changes": "twice"},
        'is captured into log "orders" by 2 triggers, so each change is there more than once',
    ),
    ({"changes": ""}, "Option 'changes' of the log source: '' is not a text"),
    ({"log": "nowhere"}, 'There is no log "nowhere"; create it with `rowbus log create`'),
    (
        {"columns": "ev_id"},
        "Option 'changes' and option 'columns' are given: its columns are those of the catalogue",
    ),
    ({"schema": "id int"}, "Option 'changes' and option 'schema' are given"),
    ({"fromBody": "id"}, "Option 'changes' and option 'fromBody' are given"),
    (
        {"log": None, "logs": "orders,others"},
        "Option 'changes' and option 'logs' are given: it is of one 'log'",
    ),
    (
        {"log": None, "logPattern": "o"},
        "Option 'changes' and option 'logPattern' are given: it is of one 'log'",
    ),
    ({"columnNameOfCorruptRecord": "op"}, "says 'op', which is a column of the changes"),
    ({"where": "after > 1"}, "Option 'where' has a condition on 'after'"),
    ({"dsn": "postgresql://127.0.0.1:1/none"}, "connection"),
]


@pytest.mark.usefixtures("mistaken")
def test_each_mistake_is_one_sentence_when_the_frame_is_loaded(
    spark: SparkSession, options: Options, orders: Orders
) -> None:
    no_rights = make_conninfo(orders.dsn, options=f"-c role={ROLE}")
    mistakes = [*MISTAKES]
    mistakes.append(({"dsn": no_rights}, f'Role "{ROLE}" may not read log "orders"'))
    for wrong, text in mistakes:
        given = options(**{"consumer": None, "changes": "shop.orders", **wrong})
        with pytest.raises(PySparkException) as refused:
            spark.read.format("rowbus").options(**given).load()
        assert text in str(refused.value), wrong
        assert_one_sentence(refused.value)


def test_a_log_a_table_or_a_schema_that_is_not_there_is_one_sentence(
    spark: SparkSession, orders: Orders, options: Options
) -> None:
    with pytest.raises(PySparkException, match='no log "nowhere"') as refused:
        spark.read.format("rowbus").options(**options(consumer=None, log="nowhere")).load().collect()
    assert_one_sentence(refused.value)

    nowhere = {"deliver": "table", "table": "nowhere", "dsn": options()["dsn"]}
    with pytest.raises(PySparkException, match="no table nowhere") as refused:
        spark.range(1).write.format("rowbus").options(**nowhere).mode("append").save()
    assert_one_sentence(refused.value)

    orders.connection.execute("drop schema pgq cascade")

    with pytest.raises(PySparkException, match="rowbus log install") as refused:
        spark.read.format("rowbus").options(**options(consumer=None, changes="shop.orders")).load()

    assert_one_sentence(refused.value)


def test_a_schema_beside_changes_is_one_sentence(spark: SparkSession, shop: Orders, options: Options) -> None:
    given = options(consumer=None, changes="shop.orders")

    with pytest.raises(
        PySparkException, match=r"takes the columns of shop\.orders from the catalogue"
    ) as refused:
        spark.read.format("rowbus").options(**given).schema("op string").load().collect()

    assert_one_sentence(refused.value)


def test_a_stream_begins_with_the_rows_of_its_table_once(
    spark: SparkSession, shop: Orders, options: Options, spark_folder: Path
) -> None:
    given = options(changes="shop.orders", snapshot="initial", startingOffsets="latest")
    seen: list[list[Any]] = []

    def follow(keep: Callable[[DataFrame, int], None]) -> None:
        stream = spark.readStream.format("rowbus").options(**given).load()
        query = stream.writeStream.option("checkpointLocation", str(spark_folder / "rows")).foreachBatch(keep)
        query.trigger(availableNow=True).start().awaitTermination()

    def keep(rows: DataFrame, _number: int) -> None:
        seen.append([tuple(row) for row in rows.select("op", "after.id").collect()])

    def fail(rows: DataFrame, number: int) -> None:
        keep(rows, number)
        raise ValueError(number)

    with pytest.raises(PySparkException):
        follow(fail)
    shop.connection.execute(b"insert into shop.orders values (4, 5)")  # no tick: it follows
    follow(keep)
    shop.tick()
    follow(keep)
    follow(keep)
    assert seen == [[("r", 2)], [("r", 2)], [("insert", 4)]]


def test_a_snapshot_is_of_a_stream_of_changes(spark: SparkSession, shop: Orders, options: Options) -> None:
    for beside, text in (
        ({}, "give 'changes'"),
        ({"changes": "shop.orders", "where": "ev_id < 3"}, "and no 'where'"),
        ({"changes": "shop.orders"}, "Option 'snapshot' is a stream's"),
    ):
        given = options(consumer=None, snapshot="initial", **beside)
        with pytest.raises(PySparkException) as refused:
            spark.read.format("rowbus").options(**given).load().collect()
        assert text in str(refused.value)
        assert_one_sentence(refused.value)
