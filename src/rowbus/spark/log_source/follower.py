"""The state of a stream beside the driver: its logs, its offsets, and the registrations that retain events for it.

`Admission` finds the end of the next micro-batch in each log, within the limits: it skips empty ticks, and cuts those
too large.

Invariants: only events before an offset that Spark has made durable are released; a log's offset moves only over events
that the micro-batch reads, or over ticks known to be empty.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rowbus.database.location import resolve_dsn
from rowbus.errors import ConfigurationError, StorageError
from rowbus.log.range import LogRange
from rowbus.running.critical import Outage
from rowbus.spark.log_source.changes import find_captured
from rowbus.spark.log_source.decisions import choose_cut, choose_tick, left_of, split_budget
from rowbus.spark.log_source.hold import Control, LogKeeper, find_logs, find_offset, newest
from rowbus.spark.log_source.offset import Cut, LogOffset, Offsets
from rowbus.spark.log_source.planner import LogPlanner
from rowbus.spark.log_source.read import RowsPartition, TickSpan
from rowbus.spark.log_source.snapshot_range import list_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.spark.log_source.offset import Place, TickPosition
    from rowbus.spark.log_source.options import LogSettings
    from rowbus.spark.log_source.read import LogPartition
    from rowbus.spark.log_source.snapshot_range import RetainedLog


logger = logging.getLogger("rowbus.spark")

TICKS = 1000  # considered at a time
SLACK = 1.2  # a batch may be larger than the limit by this factor before a tick is cut


class Candidate(NamedTuple):
    """A log that may have events to read: its offset, and its newest tick."""

    state: RetainedLog
    offset: LogOffset
    target: TickPosition
    owner: int | None

    @property
    def base(self) -> TickPosition:
        """The tick up to which it has been read, or is being read."""
        return self.offset.cut.to if self.offset.cut else self.offset.at

    @property
    def span(self) -> TickSpan:
        """The range from the base to the target."""
        return TickSpan(self.state.log, self.base, self.target, self.owner)

    @property
    def is_behind(self) -> bool:
        """Whether it has unread ticks."""
        return self.offset.cut is not None or self.base.tick < self.target.tick


class Admission:
    """Chooses the offsets of one stream; remembers the ranges it found empty."""

    def __init__(
        self, planner: LogPlanner, control: Control, options: Mapping[str, int | bool | None]
    ) -> None:
        """Use the stream's sessions. No I/O."""
        self._planner = planner
        self._control = control
        self._most_ticks = options["maxTicksPerTrigger"]
        self._most_bytes = options["maxBytesPerTrigger"]
        self._skip_empty = options["skipEmptyTicks"]
        self._cuts = options["cutTicks"] and options["changes"] is None  # blocks keep no order
        self._empty: set[TickSpan] = set()

    def choose(self, candidates: Sequence[Candidate], events: int | None) -> Offsets | None:
        """Return the end offsets of the next micro-batch; None when there is nothing to read."""
        full = {each.state.log for each in candidates if each.is_behind and not self._is_empty(each)}
        if not full and not any(map(self._blocks_rotation, candidates)):
            return None
        budgets: Mapping[str, int] = {}
        if events is not None:
            backlogs = {each.state.log: self.backlog(each) for each in candidates if each.state.log in full}
            budgets = split_budget(events, backlogs)
        return {
            each.state.log: self._end(each, budgets.get(each.state.log))
            if each.state.log in full
            else (LogOffset(each.target) if each.is_behind else each.offset)
            for each in candidates
        }

    def backlog(self, candidate: Candidate) -> int:
        """Estimate the number of unread events of a log."""
        rest = 0
        if candidate.offset.cut is not None:
            cut = candidate.offset.cut
            measured = self._planner.measure(self._cut_span(candidate))
            rest = sum(table.events for table in left_of(measured, cut.place))
        return max(candidate.target.seq - candidate.base.seq, 0) + rest

    # --- one log

    def _end(self, candidate: Candidate, budget: int | None) -> LogOffset:
        if candidate.offset.cut is not None:
            return self._in_cut(candidate, candidate.offset.cut, budget)
        if budget is None and self._most_ticks is None and self._most_bytes is None:
            return LogOffset(candidate.target)
        ticks = self._control.run(
            list_ticks(
                candidate.state.log, candidate.base.tick, candidate.target.tick, self._most_ticks or TICKS
            )
        ) or [candidate.target]
        chosen = choose_tick(candidate.base.seq, ticks, events=budget, most=self._most_ticks)
        if chosen is None or (budget is None and self._most_bytes is None):
            return LogOffset(chosen or candidate.target)
        return self._fitting(candidate, ticks[: ticks.index(chosen) + 1], budget)

    def _fitting(self, candidate: Candidate, ticks: list[TickPosition], budget: int | None) -> LogOffset:
        """Choose the last tick within the limits, by counting; or cut the first tick."""
        while True:
            span = candidate.span._replace(end=ticks[-1])
            place = self._cut(span, None, budget)
            if place is None or (len(ticks) == 1 and not self._cuts):
                return LogOffset(ticks[-1])
            if len(ticks) == 1:
                return LogOffset(candidate.base, Cut(ticks[0], place))
            events = sum(table.events for table in self._planner.measure(span))
            too_many = budget is not None and events > budget * SLACK
            within = len(ticks) * (budget or 1) // events if too_many else len(ticks) // 2
            ticks = ticks[: max(min(len(ticks) - 1, within), 1)]

    def _cut(self, span: TickSpan, after: Place | None, budget: int | None) -> Place | None:
        """Choose the place after another at which a micro-batch of a range ends; None when all the rest fits."""
        places = [self._planner.find_full_place(span, after, self._most_bytes)] if self._most_bytes else []
        if budget is not None:
            measured = self._planner.measure(span)
            left = sum(table.events for table in left_of(measured, after))
            places.append(choose_cut(measured, after, budget) if left > budget * SLACK else None)
        order = [table.table for table in self._planner.measure(span)]
        found = [place for place in places if place is not None]
        return min(found, key=lambda place: (order.index(place.table), place.block), default=None)

    def _in_cut(self, candidate: Candidate, cut: Cut, budget: int | None) -> LogOffset:
        if not self._cuts or (budget is None and self._most_bytes is None):
            return LogOffset(cut.to)
        place = self._cut(self._cut_span(candidate), cut.place, budget)
        return LogOffset(cut.to) if place is None else LogOffset(candidate.offset.at, Cut(cut.to, place))

    def _cut_span(self, candidate: Candidate) -> TickSpan:
        return candidate.span._replace(begin=candidate.offset.at, end=candidate.base)

    # --- empty ticks

    def _is_empty(self, candidate: Candidate) -> bool:
        if candidate.offset.cut is not None or not self._skip_empty:
            return False
        if candidate.span in self._empty:
            return True
        if self._planner.has_events(candidate.span):
            return False
        self._empty = {span for span in self._empty if span.log != candidate.state.log} | {candidate.span}
        return True

    @staticmethod
    def _blocks_rotation(candidate: Candidate) -> bool:
        """Return whether skipping empty ticks would release a table that waits to be emptied."""
        step2 = candidate.state.step2
        if step2 is None or not candidate.is_behind:
            return False
        return candidate.base.snapshot.xmin <= step2 < candidate.target.snapshot.xmin


