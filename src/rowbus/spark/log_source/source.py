"""The log source: `format("rowbus")` with the option `log`, `logs` or `logPattern`.

Invariant: making a reader does no I/O; only the columns of `changes` are asked of the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError
from rowbus.spark.column_list import parse_columns
from rowbus.spark.json_rows.layout import lay_out, struct_of
from rowbus.spark.log_source.changes import change_columns, change_layout
from rowbus.spark.log_source.options import COLUMNS, LogSettings, read_settings

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from rowbus.spark.filters import Conditions
    from rowbus.spark.json_rows.layout import RowLayout


def schema(options: Mapping[str, str]) -> StructType:
    """Return the columns, all nullable. Raises ConfigurationError, and with `changes` also what a session does."""
    settings = read_settings(options, stream=False)
    if settings.changes is not None:
        return _changes(settings, settings.changes)
    if settings.options["schema"] is not None:
        columns = parse_columns(settings.options["schema"])
        _layout(settings, columns)
        return columns
    return struct_of({name: COLUMNS[name] for name in settings.options["columns"]})


def batch_reader(options: Mapping[str, str], schema: StructType) -> DataSourceReader:
    """Return the reader of a batch. Raises ConfigurationError for a schema that a log cannot give."""
    from rowbus.spark.log_source.readers import LogBatchReader  # noqa: PLC0415 - imports Spark's interfaces

    settings = read_settings(options, stream=False)
    if settings.options["snapshot"] == "initial":
        raise ConfigurationError(
            "Option 'snapshot' is a stream's: a batch reads the table itself.", option="snapshot"
        )
    layout = _layout(settings, schema)
    return LogBatchReader(_reading(settings, layout), layout)


def check_stream(options: Mapping[str, str]) -> None:
    """Raise ConfigurationError for options that are no stream's, such as those without a consumer. No I/O."""
    read_settings(options, stream=True)


def stream_reader(options: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Return the reader of a stream. Raises ConfigurationError for a schema that a log cannot give."""
    from rowbus.spark.log_source.readers import LogStreamReader  # noqa: PLC0415 - imports Spark's interfaces

    settings = read_settings(options, stream=True)
    layout = _layout(settings, schema)
    return LogStreamReader(_reading(settings, layout), layout)


def _changes(settings: LogSettings, table: str) -> StructType:
    from rowbus.spark.log_source.changes import find_captured  # noqa: PLC0415 - imports Arrow

    options = settings.options
    found = find_captured(table, settings)
    return change_columns(found, options["mode"], options["columnNameOfCorruptRecord"])


def _layout(settings: LogSettings, schema: StructType) -> RowLayout:
    mode = settings.options["mode"]
    if settings.changes is not None:
        return change_layout(schema, settings.changes, mode)
    return lay_out(schema, COLUMNS, settings.options, of="the log source", body="ev_data", mode=mode)


def _reading(settings: LogSettings, layout: RowLayout) -> LogSettings:
    """Return the settings with the columns that the layout needs, and the condition on the table."""
    where: Conditions = settings.options["where"]
    if settings.changes is not None:
        where = where.only("ev_extra1", settings.changes)
    return settings._replace(options={**settings.options, "columns": layout.needed, "where": where})
