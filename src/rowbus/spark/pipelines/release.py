"""Release of events that a checkpoint has made durable: moves the consumer up to the last committed batch.

Spark confirms a batch to its source when it plans the next one. So after a run, and in quiet times, the registration
is a batch behind. This moves it up: during a query (`ReleaseListener`), after it (`release_committed`), and without
Spark (`rowbus spark release`).

Spark writes `offsets/N` before it runs batch N, and `commits/N` when batch N is done. So the end of the newest batch
that has both files is durable.

Invariants: only what the checkpoint says is committed is released, and a registration never moves backwards; an offset
of a batch without a commit is never taken for durable.
"""

from __future__ import annotations

import json
import logging
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from pyspark.sql.streaming.listener import StreamingQueryListener

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, RowbusError
from rowbus.spark.log_source.hold import LogHold
from rowbus.spark.log_source.offset import VERSION, offsets_from_json
from rowbus.spark.log_source.positions import stranger

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from rowbus.errors import DataLossError
    from rowbus.spark.log_source.offset import Offsets

logger = logging.getLogger("rowbus.spark")

_NUMBER = re.compile(r"\d+")
_NOTHING = "-"  # of a source that had no offset yet


class BatchEnd(NamedTuple):
    """The end of a committed batch."""

    batch: int
    offsets: tuple[dict[str, Any], ...]
    """The sources' offsets, in the order of the file; lines that are no JSON object are left out."""


def newest_committed(offsets: Iterable[str], commits: Iterable[str]) -> int | None:
    """Return the newest batch that is in both folders, by the names of their files; None when there is none."""
    return max(_numbers(offsets) & _numbers(commits), default=None)


def parse_offsets(text: str) -> tuple[dict[str, Any], ...]:
    """Read a file of `offsets/`: a version, Spark's own facts, and then a line for each source.

    Raises ConfigurationError for a file that Spark did not write.
    """
    version, *lines = text.splitlines() or [""]
    if not re.fullmatch(r"v\d+", version) or not lines:
        raise ConfigurationError(
            f"A file of offsets begins with a version such as v1, not with {version[:40]!r}."
        )
    return tuple(offset for line in lines[1:] for offset in _offsets_in(line))


def query_id(text: str) -> str:
    """Read the file `metadata`: the id that a query keeps as long as its checkpoint."""
    return str(json.loads(text)["id"])


def _numbers(names: Iterable[str]) -> set[int]:
    return {int(name) for name in names if _NUMBER.fullmatch(name)}


def _offsets_in(line: str) -> list[dict[str, Any]]:
    """Return the objects of a line: one, or one for each source of a file with named sources."""
    if line == _NOTHING:
        return []
    try:
        found = json.loads(line)
    except ValueError:
        return []
    if not isinstance(found, dict):
        return []
    found = cast("dict[str, Any]", found)
    named = [json.loads(text) for text in found.values() if isinstance(text, str) and text.startswith("{")]
    return named or [found]


APPLICATION = "rowbus spark release"


def read_committed(checkpoint: str | Path) -> BatchEnd | None:
    """Read the end of the newest committed batch of a checkpoint on this machine; None when no batch is committed.

    Raises ConfigurationError for a folder without a checkpoint, or on another machine.
    """
    folder = local_folder(checkpoint)
    if not (folder / "offsets").is_dir():
        raise ConfigurationError(f"{folder} is no checkpoint of Spark's: it has no folder offsets.")
    batch = newest_committed(_names(folder / "offsets"), _names(folder / "commits"))
    if batch is None:
        return None
    return BatchEnd(batch, parse_offsets((folder / "offsets" / str(batch)).read_text(encoding="utf-8")))


