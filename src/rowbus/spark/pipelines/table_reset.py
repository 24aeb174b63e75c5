"""Empties tables of a project so that its next run makes them anew from what they are made of.

Spark's own full refresh (4.3) begins a new checkpoint but leaves a Parquet table's `_spark_metadata` as it is, where
the batches of the old one are marked as written. So it skips that many new batches, and rows are missing.

Invariant: a table that is read from a log is never emptied, for the log has not all of it any more.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.spark.log_source.offset import VERSION
from rowbus.spark.pipelines.release import read_committed

if TYPE_CHECKING:
    from collections.abc import Sequence

STORAGE: Final = "pipeline-storage"
WAREHOUSE: Final = "spark-warehouse"
_FULL_REFRESH: Final = "--full-refresh"


class Emptied(NamedTuple):
    """A table to be made anew: its rows, and how far the flows into it are."""

    rows: Path
    progress: Path


def refuse_full_refresh(arguments: Sequence[str]) -> None:
    """Raise ConfigurationError for arguments that would have Spark lose rows."""
    for argument in arguments:
        if argument.startswith(_FULL_REFRESH):
            raise ConfigurationError(
                f"{argument} would leave out rows: Spark empties no Parquet table's _spark_metadata, and then takes "
                "new batches for written ones. To make a table anew: rowbus spark run DIR --anew TABLE"
            )


def empty(folder: Path, tables: Sequence[str]) -> None:
    """Forget the rows of these tables and how far their flows are, all of them or (with an error) none.

    Interrupted, it is to be called again: the progress goes last, for only it tells what a table is made of.
    Raises ConfigurationError for a table that is not there or is read from a log.
    """
    for emptied in [_find(folder, table) for table in tables]:
        shutil.rmtree(
            emptied.progress
        )  # first: progress without rows would lose them, rows without progress do not
        shutil.rmtree(emptied.rows)
        emptied.rows.mkdir()


def checkpoints(storage: Path) -> list[Path]:
    """Find the checkpoints in a pipeline's storage: of each flow the newest, for each full refresh begins another."""
    flows: dict[Path, Path] = {}
    for offsets in (storage / "_checkpoints").glob("**/offsets"):
        found = offsets.parent
        if found.name.isdecimal() and _number(flows.get(found.parent)) < int(found.name):
            flows[found.parent] = found
    return sorted(flows.values())


def _find(folder: Path, table: str) -> Emptied:
    found = [place for place in (folder / STORAGE / "_checkpoints").glob(f"*/*/{table}") if place.is_dir()]
    if Path(table).name != table or len(found) != 1:
        raise ConfigurationError(
            f"{folder} has no streaming table {table} that has run. Materialized views are made anew at each run."
        )
    if any(
        _reads_log(checkpoint) for checkpoint in found[0].glob("*/*") if (checkpoint / "offsets").is_dir()
    ):
        raise ConfigurationError(
            f"{table} is read from a log, which has not all of its events any more; it is not made anew."
        )
    return Emptied(folder / WAREHOUSE / table, found[0])


def _reads_log(checkpoint: Path) -> bool:
    committed = read_committed(checkpoint)
    return committed is not None and any(offset.get("v") == VERSION for offset in committed.offsets)


def _number(checkpoint: Path | None) -> int:
    return -1 if checkpoint is None else int(checkpoint.name)
