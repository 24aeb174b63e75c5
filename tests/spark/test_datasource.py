"""The data source `rowbus`: which module answers which options, in Spark's processes too."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceReader, InputPartition

import pyspark_rowbus
from rowbus.errors import ConfigurationError
from rowbus.spark.datasource import SINKS, RowbusDataSource, sink_module, source_module
from tests.fixtures.every import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@every(
    "options, module",
    [
        ({"log": "orders"}, "rowbus.spark.log_source.source"),
        ({"LOGS": "orders,audit", "consumer": "a"}, "rowbus.spark.log_source.source"),
        ({"logPattern": "o.*"}, "rowbus.spark.log_source.source"),
        ({"queue": "Sales", "mode": "peek"}, "rowbus.spark.queue_source.source"),
    ],
)
def test_the_options_say_which_module_reads(options: dict[str, str], module: str) -> None:
    assert source_module(options) == module


@every("options", [{}, {"consumer": "a"}, {"log": "orders", "queue": "Sales"}])
def test_nothing_or_two_things_to_read_is_an_error(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="Say what to read"):
        source_module(options)


def test_the_option_deliver_says_which_module_writes() -> None:
    assert sink_module({"deliver": "log", "log": "orders"}) == "rowbus.spark.sink.writer"
    assert sink_module({"Deliver": "Upsert", "table": "x"}) == "rowbus.spark.sink.writer"
    assert sink_module({"deliver": "delta", "path": "/x"}) == "rowbus.spark.lake.writer"


@every("options", [{}, {"deliver": "fax"}])
def test_without_a_known_deliver_the_error_lists_what_there_is(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=", ".join(SINKS)):
        sink_module(options)


def test_spark_finds_the_format_under_its_name() -> None:
    assert pyspark_rowbus.DefaultSource is RowbusDataSource
    assert RowbusDataSource.name() == "rowbus"


def test_the_data_source_travels_by_reference() -> None:
    assert len(cloudpickle.dumps(RowbusDataSource)) < 200  # type: ignore[no-untyped-call]  # Spark's own
    assert pickle.loads(pickle.dumps(RowbusDataSource({"a": "b"}))).options == {"a": "b"}  # noqa: S301 - made here


def test_a_worker_that_looks_for_data_sources_loads_neither_arrow_nor_drivers() -> None:
    heavy = {"pyarrow", "pandas", "adbc_driver_manager", "psycopg", "msgspec", "asyncio"}
    program = f"import pyspark_rowbus, sys; print(sorted({heavy} & set(sys.modules)))"

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "[]"


def test_what_a_process_has_loaded_is_left_out_of_collections_after_its_tasks() -> None:
    reads = "from rowbus.spark.log_source.read import *; [*read_partition(InputPartition(None), None)]"
    plans = "import pyspark_rowbus; pyspark_rowbus.DefaultSource({'log': 'a'}).schema()"
    for program in (reads, plans):
        counts = [
            sys.executable,
            "-c",
            f"import gc; {program}; print(gc.get_freeze_count() > len(gc.get_objects()))",
        ]
        assert subprocess.run(counts, capture_output=True, text=True, check=True).stdout == "True\n", program


class Numbers(DataSourceReader):
    """Reads what the options say: whole numbers up to `queue`."""

    def __init__(self, last: int) -> None:
        self._last = last

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._last)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


class Trivial(RowbusDataSource):
    """The data source with a module of its own behind the options."""

    @classmethod
    def name(cls) -> str:
        return "trivial"

    def _source(self) -> Any:  # noqa: ANN401 - stands in for a module
        return SimpleNamespace(
            schema=lambda _options: "n int",
            batch_reader=lambda options, _schema: Numbers(int(options["queue"])),
        )


def test_what_the_module_returns_reads_in_sparks_workers(spark: SparkSession) -> None:
    # Workers cannot import a test.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]  # Spark's own
    spark.dataSource.register(Trivial)

    found = spark.read.format("trivial").option("queue", "3").load().collect()

    assert sorted(row.n for row in found) == [0, 1, 2]


def test_a_mistake_in_the_options_reaches_the_user(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="none is given"):
        spark.read.format("rowbus").option("lgo", "orders").load()
