"""A stream of a log or a queue whose options are checked before Spark sees them.

`readStream…load()` cannot do that: when Spark loads a source it does not say whether a stream or a batch will be read,
so what only a stream needs is missed when its query begins, on the other side of Java.

Invariant: what is loaded is what `readStream` with the same options loads; checking does no I/O.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stream(spark: SparkSession, **options: str | float) -> DataFrame:
    """Load a stream: `spark.readStream.format("rowbus").options(**options).load()`, with its options checked first.

    Raises ConfigurationError here and now for options that are no stream's, such as a log's without `consumer`. Asks
    Spark for the columns; reads nothing.
    """
    from rowbus.spark.datasource import source_module  # noqa: PLC0415 - imports Spark

    given = {name: _as_spark_writes(value) for name, value in options.items()}
    import_module(source_module(given)).check_stream(given)
    return spark.readStream.format("rowbus").options(**given).load()


def _as_spark_writes(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
