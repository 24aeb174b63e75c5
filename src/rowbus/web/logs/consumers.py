"""One log and its consumers as the page shows them, and a consumer's move with what it would do.

Invariants: a preview changes nothing, and counts the events themselves; asks the catalogue, and locks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.locks import find_holders_now
from rowbus.database.statements import Statement, load, run_steps_now
from rowbus.log import catalog as log_catalog
from rowbus.log.consumers.lanes import lane_holders
from rowbus.log.consumers.table import ConsumerTable, log_not_found
from rowbus.log.diagnosis import consumers_with_lanes
from rowbus.log.range import LogRange, find_tick

if TYPE_CHECKING:
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.database.statements import Rows
    from rowbus.log.diagnosis import ConsumerState, ConsumerWithLanes, LogState
    from rowbus.log.range import Position


class LogRights(NamedTuple):
    """Whether the role may do it; what a function that is missing would do, it may not."""

    may_replay: bool
    may_discard: bool
    may_discard_some: bool
    may_move: bool


def log_rights() -> Statement[LogRights]:
    """Ask what the role may do."""
    query = load("web/sql/postgresql/log_rights.sql", failing="Failed to look for privileges", prepare=False)
    return Statement(query, {}, _rights)


def _rights(rows: Rows, _count: int) -> LogRights:
    return LogRights(*(bool(granted) for granted in rows[0]))


MOST_COUNTED: Final = 100_000
"""Events of a preview are counted up to here."""


class LedConsumer(NamedTuple):
    """A consumer, and the session that works for it (None: there is none, or it cannot be seen); or its lanes."""

    state: ConsumerState
    leader: str | None
    lanes: tuple[LedConsumer, ...] = ()


class OneLog(NamedTuple):
    """A log with its consumers."""

    state: LogState
    consumers: list[LedConsumer]
    rights: LogRights


class Move(NamedTuple):
    """The effect of moving a consumer to a tick: so many events, counted up to a limit, come again or never."""

    consumer: ConsumerState
    tick: int
    time: datetime
    again: int
    skipped: int

    @property
    def effect(self) -> str:
        """The effect, in a sentence."""
        if self.again:
            return f"{_events(self.again)} given to it again."
        if self.skipped:
            return f"{_events(self.skipped)} skipped: it never gets them."
        return "No event is given to it again, and none is skipped."


def _events(count: int) -> str:
    if count >= MOST_COUNTED:
        return f"{MOST_COUNTED:,} events or more are"
    return "1 event is" if count == 1 else f"{count:,} events are"


def look(session: Session, log: str) -> OneLog:
    """Look at one log; raises LogNotFoundError."""
    states = session.run(log_catalog.log_states(log))
    if not states:
        raise log_not_found(log)
    found = consumers_with_lanes(session.run(log_catalog.consumer_states(log)))
    return OneLog(states[0], [_led(session, one) for one in found], session.run(log_rights()))


def _led(session: Session, consumer: ConsumerWithLanes) -> LedConsumer:
    log, name = consumer.state[:2]
    if not consumer.lanes:
        return LedConsumer(consumer.state, find_holders_now(session, ConsumerTable(log, name).leaders()))
    lanes = tuple(
        LedConsumer(lane, find_holders_now(session, lane_holders(log, lane.consumer)))
        for lane in consumer.lanes
    )
    led = sum(lane.leader is not None for lane in lanes)
    return LedConsumer(consumer.state, f"{led} of {len(lanes)} lanes" if led else None, lanes)


def preview(session: Session, log: str, consumer: str, where: Position) -> Move:
    """Say what moving a consumer would do. Raises ConsumerNotFoundError, LogNotFoundError, LostPositionError."""
    state = log_catalog.find_consumer(session, log, consumer)
    tick = find_tick(session, log, where)
    retained = LogRange(log)
    (target,) = session.run(retained.ticks(tick - 1, 1))
    last = tick if state.last_tick is None else state.last_tick
    count = session.run(retained.count(min(tick, last), max(tick, last), MOST_COUNTED)) if tick != last else 0
    again, skipped = (count, 0) if tick < last else (0, count)
    return Move(state, tick, target.time, again, skipped)


def move(session: Session, log: str, consumer: str, tick: int) -> int:
    """Move a consumer to a tick, unless it has a batch in hand; say 1, or 0 if it has. To be run in a transaction."""
    if log_catalog.find_consumer(session, log, consumer).batch is not None:
        return 0
    run_steps_now(session, ConsumerTable(log, consumer).move(tick))
    return 1
