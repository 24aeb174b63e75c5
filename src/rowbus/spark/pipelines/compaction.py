"""Compaction of Delta archives: Delta Lake merges the small files of an archive into larger ones.

Parquet archives are refused: only Spark may change `_spark_metadata`, its list of the files that count.

Invariant: each event is in the archive once, before, during and after a compaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rowbus.errors import ConfigurationError

DELTA_LOG: Final = "_delta_log"
SINK_LOG: Final = "_spark_metadata"
TARGET_BYTES: Final = 128 * 2**20


@dataclass(frozen=True, slots=True)
class CompactionReport:
    """How many files the archive had, and has."""

    path: str
    files_before: int
    files_after: int


def compact(path: str | Path, *, target_bytes: int = TARGET_BYTES) -> CompactionReport:
    """Merge the small files of a Delta archive into files of about `target_bytes`.

    One Delta commit, so readers, streams and a running archive see each event once. Needs no Java. Raises
    ConfigurationError for a Parquet archive and for a folder without an archive.
    """
    folder = Path(path)
    refuse_other_formats(folder)
    from deltalake import DeltaTable  # noqa: PLC0415 - its import takes half a second

    table = DeltaTable(str(folder))
    before = len(table.file_uris())
    table.optimize.compact(target_size=target_bytes)
    return CompactionReport(str(folder), before, len(table.file_uris()))


def refuse_other_formats(folder: Path) -> None:
    """Raise ConfigurationError unless a folder holds a Delta table."""
    if (folder / DELTA_LOG).is_dir():
        return
    if (folder / SINK_LOG).is_dir():
        raise ConfigurationError(
            f"{folder} is a Parquet archive; only Delta archives can be compacted. Archive into a new folder with "
            "--format delta, or rewrite this archive with Spark into a new folder."
        )
    raise ConfigurationError(f"{folder} is no archive: it has no folder {DELTA_LOG}.")
