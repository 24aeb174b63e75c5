"""The log source as a stream.

Spark keeps one reader, in a process beside the driver, while a query runs, and pickled copies in executors, where it
calls only `read`.

Invariant: only the settings are pickled; connections and locks belong to the process that opened them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from rowbus.spark.log_source.follower import LogFollower
from rowbus.spark.log_source.offset import offsets_from_json, offsets_to_json
from rowbus.spark.log_source.read import LogPartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    from rowbus.spark.json_rows.layout import RowLayout
    from rowbus.spark.log_source.options import LogSettings
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:  # Spark 4.0 and 4.1 have no admission control: they ask for all there is

        class SupportsTriggerAvailableNow:
            """A stand-in: Spark 4.0 does not have this class."""

        ReadAllAvailable = ReadMaxRows = SupportsTriggerAvailableNow

Json = Mapping[str, Any]


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's reader of a stream; `LogFollower` does the work."""

    def __init__(self, settings: LogSettings, layout: RowLayout) -> None:
        """Take the settings. No I/O: Spark pickles the reader into tasks."""
        self._settings = settings
        self._layout = layout
        self._made: LogFollower | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave out connections and locks."""
        return {"_settings": self._settings, "_layout": self._layout, "_made": None}

    @property
    def _follower(self) -> LogFollower:
        if self._made is None:
            self._made = LogFollower(self._settings)
        return self._made

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where the query begins: where the options say, or where it began before."""
        return offsets_to_json(self._follower.initial())

    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """Choose the end of the next micro-batch; `start`, which is durable, when there are no events."""
        known = offsets_from_json(start) if start is not None else None
        chosen = self._follower.latest(known, self._events(limit))
        if chosen is None:
            return dict(start) if start is not None else self._unchanged()
        return offsets_to_json(chosen)

    def _unchanged(self) -> dict[str, Any]:
        return offsets_to_json(self._follower.last())

    def _events(self, limit: ReadLimit | None) -> int | None:
        """Return the limit of events: Spark's if it gives one, else the option's; None for all."""
        if isinstance(limit, ReadAllAvailable):
            return None
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows
        most: int | None = self._settings.options["maxOffsetsPerTrigger"]
        return most

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Ask for `maxOffsetsPerTrigger` events at a time, or for all."""
        most = self._settings.options["maxOffsetsPerTrigger"]
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Report the newest ticks, so that every progress event shows the lag."""
        return self._follower.newest()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read up to the newest tick of now, and no further."""
        self._follower.cap()

    def partitions(self, start: Json, end: Json) -> list[LogPartition]:
        """Plan the partitions between two offsets; the same at each call."""
        return self._follower.partitions(offsets_from_json(start), offsets_from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition, in an executor."""
        return read_partition(partition, self._layout)

    def commit(self, end: Json) -> None:
        """Release committed events."""
        self._follower.committed(offsets_from_json(end))

    def stop(self) -> None:
        """Close the sessions."""
        if self._made is not None:
            self._made.close()
