"""Lanes of a consumer of a log: several processes share its events by key, and each key keeps its order.

A lane is a consumer of its own to the log, `billing#3`: with a position, retries and dead letters. It reads all events,
and handles those whose keys are its own. One process at a time has a lane, as one has a lane of an endpoint; it stands
for the lane's election by the lane's lock.

Invariant: all lanes of a consumer are registered together, before the first of them works, and by one number.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.database.postgresql.locks import lock_holders
from rowbus.database.statements import run_steps_now
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.consumer import LogConsumer, register
from rowbus.log.consumers.table import ConsumerTable
from rowbus.messages.address import QueueAddress
from rowbus.transport.lanes.held_lanes import HeldLanes
from rowbus.transport.lanes.lane_table import LaneTable, lock_of
from rowbus.transport.lanes.rule import MARK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.locks import LockHolder
    from rowbus.database.postgresql.database import Database
    from rowbus.database.sessions import Session
    from rowbus.database.statements import Statement
    from rowbus.log.consumers.event_attempts import Handling
    from rowbus.log.diagnosis import ConsumerWithLanes
    from rowbus.running.critical import Alarm
    from rowbus.settings import ConsumerSettings
    from rowbus.transport.lanes.rule import Lanes

NO_PROCESS: Final = 0
"""The number of a process by which a command takes a lane: it is none of those that share the lanes."""
SCHEMA = "pgq"
"""The schema in the names of the lanes of logs, which no table has."""


class LaneTableOfLog(ConsumerTable):
    """Statements of one lane of a consumer: those of a consumer, but for the lock."""

    def __init__(
        self, log: str, consumer: str, siblings: Sequence[str], lane: int, take: Statement[bool]
    ) -> None:
        """Take the consumer's name, those of all its lanes, the lane's number, and what takes its lock. No I/O."""
        super().__init__(log, siblings[lane])
        self.own_name, self.lane = consumer, str(lane)
        self.registered_with = frozenset(siblings)
        self._take = take

    def try_lead(self) -> Statement[bool]:
        """Take the lane while the session lasts; says whether that was possible."""
        return self._take

    def leaders(self) -> Statement[list[LockHolder]]:
        """Ask who has the lane, if it is another."""
        return lane_holders(self.log, self.consumer)


def _address(log: str, consumer: str) -> QueueAddress:
    """Return the name under which a consumer, or a lane of one, has its lock."""
    return QueueAddress(SCHEMA, f"{log}/{consumer}")


def lane_holders(log: str, lane: str) -> Statement[list[LockHolder]]:
    """Ask which session has a lane of a consumer, `billing#3`."""
    return lock_holders(lock_of(_address(log, lane)))


def change_lanes(session: Session, consumer: ConsumerWithLanes, lanes: Lanes) -> int:
    """Give a consumer other lanes, which go on behind the tick that all of its own have reached; return that tick.

    Raises ConfigurationError for lanes that a process works on, that are not at one tick, or that have something left
    to do: events would come twice, or never, or in another order. A process that stands by meanwhile finds no lane.
    """
    log, name = consumer.state[:2]
    table = LaneTable(_address(log, name))
    for one in consumer.lanes:
        if not session.run(table.take(_address(log, one.consumer), NO_PROCESS)):
            raise ConfigurationError(
                f"Nothing was changed: a process works on {one.consumer}; stop it first."
            )
    if not consumer.lanes and not session.run(ConsumerTable(log, name).try_lead()):
        raise ConfigurationError(f"Nothing was changed: a process works for {name}; stop it first.")
    tick = _reached(consumer)
    with session.transaction():
        for one in consumer.lanes or (consumer.state,):
            run_steps_now(session, ConsumerTable(log, one.consumer).unregister())
        for number in lanes.names:
            lane = ConsumerTable(log, f"{name}{MARK}{number}")
            session.run(lane.register())
            session.run(lane.seek(tick))
    return tick


def _reached(consumer: ConsumerWithLanes) -> int:
    """Return the tick that all lanes have reached; raises ConfigurationError if there is none, or more is to do."""
    lanes = consumer.lanes or (consumer.state,)
    left = [
        f"{one.consumer} has {what}"
        for one in lanes
        for what, is_there in (
            ("a batch in hand", one.batch is not None),
            (f"{one.retries} events to retry", one.retries),
            (f"{one.dead_letters} dead letters", one.dead_letters),
        )
        if is_there
    ]
    ticks = sorted({one.last_tick or 0 for one in lanes})
    if len(ticks) > 1:
        left.append(f"its lanes have reached the ticks {', '.join(map(str, ticks))}")
    if left:
        raise ConfigurationError(
            f"Nothing was changed: {'; '.join(left)}. Have it come to the end while nothing ticks the log (`rowbus log "
            f"config {consumer.state.log} ticker_paused=true`), stop it, then do this again, and let the log be ticked."
        )
    return ticks[0]


class LogLanes(HeldLanes[LogConsumer]):
    """The lanes of a consumer of a log that one process has. For one event loop."""

    def __init__(
        self,
        database: Database,
        consumer: tuple[str, str],
        lanes: Lanes,
        settings: ConsumerSettings,
        *,
        handling: Handling,
        alarm: Alarm,
    ) -> None:
        """Serve lanes of a consumer, by its log and name. No I/O."""
        log, name = consumer
        own = _address(log, name)
        super().__init__(database, own, lanes.addresses(own), alarm)
        siblings = [f"{name}{MARK}{lane}" for lane in lanes.names]
        self._tables = [
            LaneTableOfLog(log, name, siblings, lane, self._table.take(address, self._process))
            for lane, address in enumerate(self._lanes)
        ]
        self._from_oldest = settings.from_oldest
        self._handling = handling
        self._make = partial(LogConsumer, database, settings=settings, alarm=alarm)

    async def prepare(self) -> None:
        """Register the lanes if they are not yet, and begin to watch; raises as `register`."""
        await register(self._database, self._tables, from_oldest=self._from_oldest)
        await super().prepare()

    async def begin(self, lane: int) -> LogConsumer:
        """Consume a lane as soon as no other session has it."""
        keys = self._handling.keys.of_lane(lane, len(self._tables))
        consumer = self._make(table=self._tables[lane], handling=self._handling._replace(keys=keys))
        await consumer.start()
        return consumer
