"""The one data source `rowbus`: the options say which log or queue is read, and where what is written goes.

Spark makes this object anew in short-lived processes beside the driver, pickles what its methods return, and imports
this module in every worker that looks for data sources. So it holds nothing but the options, and imports what the
options ask for when they ask for it.

Invariant: nothing here opens a connection, and nothing but the options decides which module answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

SOURCES: Final = {
    "log": "rowbus.spark.log_source.source",
    "logs": "rowbus.spark.log_source.source",
    "logpattern": "rowbus.spark.log_source.source",
    "queue": "rowbus.spark.queue_source.source",
}
"""The option that names what is read, and the module that reads it."""

SINKS: Final = {
    "log": "rowbus.spark.sink.writer",
    "queue": "rowbus.spark.sink.writer",
    "table": "rowbus.spark.sink.writer",
    "upsert": "rowbus.spark.sink.writer",
    "deadletter": "rowbus.spark.sink.writer",
    "changes": "rowbus.spark.sink.writer",
    "delta": "rowbus.spark.lake.writer",
    "iceberg": "rowbus.spark.lake.writer",
}
"""What `deliver` may say, and the module that writes it."""


class RowbusDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `.format("rowbus")`."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "rowbus"

    def schema(self) -> StructType | str:
        """Give the columns of what the options name as source."""
        columns: StructType | str = self._source().schema(self._given)
        return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read once, up to what is there now."""
        reader: DataSourceReader = self._source().batch_reader(self._given, schema)
        return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read on and on."""
        reader: DataSourceStreamReader = self._source().stream_reader(self._given, schema)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Write a data frame."""
        writer: DataSourceWriter = self._sink().batch_writer(self._given, schema, overwrite)
        return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """Write micro-batch after micro-batch."""
        writer: DataSourceStreamWriter = self._sink().stream_writer(self._given, schema, overwrite)
        return writer

    @property
    def _given(self) -> dict[str, str]:
        return dict(self.options)

    def _source(self) -> ModuleType:
        return import_module(source_module(self._given))

    def _sink(self) -> ModuleType:
        return import_module(sink_module(self._given))


def source_module(options: Mapping[str, str]) -> str:
    """Name the module that reads what the options name; raises `ConfigurationError` unless that is one thing."""
    asked = {SOURCES[name.lower()]: name for name in options if name.lower() in SOURCES}
    if len(asked) != 1:
        found = f"both {' and '.join(map(repr, asked.values()))} are given" if asked else "none is given"
        raise ConfigurationError(
            f"Say what to read by one of the options 'log', 'logs', 'logPattern' and 'queue': {found}"
        )
    return next(iter(asked))


def sink_module(options: Mapping[str, str]) -> str:
    """Name the module that writes as the option `deliver` says; raises `ConfigurationError` if none does."""
    deliver = next((text for name, text in options.items() if name.lower() == "deliver"), None)
    if deliver is None or deliver.lower() not in SINKS:
        found = "is missing" if deliver is None else f"says {deliver!r}"
        raise ConfigurationError(
            f"Option 'deliver' {found}; it says where rows go: one of {', '.join(SINKS)}", option="deliver"
        )
    return SINKS[deliver.lower()]
