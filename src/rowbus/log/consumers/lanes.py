"""Lanes of a consumer of a log: several processes share its events by key, and each key keeps its order.

A lane is a consumer of its own to the log, `billing#3`: with a position, retries and dead letters. It reads all events,
and handles those whose keys are its own. One process at a time has a lane, as one has a lane of an endpoint; it stands
for the lane's election by the lane's lock.

Invariant: all lanes of a consumer are registered together, before the first of them works, and by one number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.postgresql.locks import lock_holders
from rowbus.log.consumers.consumer import LogConsumer, register
from rowbus.log.consumers.table import ConsumerTable
from rowbus.messages.address import QueueAddress
from rowbus.transport.lanes.held_lanes import HeldLanes
from rowbus.transport.lanes.lane_table import lock_of
from rowbus.transport.lanes.rule import MARK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.database.locks import LockHolder
    from rowbus.database.postgresql.database import Database
    from rowbus.database.statements import Statement
    from rowbus.running.critical import Alarm
    from rowbus.transport.lanes.lane_table import LaneTable
    from rowbus.transport.lanes.rule import Lanes

SCHEMA = "pgq"
"""Where the names of lanes of logs are: no table has them."""


class LaneTableOfLog(ConsumerTable):
    """Statements of one lane of a consumer: those of a consumer, but for the lock."""

    def __init__(self, log: str, consumer: str, siblings: Sequence[str], lane: int) -> None:
        """Take the names of all lanes of the consumer. No I/O."""
        super().__init__(log, f"{consumer}{MARK}{siblings[lane]}")
        self.own_name = consumer
        self.registered_with = frozenset(f"{consumer}{MARK}{name}" for name in siblings)
        self.take: Statement[bool]
        self.holders: Statement[list[LockHolder]]

    def belong(self, lanes: LaneTable, address: QueueAddress, process: int) -> None:
        """Have a process take the lane by the lock of this address."""
        self.take = lanes.take(address, process)
        self.holders = lock_holders(lock_of(address))

    def try_lead(self) -> Statement[bool]:
        """Take the lane while the session lasts; says whether that was possible."""
        return self.take

    def leaders(self) -> Statement[list[LockHolder]]:
        """Ask who has the lane, if it is another."""
        return self.holders


class LogLanes(HeldLanes[LogConsumer]):
    """The lanes of a consumer of a log that one process has. For one event loop."""

    def __init__(
        self,
        database: Database,
        tables: Sequence[LaneTableOfLog],
        lanes: Lanes,
        make_consumer: Callable[[LaneTableOfLog, int], LogConsumer],
        alarm: Alarm,
        *,
        from_oldest: bool,
    ) -> None:
        """Serve lanes by consumers that are made for them. No I/O."""
        own = QueueAddress(SCHEMA, f"{tables[0].log}/{tables[0].own_name}")
        super().__init__(database, own, lanes.addresses(own), alarm)
        self._reading = database
        self._tables = tables
        self._make_consumer = make_consumer
        self._from_oldest = from_oldest
        for table, address in zip(tables, self._lanes, strict=True):
            table.belong(self._table, address, self._process)

    async def prepare(self) -> None:
        """Register the lanes if they are not yet, and begin to watch; raises as `register`."""
        await register(self._reading, self._tables, from_oldest=self._from_oldest)
        await super().prepare()

    async def begin(self, lane: int) -> LogConsumer:
        """Consume a lane as soon as no other session has it."""
        consumer = self._make_consumer(self._tables[lane], lane)
        await consumer.start()
        return consumer
