"""Filters in a real Spark session: by the option `where`, and why not by Spark's own pushdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition

from tests.log.orders import Orders
from tests.spark.source.reading import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.one_version

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def ids(frame: DataFrame) -> list[int]:
    return sorted(row.ev_id for row in frame.collect())


@pytest.mark.parametrize("pushdown", ["false", "true"])
def test_conditions_are_an_option_of_frames_and_tables_whatever_spark_pushes_down(
    spark: SparkSession, orders: Orders, options: Options, pushdown: str
) -> None:
    orders.deliver("a", "b")
    orders.deliver("c", "d")
    read = spark.read.format("rowbus").options(**options(consumer=None))
    everything = read.load()
    some = read.option("where", "ev_id >= 2 and ev_type in ('order', 'x')").load()
    spark.sql(
        f"create temporary view late using rowbus options (log 'orders', dsn '{orders.dsn}', where \"ev_id > 2\")"
    )
    spark.conf.set(PUSHDOWN, pushdown)
    try:
        assert ids(some) == [2, 3, 4]
        assert ids(some.where("ev_data <> 'c'").union(everything.where("ev_id = 1"))) == [1, 2, 4]
        assert ids(everything) == [1, 2, 3, 4]
        assert ids(spark.sql("select * from late where ev_id <> 4")) == [3]
    finally:
        spark.conf.unset(PUSHDOWN)
        spark.sql("drop view late")


def test_spark_confuses_the_filters_that_it_pushes_into_one_frame(spark: SparkSession) -> None:
    """If this fails, Spark keeps a pushed filter with its query: `pushFilters` can then be built (see `where`)."""

    class Reader(DataSourceReader):
        wanted: tuple[int, ...] = (1, 2, 3)

        def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
            for each in filters:
                if isinstance(each, EqualTo):
                    self.wanted = (each.value,)
                else:
                    yield each

        def partitions(self) -> Sequence[InputPartition]:
            return [InputPartition(None)]

        def read(self, _partition: InputPartition) -> Iterator[tuple[int]]:
            return ((number,) for number in self.wanted)

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "ev_id bigint"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Numbers)
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = spark.read.format("numbers").load()
        both = ids(frame.where("ev_id = 1").union(frame.where("ev_id = 3")))
    finally:
        spark.conf.unset(PUSHDOWN)

    assert both == [3, 3]
