"""Spark's report of a micro-batch, read: its size, its duration, and how far its logs are ahead of it.

Source: Spark's `StreamingQueryProgress` as JSON. A log's end and its newest tick are offsets of `spark/log_source`; the
newest tick is that of the source's last look, so the lag is as old as the report.

Invariant: pure; what a report lacks, or another source wrote, is left out and never an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, cast

UNNAMED: Final = "unnamed"
"""The common name of queries without one: their ids are no labels."""

_BEFORE: Final = ("latestOffset", "walCommit", "getBatch", "queryPlanning")
_AFTER: Final = ("commitOffsets", "commitBatch")
_MS: Final = 1_000_000  # nanoseconds

Report = Mapping[str, Any]


class Behind(NamedTuple):
    """The distance of the newest ticks of logs from a position."""

    ticks: int
    events: int
    """By the ticks' event sequences, which have gaps: about so many."""

    seconds: float
    """The greatest time between a position and its log's newest tick."""


class MicroBatch(NamedTuple):
    """A micro-batch that has ended. Times are nanoseconds since 1970."""

    query: str
    number: int
    rows: int
    seconds: float
    began: int
    read: int
    """Until when it was decided and planned what to read."""

    done: int
    """Until when rows were read and written; then Spark noted the batch as committed."""

    ended: int
    place: str
    """The log or queue that it read; the query's name if that is not one."""

    behind: Behind | None


def micro_batch(report: Report) -> MicroBatch:
    """Read a report."""
    spent: Report = report.get("durationMs") or {}
    began = _nanoseconds(report.get("timestamp"))
    whole = int(spent.get("triggerExecution") or report.get("batchDuration") or 0)
    before = min(whole, sum(int(spent.get(phase, 0)) for phase in _BEFORE))
    after = min(whole - before, sum(int(spent.get(phase, 0)) for phase in _AFTER))
    query = report.get("name") or UNNAMED
    return MicroBatch(
        query,
        int(report.get("batchId") or 0),
        int(report.get("numInputRows") or 0),
        whole / 1000,
        began,
        began + before * _MS,
        began + (whole - after) * _MS,
        began + whole * _MS,
        _place(report.get("sources") or (), query),
        behind(report.get("sources") or ()),
    )


def behind(sources: Iterable[Report]) -> Behind | None:
    """Return how far the sources that are logs are behind, together; None if none is, or that is not known."""
    found = [
        _distance(at, newest[log])
        for source in sources
        for newest in [_positions(source.get("latestOffset"))]
        for log, at in _positions(source.get("endOffset")).items()
        if log in newest
    ]
    if not found:
        return None
    ticks, events, seconds = zip(*found, strict=True)
    return Behind(sum(ticks), sum(events), max(seconds))


def _distance(at: Report, newest: Report) -> Behind:
    ticks = max(0, int(newest["tick"]) - int(at["tick"]))
    if not ticks:
        return Behind(0, 0, 0.0)
    passed = datetime.fromisoformat(newest["ts"]) - datetime.fromisoformat(at["ts"])
    return Behind(ticks, max(0, int(newest["seq"]) - int(at["seq"])), max(0.0, passed.total_seconds()))


def _place(sources: Iterable[Report], query: str) -> str:
    found = {name for source in sources for name in _names(_object(source.get("endOffset")))}
    return found.pop() if len(found) == 1 else query


def _names(offset: Report) -> list[str]:
    """Name the logs of an offset, or its queue; another source's offset has neither."""
    return [str(offset["queue"])] if "claim" in offset and "queue" in offset else list(_positions(offset))


def _positions(offset: object) -> dict[str, Report]:
    """Return the ticks in an offset of a log source, by log."""
    return {
        log: at
        for log, at in _object(offset).items()
        if isinstance(at, Mapping) and {"tick", "seq", "ts"} <= at.keys()
    }


def _object(given: object) -> Report:
    """Return a JSON object; an empty one for anything else. Spark has offsets as objects, or as their text."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return cast("Report", given) if isinstance(given, Mapping) else {}


def _nanoseconds(time: object) -> int:
    return int(datetime.fromisoformat(str(time)).timestamp() * 1_000) * _MS if time else 0
