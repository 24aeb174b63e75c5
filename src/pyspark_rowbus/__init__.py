"""The entry point of `format("rowbus")`: Spark looks for `DefaultSource` in every package called `pyspark_…`."""

from __future__ import annotations

from rowbus.spark.datasource import RowbusDataSource as DefaultSource

__all__ = ["DefaultSource"]
