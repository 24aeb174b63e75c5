"""What a database's queues and logs look like now, as gauges: for Prometheus, for `rowbus metrics` and for pages.

Works from any process with a session on the database: it asks the server, and none of Rowbus's processes.

Invariant: changes nothing, and waits for no lock for long; what the role may not read, or not trust, is left out; each
queue is counted up to `MOST`, above which its depth is the server's estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.ownership import suspicious
from rowbus.database.steps import run_steps_now
from rowbus.log import catalog as log_catalog
from rowbus.log.gauges.families import DelayedGauges, LeftOutGauges, LogGauges, QueueGauges
from rowbus.log.schema import table as log_schema
from rowbus.log.spark_drivers import SparkDrivers
from rowbus.log.ticker import ticks
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.catalog.finding import find_queues, find_storages, sort_out
from rowbus.transport.queues.catalog.looking import NotLookedAtError, look, looking
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.errors import RowbusError
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.addresses import Addresses
    from rowbus.running.telemetry.series import Family
    from rowbus.transport.queues.shape import QueueShape

MOST: Final = 10_000  # messages of a queue that are counted


class DatabaseGauges:
    """Reads the gauges of one database, one reading at a time."""

    def __init__(self, addresses: Addresses, *, has_logs: bool) -> None:
        """Take how names become addresses there; `has_logs`: whether its kind can have logs. No I/O."""
        self._catalog = catalog_of(addresses)
        self._has_logs = has_logs
        self._drivers = SparkDrivers()

    def read(self, session: Session) -> list[Family]:
        """Read all. Raises StorageError."""
        left_out: dict[QueueAddress, str] = {}
        queues = self._queues(session, left_out)
        delayed = self._delayed(session, left_out)
        logs = self._logs(session) if self._has_logs else []
        return [*queues, *delayed, *LeftOutGauges(left_out).families(), *logs]

    def _queues(self, session: Session, left_out: dict[QueueAddress, str]) -> list[Family]:
        gauges = QueueGauges()
        shapes = find_queues(session, self._catalog)
        left_out |= {shape.address: shape.left_out for shape in shapes if shape.left_out}
        read = [shape.address for shape in shapes if not shape.left_out]
        storages, _locked = find_storages(session, self._catalog, read)
        estimates = {storage.address: storage.live_rows for storage in storages}
        for shape in shapes:
            if shape.readable:
                self._count(session, shape, gauges, estimates, left_out)
            if shape.sequence is not None and not shape.left_out:
                gauges.sequence.set(shape.sequence.used, (str(shape.address),))
        return gauges.families()

    def _count(
        self,
        session: Session,
        shape: QueueShape,
        gauges: QueueGauges,
        estimates: dict[QueueAddress, int],
        left_out: dict[QueueAddress, str],
    ) -> None:
        address = shape.address
        try:
            state = look(session, address, self._catalog.queue_state(address, MOST))
        except NotLookedAtError as error:
            left_out[address] = error.reason
        else:
            gauges.stands(address, state, estimates.get(address, 0), most=MOST)

    def _delayed(self, session: Session, left_out: dict[QueueAddress, str]) -> list[Family]:
        gauges = DelayedGauges()
        found = sort_out(session, self._catalog, session.run(self._catalog.find_delayed()))
        left_out |= found.left_out
        for address in found.tables:
            table = delayed_table(address)
            try:
                with looking(session, address):
                    gauges.stands(address, session.run(table.state(MOST)), len(session.run(table.leaders())))
            except NotLookedAtError as error:
                left_out[address] = error.reason
        return gauges.families()

    def _logs(self, session: Session) -> list[Family]:
        """Read the logs where Rowbus's schema is installed; nothing is read of a stranger's."""
        strangers = suspicious(session.run(log_schema.foreign_objects()))
        if strangers or not session.run(log_schema.state()).is_ours:
            return []
        gauges = LogGauges()
        gauges.tickers.set(len(session.run(ticks.leaders())))
        for log in session.run(log_catalog.log_states()):
            gauges.stands(log)
        consumers = session.run(log_catalog.consumer_states())
        for consumer in consumers:
            gauges.consumes(consumer)
        for name, runs in run_steps_now(session, self._drivers.look(consumers)).items():
            gauges.drivers.set(runs, name)
        return gauges.families()


def unreachable(error: RowbusError | None) -> list[Family]:
    """Return the family that says whether the database answered."""
    gauges = QueueGauges()
    gauges.up.set(float(error is None))
    return [gauges.up]
