"""Lets go of what a checkpoint has made durable: the consumer's registration moves up to the last committed batch.

A source hears of a committed batch when the next one is planned, so after a run that ends, and in quiet times, the
registration is a batch behind and holds events that nobody needs. This closes the gap, during a query
(`ReleaseListener`), after it (`release_committed`), and where Spark is gone (`rowbus spark release`).

Invariant: nothing is released that the checkpoint does not say is committed, and a registration never moves backwards.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pyspark.sql.streaming.listener import StreamingQueryListener

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, RowbusError
from rowbus.spark.log_source.hold import LogHold
from rowbus.spark.log_source.offset import VERSION, offsets_from_json
from rowbus.spark.pipelines.checkpoint import Committed, newest_committed, parse_offsets

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from rowbus.spark.log_source.offset import Offsets

logger = logging.getLogger("rowbus.spark")

APPLICATION = "rowbus spark release"


def read_committed(checkpoint: str | Path) -> Committed | None:
    """Read the end of the newest committed batch of a checkpoint on this machine; None when no batch is committed.

    Raises ConfigurationError for a folder that is no checkpoint, or is elsewhere.
    """
    folder = local_folder(checkpoint)
    if not (folder / "offsets").is_dir():
        raise ConfigurationError(f"{folder} is no checkpoint of Spark's: it has no folder offsets.")
    batch = newest_committed(_names(folder / "offsets"), _names(folder / "commits"))
    if batch is None:
        return None
    return Committed(batch, parse_offsets((folder / "offsets" / str(batch)).read_text(encoding="utf-8")))


def release_committed(checkpoint: str | Path, *, consumer: str, dsn: str | None = None) -> dict[str, int]:
    """Move a consumer of logs up to the newest committed batch of a checkpoint; return that batch's end, a tick by log.

    A registration that is there already, or further, or gone, is left as it is. Safe at any time, also while the query
    runs. Raises ConfigurationError for what is no checkpoint, StorageError.
    """
    committed = read_committed(checkpoint)
    if committed is None:
        return {}
    positions: dict[str, int] = {}
    for offset in committed.offsets:
        if offset.get("v") == VERSION:
            positions |= {log: at.at.tick for log, at in offsets_from_json(offset).items()}
    release(positions, consumer=consumer, dsn=dsn)
    return positions


def release(positions: dict[str, int], *, consumer: str, dsn: str | None = None) -> None:
    """Move a consumer up to ticks that are known to be durable, never back."""
    with Database(resolve_dsn(dsn), application_name=APPLICATION).session() as session:
        for log, tick in sorted(positions.items()):
            hold = LogHold(log, consumer)
            with session.transaction():
                session.run(hold.lock_hold())
                session.run(hold.move_up_hold(tick))


def local_folder(place: str | Path) -> Path:
    """Return a folder of this machine by its path or `file:` address; raises ConfigurationError for others."""
    address = urlsplit(str(place))
    if address.scheme == "file":
        return Path(unquote(address.path))
    if is_elsewhere(place):
        raise ConfigurationError(
            f"{place} is not on this machine's file systems; give a path. (Elsewhere, a ReleaseListener in the query's "
            "own program releases what is committed.)"
        )
    return Path(place)


def is_elsewhere(place: str | Path) -> bool:
    """Say whether a place is on a file system that only Spark can reach."""
    return "://" in str(place) and urlsplit(str(place)).scheme != "file"


class ReleaseListener(StreamingQueryListener):
    """Releases what each batch has made durable, as soon as Spark has committed it.

    `spark.streams.addListener(ReleaseListener("archive"))`. Looks only at queries of this name, all if none is given.
    Not through Spark Connect, where listeners run elsewhere.
    """

    def __init__(self, consumer: str, dsn: str | None = None, *, query: str | None = None) -> None:
        """Take the consumer's name, its database, and the query's name. No I/O."""
        self._consumer = consumer
        self._dsn = dsn
        self._query = query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        """Release up to the end of the batch, whose commit is written."""
        progress = event.progress
        if self._query is None or progress.name == self._query:
            release_progress([source.endOffset for source in progress.sources], self._consumer, self._dsn)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - as above
        """Do nothing: what there was to release was released with the last batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        """Do nothing."""


def release_progress(ends: list[str | None], consumer: str, dsn: str | None) -> None:
    """Release the ends of a batch that is committed. What fails is left to the next time, with a line in the log."""
    try:
        for end in ends:
            offsets = _offsets(end)
            if offsets:
                release({log: at.at.tick for log, at in offsets.items()}, consumer=consumer, dsn=dsn)
    except RowbusError as error:
        logger.warning(
            "Releasing what %s has done failed, and is tried again after the next batch: %s", consumer, error
        )


def _offsets(end: Any) -> Offsets | None:  # noqa: ANN401 - what Spark says
    try:
        return offsets_from_json(end)
    except (ConfigurationError, ValueError, TypeError):
        return None  # of another source


def _names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()] if folder.is_dir() else []
