"""The readers of the log source: a batch, which reads retained events once, and a stream.

While tasks read, a session of the planning process locks the tables against TRUNCATE; the lock ends with the process.
A registration would outlive the process and hold the log back for ever. If the process ends first, a table is emptied
no sooner than a rotation period after it was last needed, and a task that comes later fails.

Spark keeps one reader, in a process beside the driver, while a query runs, and pickled copies in executors, where it
calls only `read`.

Invariants: nothing is registered, moved or taken, so any number of batches may read at any time; only the settings are
pickled; connections and locks belong to the process that opened them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from rowbus.database.location import resolve_dsn
from rowbus.spark.datasource import one_sentence
from rowbus.spark.log_source.follower import LogFollower
from rowbus.spark.log_source.hold import Control, LogHold, find_logs, find_offset
from rowbus.spark.log_source.offset import offsets_from_json, offsets_to_json
from rowbus.spark.log_source.planner import LogPlanner
from rowbus.spark.log_source.read import read_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from rowbus.spark.json_rows.layout import RowLayout
    from rowbus.spark.log_source.options import LogSettings
    from rowbus.spark.log_source.read import LogPartition, RowsPartition
    from rowbus.spark.log_source.snapshot_range import RetainedLog

HELD_FOR = 600.0  # seconds
holds: list[tuple[float, Control]] = []
"""The sessions of this process that lock tables, and until when."""


class LogBatchReader(DataSourceReader):
    """Spark's reader of a batch."""

    def __init__(self, settings: LogSettings, layout: RowLayout) -> None:
        """Take the settings. No I/O: Spark pickles the reader into tasks."""
        self._settings = settings
        self._layout = layout

    def partitions(self) -> Sequence[LogPartition]:
        """Find the range that the options name, lock its tables, and plan its partitions."""
        with one_sentence():
            return self._planned()

    def _planned(self) -> Sequence[LogPartition]:
        settings = self._settings
        dsn = resolve_dsn(settings.dsn)
        control = Control(dsn, settings, "batch")
        read_dsn = settings.options["readDsn"]
        reading = Control(read_dsn, settings, "planner") if read_dsn else control
        try:
            planner = LogPlanner(settings, dsn, reading)
            planned = [
                part for state in find_logs(control, settings) for part in self._plan(control, planner, state)
            ]
        except BaseException:
            control.close()
            raise
        finally:
            if reading is not control:
                reading.close()
        _hold(control, planned)
        return planned

    def _plan(self, control: Control, planner: LogPlanner, state: RetainedLog) -> list[LogPartition]:
        consumer = self._settings.consumer
        hold = control.run(LogHold(state.log, consumer).find_hold()) if consumer else None
        committed = hold.tick if hold else None
        start = find_offset(control, state, self._settings.starting, committed)
        end = find_offset(control, state, self._settings.ending, None)
        return planner.partitions(state.log, start, end, hold.owner if hold else None)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition, in an executor."""
        return read_partition(partition, self._layout)


def _hold(control: Control, planned: Sequence[LogPartition]) -> None:
    """Lock the tables against TRUNCATE while tasks read them; release locks held for long."""
    names = sorted({name for part in planned for name, _ in part.tables})
    if names:
        control.hold_tables(names)
        holds.append((time.monotonic() + HELD_FOR, control))
    else:
        control.close()
    for expired in [hold for hold in holds if hold[0] < time.monotonic()]:
        expired[1].close()
        holds.remove(expired)


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


_MARK: Final = "snapshot"
"""In the offset at which a query begins, which no checkpoint keeps: its table's rows come first."""


def _is_marked(start: Json) -> bool:
    return any(isinstance(part, Mapping) and _MARK in part for part in start.values())


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
        return self._marked(offsets_to_json(self._follower.initial()))

    def latestOffset(self, start: Json | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """Choose the end of the next micro-batch; `start`, which is durable, when there are no events."""
        known = offsets_from_json(start) if start is not None else None
        chosen = self._follower.latest(known, self._events(limit))
        if chosen is None and start is not None and not _is_marked(start):
            return dict(start)
        return offsets_to_json(chosen or known or self._follower.last())

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

    def partitions(self, start: Json, end: Json) -> list[LogPartition | RowsPartition]:
        """Plan the partitions between two offsets; the same at each call."""
        planned = self._follower.partitions(offsets_from_json(start), offsets_from_json(end))
        return [self._follower.rows(offsets_from_json(start)), *planned] if _is_marked(start) else [*planned]

    def _marked(self, begun: dict[str, Any]) -> dict[str, Any]:
        """Mark where a query begins with its table's rows: Spark asks for it before a checkpoint's first batch only."""
        if self._settings.options["snapshot"] != "initial":
            return begun
        [log] = self._settings.logs
        return {**begun, log: {**begun[log], _MARK: True}}

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
