"""What a database's queues and logs look like now, as gauges: for Prometheus, for `rowbus metrics` and for pages.

Works from any process with a session on the database: it asks the server, and none of Rowbus's processes.

Invariant: locks nothing and changes nothing; what the role may not read is left out; each queue is counted up to
`MOST`, above which its depth is the server's estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.ownership import suspicious
from rowbus.log import catalog as log_catalog
from rowbus.log.gauges.families import DelayedGauges, LogGauges, QueueGauges
from rowbus.log.schema import table as log_schema
from rowbus.log.spark_drivers import SparkDrivers
from rowbus.log.ticker import ticks
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from rowbus.database.locks.holder import LockHolder
    from rowbus.database.ownership import Foreign
    from rowbus.database.steps import Steps
    from rowbus.errors import RowbusError
    from rowbus.log.diagnosis import ConsumerState, LogState
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.running.telemetry.series import Family
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.queues.catalog.table import QueueState
    from rowbus.transport.queues.diagnosis import Storage
    from rowbus.transport.queues.shape import QueueShape

MOST: Final = 10_000  # messages of a queue that are counted


class DatabaseGauges:
    """Reads the gauges of one database, one reading at a time; `run_steps_now` runs what `read` gives, on a session."""

    def __init__(self, addresses: Addresses, *, has_logs: bool) -> None:
        """Take how names become addresses there; `has_logs`: whether its kind can have logs. No I/O."""
        self._catalog = catalog_of(addresses)
        self._has_logs = has_logs
        self._drivers = SparkDrivers()

    def read(self) -> Steps[list[Family]]:
        """Return the statements that read all, and the families. Raises StorageError."""
        queues = yield from self._queues()
        delayed = yield from self._delayed()
        logs = (yield from self._logs()) if self._has_logs else []
        return [*queues, *delayed, *logs]

    def _queues(self) -> Steps[list[Family]]:
        gauges = QueueGauges()
        shapes: list[QueueShape] = yield self._catalog.find_queues()
        storages: list[Storage] = yield self._catalog.queue_storage(shape.address for shape in shapes)
        estimates = {storage.address: storage.live_rows for storage in storages}
        for shape in shapes:
            if shape.readable:
                state: QueueState = yield self._catalog.queue_state(shape.address, MOST)
                gauges.stands(shape.address, state, estimates.get(shape.address, 0), most=MOST)
            if shape.sequence is not None:
                gauges.sequence.set(shape.sequence.used, (str(shape.address),))
        return gauges.families()

    def _delayed(self) -> Steps[list[Family]]:
        gauges = DelayedGauges()
        addresses: list[QueueAddress] = yield self._catalog.find_delayed()
        for address in addresses:
            table = delayed_table(address)
            state: DelayedState = yield table.state(MOST)
            movers: list[LockHolder] = yield table.leaders()
            gauges.stands(address, state, len(movers))
        return gauges.families()

    def _logs(self) -> Steps[list[Family]]:
        """Read the logs where Rowbus's schema is installed; nothing is read of a stranger's."""
        strangers: list[Foreign] = yield log_schema.foreign_objects()
        if suspicious(strangers) or not (yield log_schema.state()).is_ours:
            return []
        gauges = LogGauges()
        tickers: list[LockHolder] = yield ticks.leaders()
        gauges.tickers.set(len(tickers))
        logs: list[LogState] = yield log_catalog.log_states()
        for log in logs:
            gauges.stands(log)
        consumers: list[ConsumerState] = yield log_catalog.consumer_states()
        for consumer in consumers:
            gauges.consumes(consumer)
        drivers = yield from self._drivers.look(consumers)
        for name, runs in drivers.items():
            gauges.drivers.set(runs, name)
        return gauges.families()


def unreachable(error: RowbusError | None) -> list[Family]:
    """Return the family that says whether the database answered."""
    gauges = QueueGauges()
    gauges.up.set(float(error is None))
    return [gauges.up]