def _warn_of_repetition(consumer: str | None, log: str, held: int, begins: int) -> None:
    logger.warning(
        "%s has read log %s up to tick %s, and this query goes on at tick %s: its checkpoint is an older one, or that "
        "of another query. Events come again.",
        consumer,
        log,
        held,
        begins,
    )


class LogFollower:
    """Follows the logs of one stream: finds offsets, plans batches, and moves the registrations."""

    def __init__(self, settings: LogSettings) -> None:
        """Take the settings. No I/O, except that the embedded server is started if it is the database."""
        self._settings = settings
        self._options = settings.options
        dsn = resolve_dsn(settings.dsn)
        self._control = Control(dsn, settings, "driver")
        read_dsn = self._options["readDsn"]
        self._reading = Control(read_dsn, settings, "planner") if read_dsn else self._control
        self._planner = LogPlanner(settings, dsn, self._reading)
        lock_timeout = self._options["lockTimeoutMs"] / 1000
        self._keeper = LogKeeper(self._control, settings.consumer or "", lock_timeout)
        self._outage = Outage(f"Releasing the events of {settings.consumer}", logger)
        self._admission = Admission(self._planner, self._control, self._options)
        self._states: list[RetainedLog] = []
        self._looked = float("-inf")
        self._followed: dict[str, int] = {}
        self._last: Offsets | None = None
        self._caps: dict[str, TickPosition] | None = None
        self._progress = time.monotonic()

    # --- where to begin

    def initial(self) -> Offsets:
        """Find where to begin, and retain events from there; the same answer until a batch is durable."""
        offsets: Offsets = {}
        for state in find_logs(self._control, self._settings):
            offsets[state.log] = self._begin(state)
        self._last = self._last or offsets
        return offsets

    def _begin(self, state: RetainedLog) -> LogOffset:
        self._keeper.lock(state.log)
        hold = self._keeper.state(state.log)
        committed = hold.tick if hold else None
        offset = find_offset(self._control, state, self._settings.starting, committed)
        self._follow(state.log, offset)
        return offset

    def _follow(self, log: str, offset: LogOffset) -> LogOffset:
        """Retain events from an offset on; return it, or the oldest if events were lost and failOnDataLoss is off."""
        self._keeper.lock(log)
        hold = self._keeper.state(log)
        offset = self._planner.retained(log, offset)
        if hold is None or hold.tick is None or hold.tick > offset.at.tick:
            if hold is not None and hold.tick is not None:
                _warn_of_repetition(self._settings.consumer, log, hold.tick, offset.at.tick)
            self._keeper.place(log, offset.at.tick)
            hold = self._keeper.state(log)
            self._planner.retained(log, offset)
        self._followed[log] = hold.owner if hold else 0
        return offset

    # --- where to end

    def latest(self, start: Offsets | None, events: int | None) -> Offsets | None:
        """Choose the end of the next micro-batch, of about so many events; None when there are none.

        Raises ConfigurationError for a checkpoint of logs that are not read: they would be forgotten, and if they came
        back, read again.
        """
        start = start or self._last or self.initial()
        left = start.keys() - {*self._settings.logs}
        if left and self._settings.pattern is None and self._options["failOnDataLoss"]:
            raise ConfigurationError(
                f"The checkpoint is of log {min(left)}, which this query does not read: name that log, too, or give a "
                "checkpoint of its own. With failOnDataLoss=false how far that log was read is forgotten.",
                option="log",
            )
        if self._options["releaseOn"] == "offset":
            self.release(start)
        chosen = self._choose(start, events)
        if chosen is None and self._caps is None:
            self._look(wait=True)
            chosen = self._choose(start, events)
        if chosen is not None:
            self._last = chosen
            self._progress = time.monotonic()
        return chosen

    def _choose(self, start: Offsets, events: int | None) -> Offsets | None:
        candidates = self._candidates(start)
        if self._caps is None and self._should_wait(candidates):
            return None
        return self._admission.choose(candidates, events)

    def _should_wait(self, candidates: list[Candidate]) -> bool:
        """Return whether to wait for more events before the next micro-batch."""
        least: int | None = self._options["minOffsetsPerTrigger"]
        delay: int = self._options["maxTriggerDelay"]
        if least is None or time.monotonic() - self._progress >= delay / 1000:
            return False
        return sum(map(self._admission.backlog, candidates)) < least

    def _candidates(self, start: Offsets) -> list[Candidate]:
        if not self._states:
            self._look(wait=False)
        found: list[Candidate] = []
        for state in self._states:
            if state.log not in self._followed:
                known = start.get(state.log)
                self._start(state, known)
            offset = self._where(state, start)
            target = self._caps.get(state.log, newest(state)) if self._caps is not None else newest(state)
            found.append(Candidate(state, offset, target, self._followed[state.log]))
        return found

    def _start(self, state: RetainedLog, known: LogOffset | None) -> None:
        if known is None:
            self._begin(state)
        else:
            self._follow(state.log, known)

    def _where(self, state: RetainedLog, start: Offsets) -> LogOffset:
        known = start.get(state.log)
        if known is None:
            return self.beginning_of(state.log)
        return known if self._options["failOnDataLoss"] else self._planner.retained(state.log, known)

    def beginning_of(self, log: str) -> LogOffset:
        """Find where a log begins that joined a running stream: at its registration."""
        state = next(state for state in find_logs(self._control, self._settings) if state.log == log)
        return self._begin(state)

    def _look(self, *, wait: bool) -> None:
        """Look up the newest ticks; `wait` first waits for a notification, as long as the options say."""
        left = self._looked + self._options["pollIntervalMs"] / 1000 - time.monotonic()
        if wait and left > 0:
            self._control.wait([LogRange(state.log).listen(state.queue_id) for state in self._states], left)
        self._states = find_logs(self._control, self._settings)
        self._looked = time.monotonic()

    def cap(self) -> None:
        """Read no further than the ticks that are the newest now."""
        self._look(wait=False)
        self._caps = {state.log: newest(state) for state in self._states}

    def newest(self) -> dict[str, Any]:
        """Return the newest ticks of the last look-up, for monitoring of the lag."""
        found = {state.log: state.newest for state in self._states if state.newest}
        return {log: {"tick": at.tick, "seq": at.seq, "ts": at.ts} for log, at in sorted(found.items())}

    # --- what lies between

    def partitions(self, start: Offsets, end: Offsets) -> list[LogPartition]:
        """Plan the partitions between two offsets."""
        planned: list[LogPartition] = []
        for log, upto in end.items():
            begin = start.get(log) or self.beginning_of(log)
            if begin == upto:
                continue
            if log not in self._followed:
                self._follow(log, begin)
            planned += self._planner.partitions(log, begin, upto, self._followed[log])
        return planned

    def rows(self, start: Offsets) -> RowsPartition:
        """Plan the rows of the table as they stood where a stream of its changes begins."""
        settings = self._settings
        table = find_captured(str(settings.changes), settings)
        [state] = find_logs(self._control, settings)
        logged = [f"{state.prefix}_{number}" for number in range(state.tables)]
        access = settings.access(resolve_dsn(settings.dsn))
        return RowsPartition(access, table, start[state.log].at, logged, self._options["where"])

    def release(self, offsets: Offsets) -> None:
        """Release events before durable offsets."""
        followed = {log: offset for log, offset in offsets.items() if log in self._followed}
        for log in self._keeper.release(followed):
            logger.warning(
                "%s is not a consumer of log %s any more, though its stream lives; registering it again. Stop the "
                "stream before you unregister it.",
                self._settings.consumer,
                log,
            )
            self._follow(log, followed[log])

    def committed(self, offsets: Offsets) -> None:
        """Release events that Spark has committed; after a transient failure the next call does it."""
        try:
            self.release(offsets)
        except StorageError as error:
            self._outage.failed(error)
        else:
            self._outage.succeeded()

    def last(self) -> Offsets:
        """Return the end of the last chosen micro-batch, for Spark 4.0 and 4.1."""
        return self._last or self.initial()

    def close(self) -> None:
        """Close the sessions, and with them the consumer's lock."""
        self._control.close()
        self._reading.close()
