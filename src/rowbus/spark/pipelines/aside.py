"""Puts an archive aside: under another name, still readable.

The log of Spark's file sink names files by their whole address, so an archive that was simply renamed cannot be read
any more, or worse, is taken for the one that stands in its place.

Invariant: no file of the archive is changed but its log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from rowbus.spark.pipelines.compaction import LOG, local, overwrite, read_log
from rowbus.spark.pipelines.file_sink_log import SinkFile, render


def put_aside(folder: Path) -> Path:
    """Rename an archive to say until when it was in use; return where it is now."""
    target = folder.with_name(f"{folder.name}.until-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    folder.rename(target)
    if (target / LOG).is_dir():
        for file, entries in read_log(target):
            overwrite(file, render([_moved(entry, folder, target) for entry in entries]))
    return target


def _moved(entry: SinkFile, old: Path, new: Path) -> SinkFile:
    """Return the line of a file that was moved with its archive; the part that stays is copied as Spark escaped it."""
    depth = len(local(entry.path).relative_to(old.absolute()).parts)
    kept = "/".join(entry.path.split("/")[-depth:])
    return entry._replace(path=f"{new.absolute().as_uri()}/{kept}")
