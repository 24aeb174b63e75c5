"""Positions that options name: the tick where a query begins, or a batch ends.

Invariant: a position is a retained tick; its snapshot goes into the offset.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rowbus.errors import ConfigurationError, DataLossError, LogNotFoundError, LostPositionError
from rowbus.log.consumers.table import log_not_found
from rowbus.spark.log_source.offset import LogOffset, offset_from_json
from rowbus.spark.log_source.snapshot_range import find_tick, find_tick_at, list_logs

if TYPE_CHECKING:
    from rowbus.spark.log_source.control import Control
    from rowbus.spark.log_source.hold import Run
    from rowbus.spark.log_source.offset import TickPosition
    from rowbus.spark.log_source.options import Edge, LogSettings
    from rowbus.spark.log_source.snapshot_range import RetainedLog


def find_logs(control: Control, settings: LogSettings) -> list[RetainedLog]:
    """Return the states of all logs that the options name; raises LogNotFoundError."""
    states = control.run(list_logs(settings.logs, settings.pattern))
    missing = set(settings.logs) - {state.log for state in states}
    if missing:
        raise log_not_found(min(missing))
    if not states:
        raise LogNotFoundError(
            f"There is no log whose name matches {settings.pattern!r}.", log=settings.pattern
        )
    return states


def find_offset(control: Control, state: RetainedLog, wanted: Edge, committed: int | None) -> LogOffset:
    """Find where one log begins or ends; `committed` is its consumer's tick, if it is registered.

    With `latest`, a registered consumer continues from its tick: it skips no event, and a first batch that is repeated
    begins at the same tick.
    """
    where = wanted.of(state.log)
    if isinstance(where, dict):
        return offset_from_json(where, where)
    if isinstance(where, datetime):
        return LogOffset(_at_time(control, state, where, wanted))
    if isinstance(where, int):
        return LogOffset(_at_tick(control, state, where))
    if where in {"committed", "latest"} and committed is not None:
        return LogOffset(_at_tick(control, state, committed))
    return LogOffset(newest(state) if where == "latest" else oldest(state))


def stranger(control: Run, log: str, at: TickPosition, consumer: str) -> DataLossError | None:
    """Return the error for a tick that is of another history than the log's; None for one of its own."""
    row = control(find_tick(log, at.tick))
    found = control(list_logs([log]))
    if not found or found[0].has_made(at, row):
        return None
    oldest, last = found[0].oldest, found[0].newest
    here = (
        f"tick {row.tick} here is of {row.ts}"
        if row
        else f"the newest tick here is {last.tick if last else None}"
    )
    return DataLossError(
        f"Log {log} is not the one that {consumer} has read: that had tick {at.tick} at {at.ts}, and {here}. The "
        "database was restored, or the log made anew. Restore the checkpoint of that moment, too, or take a new one "
        "and write anew what was written; with failOnDataLoss=false a query goes on with the oldest events there are. "
        "A lake or a replica is copied anew by --resync '*'.",
        log=log,
        consumer=consumer,
        tick=at.tick,
        oldest=oldest.tick if oldest else None,
    )


def newest(state: RetainedLog) -> TickPosition:
    """Return a log's newest tick; raises LostPositionError when it has none."""
    return _required(state, state.newest)


def oldest(state: RetainedLog) -> TickPosition:
    """Return a log's oldest tick; raises LostPositionError when it has none."""
    return _required(state, state.oldest)


def _required(state: RetainedLog, position: TickPosition | None) -> TickPosition:
    if position is None:
        raise LostPositionError(
            f"Log {state.log} has no ticks; is its ticker running?", log=state.log, tick=None, oldest=None
        )
    return position


def _at_tick(control: Control, state: RetainedLog, number: int) -> TickPosition:
    found = control.run(find_tick(state.log, number))
    if found is None:
        retained = f"{oldest(state).tick} to {newest(state).tick}"
        raise LostPositionError(
            f"Tick {number} of log {state.log} is not retained; those retained are {retained}.",
            log=state.log,
            tick=number,
            oldest=oldest(state).tick,
        )
    return found


def _at_time(control: Control, state: RetainedLog, time: datetime, wanted: Edge) -> TickPosition:
    if time <= datetime.fromisoformat(newest(state).ts):
        return control.run(find_tick_at(state.log, time)) or oldest(state)
    if wanted.strategy == "error":
        raise ConfigurationError(
            f"Log {state.log} has no tick as late as {time.isoformat()}: the newest is of {newest(state).ts}. "
            "startingOffsetsByTimestampStrategy=latest begins there."
        )
    return newest(state)
