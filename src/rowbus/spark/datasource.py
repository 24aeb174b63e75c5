"""The data source `rowbus`: its options name the log or queue to read, or the target to write.

Spark makes this object in short-lived processes beside the driver, pickles what its methods return, and imports this
module in every worker that looks for data sources. So it holds only the options, and imports the module of an option
when needed.

Invariant: nothing here opens a connection, and only the options decide which module is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from rowbus.errors import ConfigurationError
from rowbus.spark.refused_stream import RefusedStream, one_sentence
from rowbus.spark.table_options import is_table, keep, kept, of_table, sink_columns

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
"""The modules that read, by the option that names the source."""

SINKS: Final = {
    "log": "rowbus.spark.sink.writer",
    "queue": "rowbus.spark.sink.writer",
    "table": "rowbus.spark.sink.writer",
    "upsert": "rowbus.spark.sink.writer",
    "deadletter": "rowbus.spark.sink.writer",
    "changes": "rowbus.spark.sink.writer",
    "delta": "rowbus.spark.lake.writer",
    "iceberg": "rowbus.spark.lake.writer",
    "tables": "rowbus.spark.lake.tables.writer",
}
"""The modules that write, by the value of `deliver`."""


class RowbusDataSource(DataSource):
    """`spark.read`, `readStream`, `write` and `writeStream` with `.format("rowbus")`."""

    _kept: Mapping[str, str] = MappingProxyType({})
    """The options of the table that is read or written."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "rowbus"

    def schema(self) -> StructType | str:
        """Return the columns of the source, or of the sink that a table is; a table's options are kept in them."""
        with one_sentence():
            columns: StructType | str = (
                sink_columns(self._given) if self._is_sink else self._source().schema(self._given)
            )
            if is_table(self.options) and not isinstance(columns, str):
                return keep(columns, self._given)
            return columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        self._kept = kept(schema)
        with one_sentence():
            reader: DataSourceReader = self._source().batch_reader(self._given, schema)
            return reader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream; for options that are no stream's, one that says so to the query."""
        self._kept = kept(schema)
        try:
            reader: DataSourceStreamReader = self._source().stream_reader(self._given, schema)
        except ConfigurationError as error:
            return RefusedStream(error)
        return reader

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Return the writer of a data frame."""
        self._kept = kept(schema)
        with one_sentence():
            writer: DataSourceWriter = self._sink().batch_writer(self._given, schema, overwrite)
            return writer

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """Return the writer of a stream."""
        self._kept = kept(schema)
        with one_sentence():
            writer: DataSourceStreamWriter = self._sink().stream_writer(self._given, schema, overwrite)
            return writer

    @property
    def _given(self) -> dict[str, str]:
        own = of_table(self.options) if is_table(self.options) else dict(self.options)
        return {**self._kept, **own}

    @property
    def _is_sink(self) -> bool:
        return is_table(self.options) and "deliver" in self._given

    def _source(self) -> ModuleType:
        return import_module(source_module(self._given))

    def _sink(self) -> ModuleType:
        return import_module(sink_module(self._given))


def source_module(options: Mapping[str, str]) -> str:
    """Return the module that reads the source; raises `ConfigurationError` unless the options name exactly one."""
    asked = {SOURCES[name.lower()]: name for name in options if name.lower() in SOURCES}
    if len(asked) != 1:
        found = f"both {' and '.join(map(repr, asked.values()))} are given" if asked else "none is given"
        raise ConfigurationError(
            f"Say what to read by one of the options 'log', 'logs', 'logPattern' and 'queue': {found}"
        )
    return next(iter(asked))


def sink_module(options: Mapping[str, str]) -> str:
    """Return the module that writes to the target `deliver`; raises `ConfigurationError` for an unknown one."""
    deliver = next((text for name, text in options.items() if name.lower() == "deliver"), None)
    if deliver is None or deliver.lower() not in SINKS:
        found = "is missing" if deliver is None else f"says {deliver!r}"
        raise ConfigurationError(
            f"Option 'deliver' {found}; it says where rows go: one of {', '.join(SINKS)}", option="deliver"
        )
    return SINKS[deliver.lower()]
