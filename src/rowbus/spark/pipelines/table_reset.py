"""Reset of a project's tables: empties them, so that the next run rebuilds them from their sources.

Spark's own full refresh (4.3) begins a new checkpoint but keeps a Parquet table's `_spark_metadata`, which lists the
old batches as written. So it skips as many new batches, and rows are missing.

Invariant: a table that is read from a log is never emptied, because the log no longer has all its events.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.spark.checkpoint import read_committed
from rowbus.spark.log_source.offset import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

STORAGE: Final = "pipeline-storage"
WAREHOUSE: Final = "spark-warehouse"
_FULL_REFRESH: Final = "--full-refresh"


class Rebuild(NamedTuple):
    """A table to be rebuilt: the folder of its rows, and the checkpoints of the flows into it."""

    rows: Path
    progress: Path


def refuse_full_refresh(arguments: Sequence[str]) -> None:
    """Raise ConfigurationError for arguments with which Spark leaves out rows."""
    for argument in arguments:
        if argument.startswith(_FULL_REFRESH):
            raise ConfigurationError(
                f"{argument} would leave out rows: Spark empties no Parquet table's _spark_metadata, and then takes "
                "new batches for written ones. To make a table anew: rowbus spark run DIR --anew TABLE"
            )


def empty(folder: Path, tables: Sequence[str]) -> None:
    """Delete the rows of these tables and the checkpoints of their flows, or of none if one table is refused.

    Raises ConfigurationError for a table that does not exist or is read from a log.
    """
    for emptied in [_find(folder, table) for table in tables]:
        shutil.rmtree(
            emptied.progress
        )  # first: checkpoints without rows would lose rows, rows without checkpoints do not
        shutil.rmtree(emptied.rows)
        emptied.rows.mkdir()


def checkpoints(storage: Path) -> list[Path]:
    """Return the newest checkpoint of each flow in a pipeline's storage; a full refresh begins another."""
    flows: dict[Path, Path] = {}
    for offsets in (storage / "_checkpoints").glob("**/offsets"):
        found = offsets.parent
        if found.name.isdecimal() and _number(flows.get(found.parent)) < int(found.name):
            flows[found.parent] = found
    return sorted(flows.values())


def _find(folder: Path, table: str) -> Rebuild:
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
    return Rebuild(folder / WAREHOUSE / table, found[0])


def _reads_log(checkpoint: Path) -> bool:
    committed = read_committed(checkpoint)
    return committed is not None and any(offset.get("v") == VERSION for offset in committed.offsets)


def _number(checkpoint: Path | None) -> int:
    return -1 if checkpoint is None else int(checkpoint.name)
