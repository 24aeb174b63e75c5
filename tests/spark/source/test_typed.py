"""Typed rows and SQL in a real session: of a log and of a queue, as batch, stream, table and view."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from pyspark.errors import PySparkException

from tests.fixtures.every import every
from tests.log.orders import Orders
from tests.spark.source.reading import Options, assert_one_sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.one_version

ORDERS = "order_id string, total decimal(10,2), lines array<struct<sku: string, n: int>>"
GOOD = '{"order_id": "a", "total": 1.50, "lines": [{"sku": "x", "n": 2}]}'


def as_sql(options: dict[str, str], **others: str) -> str:
    """Write options as SQL does; a table keeps no password, and the test's server asks for none."""
    return ", ".join(f"{name} '{value}'" for name, value in {**options, **others}.items())


def test_a_schema_decodes_the_body_of_a_log_beside_its_own_columns(
    spark: SparkSession, orders: Orders, options: Options, spark_folder: Path
) -> None:
    orders.deliver(GOOD, '{"order_id": 5}', "{")
    given = options(consumer=None)

    frame = (
        spark.read.format("rowbus").options(**given).schema(f"{ORDERS}, ev_id bigint, _corrupt_record string")
    )
    found: list[Any] = [tuple(row) for row in frame.load().orderBy("ev_id").collect()]

    assert [(row[0], row[1], row[2] and row[2][0].n, row[4]) for row in found] == [
        ("a", Decimal("1.50"), 2, None),
        ("5", None, None, None),
        (None, None, None, "{"),
    ]
    stream = spark.readStream.format("rowbus").options(**options(mode="DROPMALFORMED")).schema(ORDERS).load()
    writer = stream.writeStream.format("parquet").option(
        "checkpointLocation", str(spark_folder / "checkpoint")
    )
    writer.trigger(availableNow=True).start(str(spark_folder / "out")).awaitTermination()
    assert sorted(row.order_id for row in spark.read.parquet(str(spark_folder / "out")).collect()) == [
        "5",
        "a",
    ]


def test_a_schema_decodes_the_body_of_a_queue(spark: SparkSession, orders: Orders) -> None:
    with psycopg.connect(orders.dsn) as connection:
        connection.execute(
            'create table "Sales" (id uuid, expires timestamp, headers text, body bytea, seq serial)'
        )
        connection.execute(
            'insert into "Sales" (id, headers, body) values (gen_random_uuid(), %s, %s)',
            ("{}", GOOD.encode()),
        )

    reader = (
        spark.read.format("rowbus").options(queue="Sales", dsn=orders.dsn).schema(f"seq bigint, {ORDERS}")
    )

    assert [(row.seq, row.total) for row in reader.load().collect()] == [(1, Decimal("1.50"))]


def test_a_log_is_a_table_and_a_view_in_sql(spark: SparkSession, orders: Orders, options: Options) -> None:
    orders.deliver(GOOD, '{"order_id": "b", "total": 7}')
    given = options(consumer=None)

    spark.sql(
        f"create table log_orders using rowbus options ({as_sql(given, schema=ORDERS + ', ev_id bigint')})"
    )
    spark.sql(f"create temporary view log_view using rowbus options ({as_sql(given)})")
    spark.sql(f"create temporary view typed_view (order_id string) using rowbus options ({as_sql(given)})")
    try:
        totals = spark.sql("select order_id, total from log_orders where total > 2").collect()
        assert [tuple(row) for row in totals] == [("b", Decimal("7.00"))]
        assert spark.table("log_orders").count() == 2
        assert spark.sql("select ev_data from log_view where ev_id = 1").collect()[0].ev_data == GOOD
        assert {row.order_id for row in spark.sql("select * from typed_view").collect()} == {"a", "b"}
    finally:
        spark.sql("drop table log_orders")
        spark.sql("drop view log_view")
        spark.sql("drop view typed_view")


def test_rows_are_inserted_into_a_table_of_the_database_and_into_a_view(
    spark: SparkSession, orders: Orders
) -> None:
    orders.connection.execute("create table public.totals (id bigint, total numeric)")
    given = {"deliver": "table", "table": "totals", "dsn": orders.dsn}

    spark.sql(
        f"create table totals using rowbus options ({as_sql(given, rowSchema='id bigint, total decimal(9,2)')})"
    )
    spark.sql(
        f"create temporary view totals_view (id bigint, total decimal(9,2)) using rowbus options ({as_sql(given)})"
    )
    try:
        spark.sql("insert into totals select 1, 2.5")
        spark.sql("insert into totals_view select 2, 3.5")
    finally:
        spark.sql("drop table totals")
        spark.sql("drop view totals_view")

    found = orders.connection.execute("select id, total from public.totals order by id").fetchall()
    assert found == [(1, Decimal("2.50")), (2, Decimal("3.50"))]


MISTAKES = [
    ("create table wrong using rowbus options (lgo 'orders')", "Say what to read by one of the options"),
    (
        "create table wrong using rowbus options (log 'a', schema 'a text')",
        "'text' cannot be read as columns",
    ),
    (
        "create table wrong using rowbus options (log 'a', dsn 'postgresql://me:secret@db/x')",
        "Option 'dsn' has a password, which all who may see the table would see",
    ),
    ("create table wrong using rowbus options (deliver 'table', table 'x')", "needs the option 'rowSchema'"),
    ("create temporary view wrong using rowbus options (log 'a', mode 'x')", "'x' is not one of PERMISSIVE"),
    ("create temporary view wrong using rowbus options (queue 'a', columns 'b')", "has no column 'b'"),
    (
        "create temporary view wrong using rowbus options (log 'a', startingOffsets '{')",
        "is one of committed",
    ),
]


@every("statement, text", MISTAKES)
def test_a_mistake_in_the_options_is_one_sentence(spark: SparkSession, statement: str, text: str) -> None:
    with pytest.raises(PySparkException, match=text) as refused:
        spark.sql(statement)

    assert_one_sentence(refused.value)


@pytest.mark.parametrize(
    "schema, text",
    [
        ("ev_id string", "'ev_id' of the log source is of type bigint, not string"),
        ("a interval day", "of type interval day cannot come from JSON"),
        ("a map<int, int>", "of type map<int,int> cannot come from JSON"),
    ],
)
def test_a_schema_that_a_log_cannot_give_is_one_sentence(spark: SparkSession, schema: str, text: str) -> None:
    with pytest.raises(PySparkException, match=text) as refused:
        spark.read.format("rowbus").option("log", "a").schema(schema).load().collect()

    assert_one_sentence(refused.value)


def test_a_mistake_in_a_write_is_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="'deliver' says 'fax'") as refused:
        spark.range(1).write.format("rowbus").option("deliver", "fax").mode("append").save()

    assert_one_sentence(refused.value)
