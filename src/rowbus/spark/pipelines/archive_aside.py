"""Puts an archive aside: renames it, still readable, each event once.

A Delta table names its files relative to its folder, so renaming the folder is enough. `_spark_metadata`, Spark's list
of the files of a Parquet archive, names them by absolute path. An archive that is put aside does without the list: the
files that Spark reads stay, the others get names that readers skip, and the list is deleted.

Invariant: no file with events is deleted or changed.
"""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowbus.spark.pipelines.compaction import SINK_LOG
from rowbus.spark.pipelines.release import local_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def put_aside(spark: SparkSession, folder: Path) -> Path:
    """Rename an archive to say until when it was in use; return where it is now."""
    if (folder / SINK_LOG).is_dir():
        _hide(_uncommitted(spark, folder))
    target = folder.with_name(f"{folder.name}.until-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    folder.rename(target)
    shutil.rmtree(target / SINK_LOG, ignore_errors=True)
    return target


def _uncommitted(spark: SparkSession, folder: Path) -> set[Path]:
    """Find the files of failed batches: those that Spark does not read."""
    rows = spark.read.schema("ev_id bigint").parquet(
        folder.as_uri()
    )  # no schema could be inferred from no files
    read = {local_folder(address) for address in rows.inputFiles()}
    written = {
        file.absolute() for file in folder.glob("*=*/**/*.parquet") if not file.name.startswith(("_", "."))
    }
    return written - read


def _hide(files: set[Path]) -> None:
    for file in files:
        file.rename(file.with_name(f"_{file.name}"))
