"""The log source as a batch: reads the retained events, or a range of them, once.

While tasks read, a session of the planning process locks the tables against TRUNCATE; the lock ends with the process.
A registration would outlive the process and hold the log back for ever. If the process ends first, a table is emptied
no sooner than a rotation period after it was last needed, and a task that comes later fails.

Invariant: nothing is registered, moved or taken, so any number of batches may read at any time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rowbus.database.location import resolve_dsn
from rowbus.spark.log_source.control import Control
from rowbus.spark.log_source.hold import LogHold
from rowbus.spark.log_source.planner import LogPlanner
from rowbus.spark.log_source.positions import find_logs, find_offset
from rowbus.spark.log_source.read import LogPartition, read_partition

if TYPE_CHECKING:
    import pyarrow as pa

    from rowbus.spark.json_rows.layout import RowLayout
    from rowbus.spark.log_source.options import LogSettings
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
