"""The log source: `format("rowbus")` with the option `log`, `logs` or `logPattern`.

Invariant: making a reader does no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rowbus.spark.log_source.options import COLUMNS, LogSettings, read_settings

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType


def schema(options: Mapping[str, str]) -> str:
    """Return the columns, all nullable, as DDL. Raises ConfigurationError."""
    settings = read_settings(options, stream=False)
    return ", ".join(f"{name} {kind}" for name, kind in _columns(settings).items())


def batch_reader(options: Mapping[str, str], _schema: StructType) -> DataSourceReader:
    """Return the reader of a batch."""
    from rowbus.spark.log_source.batch_reader import LogBatchReader  # noqa: PLC0415 - imports Spark's interfaces

    settings = read_settings(options, stream=False)
    return LogBatchReader(settings, _columns(settings))


def stream_reader(options: Mapping[str, str], _schema: StructType) -> DataSourceStreamReader:
    """Return the reader of a stream."""
    from rowbus.spark.log_source.stream_reader import LogStreamReader  # noqa: PLC0415 - imports Spark's interfaces

    settings = read_settings(options, stream=True)
    return LogStreamReader(settings, _columns(settings))


def _columns(settings: LogSettings) -> dict[str, str]:
    return {name: COLUMNS[name] for name in settings.options["columns"]}
