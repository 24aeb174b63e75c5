"""Logs, consumers and captured tables as rows for people and objects for programs.

Invariant: the JSON has every fact that the table shows, under a name that stays; spans are seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from rowbus.log.range import NOTATION, Position, read_position
from rowbus.transport.queues.diagnosis import duration

if TYPE_CHECKING:
    from datetime import timedelta

    from rowbus.log.catalog import Capture, ShapeChange
    from rowbus.log.diagnosis import ConsumerWithLanes, LogState
    from rowbus.log.event import DeadEvent, Event

LOGS = (
    "log",
    "tick#",
    "age#",
    "new#",
    "consumers#",
    "lag#",
    "retries#",
    "dead#",
    "size#",
    "rotation",
    "remarks",
)
CONSUMERS = ("log", "consumer", "tick#", "lag#", "pending#", "seen#", "batch#", "for#", "retries#", "dead#")
CAPTURES = ("log", "table", "format", "trigger", "arguments", "generated")
SHAPE_CHANGES = ("time", "event#", "table", "change")
EVENTS = ("id#", "time", "retry#", "type", "data", "extras")
DEAD_LETTERS = ("dead letter#", "given up", "event#", "type", "reason", "data")

PREVIEW = 80  # characters of data and reasons
_KIB = 1024


def log_row(log: LogState) -> tuple[object, ...]:
    """Return a log as a row of the table."""
    return (
        log.log,
        _shown(log.last_tick),
        _age(log.tick_age),
        log.new_events,
        log.consumers,
        _age(log.greatest_lag),
        log.retries,
        log.dead_letters,
        size(log.bytes),
        _rotation(log),
        ", ".join(_remarks(log)),
    )


def log_json(log: LogState) -> dict[str, object]:
    """Return a log for programs."""
    return log._asdict()


def consumer_row(given: ConsumerWithLanes) -> tuple[object, ...]:
    """Return a consumer as a row of the table."""
    consumer = given.state
    return (
        consumer.log,
        given.name,
        _shown(consumer.last_tick),
        _age(consumer.lag),
        _shown(consumer.pending),
        _age(consumer.last_seen),
        _shown(consumer.batch),
        _age(consumer.batch_age),
        consumer.retries,
        consumer.dead_letters,
    )


def capture_row(capture: Capture) -> tuple[object, ...]:
    """Return a captured table as a row of the table."""
    arguments = " ".join(capture.arguments)
    return capture.log, capture.table, capture.format, capture.trigger, arguments, capture.generated


def shape_change_row(told: ShapeChange) -> tuple[object, ...]:
    """Return a change of a captured table's shape as a row of the table."""
    return f"{told.time:%Y-%m-%d %H:%M:%S}", told.event, told.table, "; ".join(told.sentences())


def event_row(event: Event) -> tuple[object, ...]:
    """Return an event as a row of the table, its data abridged."""
    extras = " | ".join(extra for extra in event[6:] if extra is not None)
    shown = (_shown(event.retry), _shown(event.type), _abridged(event.data), _abridged(extras))
    return event.id, f"{event.time:%Y-%m-%d %H:%M:%S}", *shown


def dead_letter_row(dead: DeadEvent) -> tuple[object, ...]:
    """Return a dead letter as a row of the table."""
    event = dead.event
    shown = (_shown(event.type), _abridged(dead.reason), _abridged(event.data))
    return dead.id, f"{dead.time:%Y-%m-%d %H:%M:%S}", event.id, *shown


def dead_letter_json(dead: DeadEvent) -> dict[str, object]:
    """Return a dead letter for programs."""
    return {**dead._asdict(), "event": dead.event._asdict()}


def size(count: int) -> str:
    """Write a number of bytes: `512 B`, `3.4 MiB`."""
    amount, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= _KIB and len(units) > 1:
        amount, units = amount / _KIB, units[1:]
    return f"{count} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def _remarks(log: LogState) -> list[str]:
    remarks = ["ticker paused"] if log.ticker_is_paused else []
    if log.ticker_is_late and not log.ticker_is_paused:
        remarks.append("TICKER LATE")
    if log.has_external_ticker:
        remarks.append("external ticker")
    return remarks


def _rotation(log: LogState) -> str:
    if log.rotation_blocked_since is None:
        return f"every {duration(log.rotation_period)}"
    return f"blocked since {log.rotation_blocked_since:%Y-%m-%d %H:%M:%S}: {log.rotation_obstacle}"


def _age(span: timedelta | None) -> str:
    return "" if span is None else duration(span)


def _shown(value: object) -> object:
    return "" if value is None else value


def _abridged(text: str | None) -> str:
    line = "(null)" if text is None else " ".join(text.split())
    return line if len(line) <= PREVIEW else f"{line[: PREVIEW - 1]}…"


def position(text: str) -> Position:
    """Read a position as people type it."""
    try:
        return read_position(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of: {NOTATION}.") from None
