"""The data source `rowbus`: its options name the log or queue to read, or the target to write.

Spark makes this object in short-lived processes beside the driver, pickles what its methods return, and imports this
module in every worker that looks for data sources. So it holds only the options, and imports the module of an option
when needed.

Spark gives a table's options to the data source when the table is created, and never after that. So they are kept
in the table's columns: as metadata of the first one, which Spark hands on whenever it reads or writes the table.

When Spark loads a source it does not say whether a stream or a batch will be read, so the first moment to refuse a
stream is when its query begins. A reader that cannot even be made fails there with an error of Spark's own on top
(`UnboundLocalError`), which hides ours; so there is a reader, and all that Spark asks it for raises.

Invariants: nothing here opens a connection, and only the options decide which module is used; a password is never kept;
of a refused stream, only methods that Spark calls in a process of its own touch the environment.
"""

from __future__ import annotations

import gc
import json
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from rowbus.errors import ConfigurationError, RowbusError
from rowbus.spark.column_list import parse_columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

KEPT: Final = "rowbus.options"
_GIVEN: Final = "option."  # before the names of a table's options, which Spark repeats without it
_PASSWORD: Final = re.compile(r"password\s*=|://[^/?#]*:[^/?#]*@", re.IGNORECASE)


def is_table(given: Mapping[str, str]) -> bool:
    """Say whether these are the options of a table that is being created."""
    return "provider" in given


def of_table(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that the user gave for a table, without the table's properties."""
    return {name.removeprefix(_GIVEN): text for name, text in given.items() if name.startswith(_GIVEN)}


def keep(columns: StructType, options: Mapping[str, str]) -> StructType:
    """Keep a table's options in its columns. Raises ConfigurationError for a password: all who see the table see it."""
    from pyspark.sql import types as spark  # noqa: PLC0415 - only where Spark is

    for name, text in options.items():
        if _PASSWORD.search(text):
            raise ConfigurationError(
                f"Option {name!r} has a password, which all who may see the table would see: take it from "
                "ROWBUS_DATABASE, a passfile or a service file.",
                option=name,
            )
    first, *others = columns.fields
    metadata: dict[str, Any] = {**(first.metadata or {}), KEPT: json.dumps(options)}
    return spark.StructType([spark.StructField(first.name, first.dataType, metadata=metadata), *others])


def sink_columns(options: Mapping[str, str]) -> StructType:
    """Return the columns of a table that is a sink; raises ConfigurationError without the option `rowSchema`."""
    columns = next((text for name, text in options.items() if name.lower() == "rowschema"), None)
    if columns is None:
        raise ConfigurationError(
            "A table that takes rows needs the option 'rowSchema': its columns, such as `id bigint, total double`.",
            option="rowSchema",
        )
    return parse_columns(columns)


def kept(columns: StructType) -> dict[str, str]:
    """Return the options kept in a table's columns; none for what is no table."""
    found = next((field.metadata[KEPT] for field in columns if KEPT in (field.metadata or {})), "{}")
    options: dict[str, str] = json.loads(found)
    return options


_HIDE: Final = "SPARK_HIDE_TRACEBACK"
_OURS: Final = "rowbus"


class RefusedStream(DataSourceStreamReader):
    """The reader of a stream that must not run."""

    def __init__(self, error: ConfigurationError) -> None:
        """Keep what Spark is to be told."""
        self._error = error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse a new query."""
        self._refuse()

    def latestOffset(self, start: object = None, limit: object = None) -> NoReturn:  # noqa: ARG002, N802 - Spark's
        """Refuse a query that goes on from its checkpoint."""
        self._refuse()

    def partitions(self, start: object, end: object) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Refuse a query that repeats its last batch."""
        self._refuse()

    def read(self, partition: object) -> NoReturn:  # noqa: ARG002 - Spark's signature
        """Refuse a task; Spark plans none."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        with one_sentence():
            raise self._error


@contextmanager
def one_sentence() -> Generator[None]:
    """Let Spark tell what is wrong with options, schema or the database they name without a Python traceback."""
    if os.environ.get(_HIDE) == _OURS:  # a mistake before this one, in the same process
        del os.environ[_HIDE]
    try:
        yield
    except RowbusError:
        os.environ.setdefault(_HIDE, _OURS)  # Spark asks for it when the error has reached it
        raise
    spare_collections()


@cache
def spare_collections() -> None:
    """Leave what is loaded out of garbage collections, once in a process that works for Spark.

    Spark has its Python processes collect after each task, which takes 30 ms of a core with all that they import.
    """
    gc.freeze()


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
    deliver = {name.lower(): text for name, text in options.items()}.get("deliver")
    if deliver is None or deliver.lower() not in SINKS:
        found = "is missing" if deliver is None else f"says {deliver!r}"
        raise ConfigurationError(
            f"Option 'deliver' {found}; it says where rows go: one of {', '.join(SINKS)}", option="deliver"
        )
    return SINKS[deliver.lower()]
