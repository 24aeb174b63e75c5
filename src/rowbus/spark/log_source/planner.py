"""Plans of micro-batches: which task reads which events.

Invariant: a plan depends only on the offsets and on the log's tables, never on earlier plans, so a batch that is
planned again has the same events.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from rowbus.errors import DataLossError, StorageError
from rowbus.log.consumers.table import log_not_found
from rowbus.spark.log_source.decisions import (
    SMALL,
    TableSample,
    clip,
    left_of,
    shorten,
    split,
)
from rowbus.spark.log_source.hold import stranger
from rowbus.spark.log_source.offset import LogOffset, Place, Segment, TickSteps, segments, tick_steps
from rowbus.spark.log_source.read import LogPartition, TickSpan
from rowbus.spark.log_source.snapshot_range import (
    SnapshotRange,
    find_table_node,
    find_tick,
    list_logs,
    list_ticks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.spark.filters import Conditions
    from rowbus.spark.log_source.decisions import TableRange
    from rowbus.spark.log_source.hold import Control
    from rowbus.spark.log_source.offset import TickPosition
    from rowbus.spark.log_source.options import LogSettings
    from rowbus.spark.log_source.snapshot_range import RetainedLog

logger = logging.getLogger("rowbus.spark")

REMEMBERED = 16  # measurements: those of the batches being planned, and of the ticks being cut
ALL = 2**62
SAMPLES = 64  # blocks
MUCH = 0.3  # of a table: reading all of it costs less than counting first


class LogPlanner:
    """Plans on the database to be read, which may be a replica."""

    def __init__(self, settings: LogSettings, dsn: str, control: Control) -> None:
        """Use a session on the database to be read; `dsn` is that of the primary. No I/O."""
        self._settings = settings
        self._options = settings.options
        self._access = settings.access(dsn)
        self._control = control
        self._where: Conditions = settings.options["where"]
        self._measured: dict[TickSpan, list[TableRange]] = {}
        self._told: set[tuple[str, LogOffset]] = set()

    def state(self, log: str) -> RetainedLog:
        """Return the state of a log; raises LogNotFoundError."""
        states = self._control.run(list_logs([log]))
        if not states:
            raise log_not_found(log)
        return states[0]

    def partitions(self, log: str, start: LogOffset, end: LogOffset, owner: int | None) -> list[LogPartition]:
        """Plan the partitions between two offsets of a log. Raises DataLossError unless all of it is retained."""
        start = self.retained(log, start)
        if self._options["failOnDataLoss"] and (strange := self._stranger(log, end)):
            raise strange
        planned: list[LogPartition] = []
        if start.at.snapshot.xmax > end.at.snapshot.xmax:  # all of it was lost, and failOnDataLoss is off
            return planned
        for part in segments(*self._shorten(log, start, end)):
            planned += self._plan(part, TickSpan(log, part.begin, part.end, owner))
        if planned and not self.is_retained(log, start):
            raise self._lost(log, start)
        return planned

    def _shorten(self, log: str, start: LogOffset, end: LogOffset) -> tuple[LogOffset, LogOffset]:
        """Leave out what lies before and after all events for which the conditions are true."""
        if "ev_txid" not in self._where.values or start.cut or end.cut:
            return start, end
        between = self._control.run(list_ticks(log, start.at.tick, end.at.tick - 1, ALL))
        first, last = shorten(self._where, start.at, end.at, between)
        return LogOffset(first), LogOffset(last)

    def retained(self, log: str, offset: LogOffset) -> LogOffset:
        """Return an offset if all events after it are retained; else raise, or return the oldest, by failOnDataLoss."""
        self._await(log, offset.at)
        lost = self._stranger(log, offset)
        if lost is None and self.is_retained(log, offset):
            return offset
        oldest = self.state(log).oldest
        if self._options["failOnDataLoss"] or oldest is None:
            raise lost or self._lost(log, offset)
        if (log, offset) not in self._told:
            self._told.add((log, offset))
            logger.warning("%s", lost or _left_out(log, offset.at, oldest))
        return LogOffset(oldest)

    def measure(self, span: TickSpan) -> list[TableRange]:
        """Count the events between two ticks, and find their blocks; caches results."""
        if span not in self._measured:
            self._await(span.log, span.end)
            between = SnapshotRange(span.begin, span.end, span.owner)
            names = self.state(span.log).tables_between(span.begin, span.end)
            measured = [self._control.run(between.measure_range(number, name)) for number, name in names]
            while len(self._measured) >= REMEMBERED:
                del self._measured[next(iter(self._measured))]
            self._measured[span] = measured
        return self._measured[span]

    def find_full_place(self, span: TickSpan, after: Place | None, most: int) -> Place | None:
        """Find the place up to which so many bytes lie behind another, a block at least; None when fewer are left."""
        between = SnapshotRange(span.begin, span.end, span.owner)
        left = left_of(self.measure(span), after)
        for table in left:
            block, size = self._control.run(between.find_full_block(table.name, table.first, most))
            if table is left[0] and block is not None:
                block = max(block, table.first + 1)
            if block is not None and (block <= table.last or table is not left[-1]):
                return Place(table.table, block, table.node)
            most -= size
        return None

    def has_events(self, span: TickSpan) -> bool:
        """Return whether there are events between two ticks."""
        self._await(span.log, span.end)
        between = SnapshotRange(span.begin, span.end, span.owner)
        names = self.state(span.log).tables_between(span.begin, span.end)
        return any(self._control.run(between.has_events(name)) for _, name in names)

    def is_retained(self, log: str, offset: LogOffset) -> bool:
        """Return whether all events after an offset are retained."""
        row = self._control.run(find_tick(log, offset.at.tick))
        state = self.state(log)
        if not state.retains(offset.at, row):
            return False
        return offset.cut is None or self._is_intact(offset.cut.place, state)

    def _is_intact(self, place: Place, state: RetainedLog) -> bool:
        return self._control.run(find_table_node(f"{state.prefix}_{place.table}")) == place.node

    def _stranger(self, log: str, offset: LogOffset) -> DataLossError | None:
        """Return the error for an offset that is of another history than the log's; None for one of its own."""
        consumer = self._settings.consumer or "this query"
        for at in (offset.at, offset.cut.to) if offset.cut else (offset.at,):
            self._await(log, at)
            if strange := stranger(self._control.run, log, at, consumer):
                return strange
        return None

    def _lost(self, log: str, offset: LogOffset) -> DataLossError:
        """Return the error for an offset whose events are not retained any more."""
        state = self.state(log)
        oldest = state.oldest.tick if state.oldest else None
        consumer = self._settings.consumer or ""
        return DataLossError(
            f"What {consumer or 'this query'} had yet to read of log {log}, from tick {offset.at.tick} on, is not all "
            f"retained: the oldest tick is {oldest}. The consumer's registration was removed or moved. "
            "Go on with the oldest events there are by failOnDataLoss=false, or take a new checkpoint.",
            log=log,
            consumer=consumer,
            tick=offset.at.tick,
            oldest=oldest,
        )

    # --- one segment

    def _plan(self, part: Segment, span: TickSpan) -> list[LogPartition]:
        self._await(span.log, span.end)
        timeout = self._options["statementTimeoutMs"]
        make = partial(
            LogPartition,
            self._access,
            span,
            steps=self._steps(span),
            statement_timeout=timeout,
            where=self._where,
        )
        estimate = part.end.seq - part.begin.seq
        whole = part.after is None and part.upto is None
        if whole and self._is_small(estimate) and span not in self._measured:
            names = [name for _, name in self.state(span.log).tables_between(part.begin, part.end)]
            return [make([(name, self._control.run(find_table_node(name))) for name in names], part=None)]
        tables = self._sampled(span) if whole else clip(self.measure(span), part.after, part.upto)
        blocks = split(
            tables,
            least=self._options["minPartitions"],
            most_events=self._options["maxRecordsPerPartition"],
        )
        return [make([(block.name, block.node)], part=block) for block in blocks]

    def _sampled(self, span: TickSpan) -> Sequence[TableRange | TableSample]:
        """Find the blocks of events: by samples if the range is much of the tables, else by counting."""
        if span in self._measured:
            return self._measured[span]
        between = SnapshotRange(span.begin, span.end, span.owner)
        found: list[TableRange | TableSample] = []
        for number, name in self.state(span.log).tables_between(span.begin, span.end):
            sample = self._control.run(between.sample_range(number, name, SAMPLES))
            if sample.share < MUCH and sample.blocks:
                found.append(self._control.run(between.measure_range(number, name)))
            else:
                found.append(sample)
        return found

    def _is_small(self, estimate: int) -> bool:
        most = self._options["maxRecordsPerPartition"] or SMALL
        return self._options["minPartitions"] == 1 and estimate <= min(most, SMALL)

    def _steps(self, span: TickSpan) -> TickSteps:
        if "tick_id" not in self._options["columns"]:
            return TickSteps([], [span.end.tick])
        ticks: Sequence[TickPosition] = []
        if span.end.tick - span.begin.tick != 1:
            ticks = self._control.run(list_ticks(span.log, span.begin.tick, span.end.tick - 1, ALL))
        return tick_steps([(each.tick, each.snapshot) for each in (*ticks, span.end)])

    # --- a replica

    def _await(self, log: str, end: TickPosition) -> None:
        """Wait until a replica has the end tick, whose row is written after all events before it."""
        if self._options["readDsn"] is None:
            return
        deadline = time.monotonic() + self._options["replicaTimeoutMs"] / 1000
        while (newest := self.state(log).newest) is None or newest.tick < end.tick:
            if time.monotonic() > deadline:
                raise StorageError(
                    f"The replica (readDsn) does not have tick {end.tick} of log {log} yet: it is behind by more than "
                    "replicaTimeoutMs, or the database was restored to a time before.",
                    sqlstate=None,
                    transient=True,
                )
            time.sleep(0.05)


def _left_out(log: str, at: TickPosition, oldest: TickPosition) -> str:
    return (
        f"Log {log}: about {max(oldest.seq - at.seq, 0)} events were lost, those from tick {at.tick} to {oldest.tick}; "
        "going on with the oldest there are"
    )
