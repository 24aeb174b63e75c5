"""The end of the next micro-batch in each log, within the limits; skips empty ticks and cuts ticks that are too large.

Invariant: a log's offset moves only over events that the micro-batch reads, or over ticks known to be empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.spark.log_source.decisions import choose_cut, choose_tick, left_of, split_budget
from rowbus.spark.log_source.offset import Cut, LogOffset, Offsets
from rowbus.spark.log_source.read import TickSpan
from rowbus.spark.log_source.snapshot_range import list_ticks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.spark.log_source.control import Control
    from rowbus.spark.log_source.offset import Place, TickPosition
    from rowbus.spark.log_source.planner import LogPlanner
    from rowbus.spark.log_source.snapshot_range import RetainedLog

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
        self._empty: set[TickSpan] = set()

    def choose(self, candidates: Sequence[Candidate], events: int | None) -> Offsets | None:
        """Return the end offsets of the next micro-batch; None when there is nothing to read."""
        full = {each.state.log for each in candidates if each.is_behind and not self._is_empty(each)}
        if not full and not any(map(self._blocks_rotation, candidates)):
            return None
        backlogs = {each.state.log: self.backlog(each) for each in candidates if each.state.log in full}
        budgets = split_budget(events, backlogs) if events is not None else {}
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
            if place is None:
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
        if budget is None and self._most_bytes is None:
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