def release_committed(checkpoint: str | Path, *, consumer: str, dsn: str | None = None) -> dict[str, int]:
    """Move a consumer of logs up to the newest committed batch of a checkpoint; return that batch's end, a tick by log.

    A registration that is there already, or further, or gone, stays. Safe at any time, also while the query runs.
    Raises ConfigurationError for a folder without a checkpoint, DataLossError for a log that is not the one that the
    checkpoint has read, StorageError.
    """
    committed = read_committed(checkpoint)
    if committed is None:
        return {}
    positions = _positions(committed)
    if strange := _stranger(positions, consumer, dsn):
        raise strange
    ends = {log: offset.at.tick for log, offset in positions.items()}
    release(ends, consumer=consumer, dsn=dsn)
    return ends


def put_stranger_aside(checkpoint: Path, consumer: str, dsn: str) -> Path | None:
    """Put a checkpoint aside that is of another history than its log, whose database was restored; return where it is.

    Only for what is written anew. None when there is no such checkpoint.
    """
    committed = read_committed(checkpoint) if (checkpoint / "offsets").is_dir() else None
    if committed is None or _stranger(_positions(committed), consumer, dsn) is None:
        return None
    return checkpoint.rename(checkpoint.with_name(f"{checkpoint.name}.until-batch-{committed.batch}"))


def _positions(committed: BatchEnd) -> Offsets:
    positions: Offsets = {}
    for offset in committed.offsets:
        if offset.get("v") == VERSION:
            positions |= offsets_from_json(offset)
    return positions


def _stranger(positions: Offsets, consumer: str, dsn: str | None) -> DataLossError | None:
    """Return the error for the first position that is of another history than its log; None when there is none."""
    with Database(resolve_dsn(dsn), application_name=APPLICATION).session() as session:
        found = (stranger(session.run, log, offset.at, consumer) for log, offset in positions.items())
        return next((strange for strange in found if strange), None)


def release(positions: dict[str, int], *, consumer: str, dsn: str | None = None) -> None:
    """Move a consumer up to durable ticks, never back."""
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
            "own program releases committed events.)"
        )
    return Path(place)


def is_elsewhere(place: str | Path) -> bool:
    """Return whether only Spark can reach a place's file system."""
    return "://" in str(place) and urlsplit(str(place)).scheme != "file"


class ReleaseListener(StreamingQueryListener):
    """Releases the events of each batch as soon as Spark has committed it.

    `spark.streams.addListener(ReleaseListener("archive"))`. Follows queries of the given name, by default all. Not for
    Spark Connect, where listeners run in another process.
    """

    def __init__(self, consumer: str, dsn: str | None = None, *, query: str | None = None) -> None:
        """Take the consumer's name, its database, and the query's name. No I/O."""
        self._consumer = consumer
        self._dsn = dsn
        self._query = query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        """Release events up to the end of the committed batch."""
        progress = event.progress
        if self._query is None or progress.name == self._query:
            release_progress([source.endOffset for source in progress.sources], self._consumer, self._dsn)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - as above
        """Do nothing: the last batch has released its events."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        """Do nothing."""


@contextmanager
def releasing(spark: SparkSession, consumer: str, dsn: str | None, *, query: str) -> Generator[None]:
    """Release the events of a query's batches for as long as the block lasts."""
    listener = ReleaseListener(consumer, dsn, query=query)
    spark.streams.addListener(listener)
    try:
        yield
    finally:
        with suppress(Exception):  # where Spark's Java process has ended, that is to be told
            spark.streams.removeListener(listener)


def release_progress(ends: list[str | None], consumer: str, dsn: str | None) -> None:
    """Release events up to the ends of a committed batch; a failure is logged, and the next batch repeats it."""
    try:
        for end in ends:
            offsets = _offsets(end)
            if offsets:
                release({log: at.at.tick for log, at in offsets.items()}, consumer=consumer, dsn=dsn)
    except RowbusError as error:
        logger.warning("Failed to release the events of %s; the next batch tries again: %s", consumer, error)


def _offsets(end: Any) -> Offsets | None:  # noqa: ANN401 - what Spark says
    try:
        return offsets_from_json(end)
    except (ConfigurationError, ValueError, TypeError):
        return None  # an offset of another source


def _names(folder: Path) -> list[str]:
    return [file.name for file in folder.iterdir()] if folder.is_dir() else []
