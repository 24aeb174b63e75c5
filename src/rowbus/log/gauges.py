"""Gauges of a database's queues and logs as they are now: for Prometheus, commands and pages.

Reading works from any process with a session on the database: it asks the server, and none of Rowbus's processes.

Invariants: reading changes nothing, and waits for no lock for long; what the role may not read, or not trust, is left
out; each queue is counted up to `MOST`, above which its depth is the server's estimate; a value that is not known has
no series.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.database.locks import list_holders_now
from rowbus.database.ownership import suspicious
from rowbus.database.statements import run_steps_now
from rowbus.log import catalog as log_catalog
from rowbus.log.diagnosis import consumers_with_lanes
from rowbus.log.examination import count_receivers, schedules
from rowbus.log.schema import table as log_schema
from rowbus.log.spark_drivers import SparkDrivers
from rowbus.log.ticker import ticks
from rowbus.running.telemetry.series import Gauge
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.lanes.rule import lane_name, own_queues
from rowbus.transport.queues.catalog.looking import (
    find_queues,
    find_storages,
    look_at_each,
    sort_out,
)
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import ServerFacts
from rowbus.transport.queues.traffic import Kind, Traffic, traffic_of
from rowbus.transport.recurring.table import lateness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowbus.database.sessions import Session
    from rowbus.errors import RowbusError
    from rowbus.log.diagnosis import ConsumerState, LogState
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.running.telemetry.series import Family
    from rowbus.transport.delayed.table import DelayedState
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.shape import QueueShape


logger = logging.getLogger("rowbus.telemetry")

_QUEUE = ("queue",)
_TRAFFIC = ("queue", "kind", "endpoint", "lane")
"""Of an endpoint with lanes: its own queue, and the name of the lane, which that itself has not."""
_KINDS = {Kind.QUEUE: "queue", Kind.ERROR: "error", Kind.AUDIT: "audit"}
_TABLE = ("table",)
_LOG = ("log",)
_CONSUMER = ("log", "consumer")
_LANE = (*_CONSUMER, "lane")
"""Of a consumer with lanes: its name, and the number of the lane."""

MOST: Final = 10_000  # messages of a queue that are counted


class _Families:
    def families(self) -> list[Family]:
        """Return the families, in their order."""
        return [value for value in vars(self).values() if isinstance(value, Gauge)]


class QueueGauges(_Families):
    """The queues."""

    def __init__(self) -> None:
        """Begin without values."""
        self.up = Gauge("rowbus_database_up", "Whether the database answered.")
        self.depth = Gauge(
            "rowbus_queue_depth", "Messages in a queue; above 10,000 the server's estimate.", _TRAFFIC
        )
        self.in_hand = Gauge("rowbus_queue_in_hand", "Those of them that a receiver has in hand.", _TRAFFIC)
        self.receivers = Gauge(
            "rowbus_queue_receivers",
            "Processes of Rowbus that receive there, as far as can be seen.",
            _TRAFFIC,
        )
        self.oldest = Gauge(
            "rowbus_queue_oldest_seconds",
            "How long ago the oldest was sent; below 0: by a clock that is ahead.",
            _TRAFFIC,
        )
        self.unreadable = Gauge("rowbus_queue_unreadable", "Queues that this role cannot read: 1.", _QUEUE)
        self.transaction = Gauge(
            "rowbus_oldest_transaction_seconds",
            "How long the oldest transaction has kept dead rows from being removed.",
        )
        self.connections = Gauge(
            "rowbus_database_connections_used_ratio", "The share of the server's connections in use, 0 to 1."
        )
        self.failed = Gauge(
            "rowbus_error_queue_depth", "Messages in a queue whose oldest message has failed.", _QUEUE
        )
        self.sequence = Gauge(
            "rowbus_queue_sequence_used_ratio",
            "The share of a queue's numbers that is used up, 0 to 1.",
            _QUEUE,
        )

    def stands(
        self, address: QueueAddress, found: Traffic, *, acknowledgements: int, own: QueueAddress | None
    ) -> None:
        """Take how a queue stands; acknowledgements for ServiceControl are no failures.

        `own` is the endpoint's own queue, where it has lanes.
        """
        lane = ("", "") if own is None else (str(own), lane_name(address, own))
        name = (str(address), _KINDS[found.kind], *lane)
        self.depth.set(found.depth, name)
        _set(self.in_hand, found.in_hand, name)
        _set(self.receivers, found.receivers, name)
        if found.kind is Kind.ERROR:
            self.failed.set(max(found.depth - acknowledgements, 0), name[:1])
        self.oldest.set(_seconds(found.waited) or 0 if found.depth else 0, name)


class LeftOutGauges(_Families):
    """The tables that are not looked at."""

    def __init__(self, left_out: Mapping[QueueAddress, str]) -> None:
        """Take them, with the reasons."""
        self.left_out = Gauge(
            "rowbus_table_not_looked_at", "Tables of which nothing is read, and why.", ("table", "reason")
        )
        for address, reason in left_out.items():
            self.left_out.set(1, (str(address), reason))


class DelayedGauges(_Families):
    """The tables of delayed messages."""

    def __init__(self) -> None:
        """Begin without values."""
        self.waiting = Gauge("rowbus_delayed_waiting", "Messages that wait until they are due.", _TABLE)
        self.overdue = Gauge("rowbus_delayed_overdue", "Those that are due, and were not moved.", _TABLE)
        self.lag = Gauge("rowbus_delayed_lag_seconds", "How long the first of those is overdue.", _TABLE)
        self.movers = Gauge("rowbus_delayed_movers", "Movers that lead: one, or none.", _TABLE)
        self.missed = Gauge(
            "rowbus_recurring_overdue_seconds",
            "How long the recurring message that is due for longest is due; 0: none is.",
            _TABLE,
        )

    def stands(self, address: QueueAddress, state: DelayedState, movers: int | None) -> None:
        """Take how a table stands; `movers` is None where the server does not tell how many lead."""
        name = (str(address),)
        self.waiting.set(state.waiting, name)
        self.overdue.set(state.overdue, name)
        due = state.next_due
        self.lag.set(0 if due is None else max(0.0, (state.at - due).total_seconds()), name)
        _set(self.movers, movers, name)


class LogGauges(_Families):
    """The logs and their consumers."""

    def __init__(self) -> None:
        """Begin without values."""
        self.tickers = Gauge("rowbus_tickers", "Tickers that lead: one, or none.")
        self.tick_age = Gauge("rowbus_log_tick_age_seconds", "How long ago the last tick was made.", _LOG)
        self.late = Gauge("rowbus_log_ticker_late", "Whether a log lacks ticks that are due.", _LOG)
        self.new = Gauge("rowbus_log_new_events", "Events that are not ticked yet.", _LOG)
        self.blocked = Gauge(
            "rowbus_log_rotation_blocked_seconds", "How long the tables could not be rotated.", _LOG
        )
        self.bytes = Gauge("rowbus_log_bytes", "What the tables and indexes occupy.", _LOG)
        self.lag = Gauge("rowbus_consumer_lag_seconds", "How old a consumer's last tick is.", _LANE)
        self.pending = Gauge("rowbus_consumer_pending_events", "Events that a consumer has before it.", _LANE)
        self.seen = Gauge(
            "rowbus_consumer_last_seen_seconds", "How long ago a consumer gave a sign of life.", _LANE
        )
        self.batch = Gauge("rowbus_consumer_batch_age_seconds", "How long it has had its batch.", _LANE)
        self.retries = Gauge("rowbus_consumer_retries", "Events that wait to be retried.", _LANE)
        self.dead = Gauge("rowbus_consumer_dead_letters", "Events that it has given up on.", _LANE)
        self.drivers = Gauge(
            "rowbus_consumer_spark_drivers",
            "Drivers of Spark that read the log as this consumer: one, or none since one was seen.",
            _CONSUMER,
        )

    def stands(self, log: LogState) -> None:
        """Take how a log stands."""
        name, since = (log.log,), log.rotation_blocked_since
        _set(self.tick_age, _seconds(log.tick_age), name)
        self.late.set(float(log.ticker_is_late), name)
        self.new.set(log.new_events, name)
        self.blocked.set(0 if since is None else max(0.0, (log.at - since).total_seconds()), name)
        self.bytes.set(log.bytes, name)

    def consumes(self, consumer: ConsumerState, own: str, lane: str = "") -> None:
        """Take how a consumer stands, or a lane of one."""
        name = (consumer.log, own, lane)
        _set(self.lag, _seconds(consumer.lag), name)
        _set(self.pending, consumer.pending, name)
        _set(self.seen, _seconds(consumer.last_seen), name)
        self.batch.set(_seconds(consumer.batch_age) or 0, name)
        self.retries.set(consumer.retries, name)
        self.dead.set(consumer.dead_letters, name)


def _set(gauge: Gauge, value: float | None, labels: tuple[str, ...]) -> None:
    if value is not None:
        gauge.set(value, labels)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


class _Beside(NamedTuple):
    """Facts about queues from other tables: the receivers, the rows that the server estimates, the owners of lanes."""

    receivers: dict[QueueAddress, int]
    rows: dict[QueueAddress, int]
    own_queues: Mapping[QueueAddress, QueueAddress]


class DatabaseGauges:
    """Reads the gauges of one database, one reading at a time."""

    def __init__(
        self,
        addresses: Addresses,
        *more: Callable[[Session, Catalog], Sequence[Family]],
        has_logs: bool,
    ) -> None:
        """Take how names become addresses there; `has_logs`: whether its kind can have logs. No I/O.

        `more` measures what higher layers keep.
        """
        self._more = more
        self._catalog = catalog_of(addresses)
        self._has_logs = has_logs
        self._drivers = SparkDrivers()
        self._warned: set[str] = set()

    def read(self, session: Session) -> list[Family]:
        """Read all. Raises StorageError."""
        left_out: dict[QueueAddress, str] = {}
        queues = self._queues(session, left_out)
        delayed = self._delayed(session, left_out)
        logs = self._logs(session) if self._has_logs else []
        more = [family for measure in self._more for family in measure(session, self._catalog)]
        return [*queues, *delayed, *LeftOutGauges(left_out).families(), *logs, *more]

    def _queues(self, session: Session, left_out: dict[QueueAddress, str]) -> list[Family]:
        gauges = QueueGauges()
        shapes = find_queues(session, self._catalog)
        left_out |= {shape.address: shape.left_out for shape in shapes if shape.left_out}
        read = [shape.address for shape in shapes if not shape.left_out]
        storages, _locked = find_storages(session, self._catalog, read)
        readable = [shape.address for shape in shapes if shape.readable]
        beside = _Beside(
            count_receivers(session, self._catalog, readable),
            {storage.address: storage.live_rows for storage in storages},
            own_queues([shape.address for shape in shapes]),
        )
        self._tell_unreadable(gauges, [shape for shape in shapes if not (shape.readable or shape.left_out)])
        self._measure_transactions(session, gauges)
        self._count(session, readable, gauges, beside, left_out)
        for shape in shapes:
            if shape.sequence is not None and not shape.left_out:
                gauges.sequence.set(shape.sequence.used, (str(shape.address),))
        return gauges.families()

    def _tell_unreadable(self, gauges: QueueGauges, shapes: list[QueueShape]) -> None:
        """Measure what cannot be read, and warn of it once."""
        names = {str(shape.address) for shape in shapes}
        for name in names:
            gauges.unreadable.set(1, (name,))
        if names - self._warned:
            logger.warning(
                "This role cannot read %s, and measures nothing there: `rowbus schema grants --view` prints a grant.",
                ", ".join(sorted(names)),
            )
        self._warned = names

    def _measure_transactions(self, session: Session, gauges: QueueGauges) -> None:
        server = session.run(self._catalog.server())
        if isinstance(server, ServerFacts):
            gauges.connections.set(server.connections / max(server.connection_limit, 1))
        holders = session.run(self._catalog.snapshot_holders())
        lasted = [holder.lasted for holder in holders if holder.lasted is not None]
        _set(gauges.transaction, _seconds(max(lasted, default=None)), ())

    def _count(
        self,
        session: Session,
        queues: Sequence[QueueAddress],
        gauges: QueueGauges,
        beside: _Beside,
        left_out: dict[QueueAddress, str],
    ) -> None:
        looked = look_at_each(session, queues, lambda address: self._catalog.queue_state(address, MOST))
        found = {
            address: traffic_of(
                address,
                state,
                beside.receivers.get(address),
                most=MOST,
                estimate=beside.rows.get(address, 0),
            )
            for address, state in looked.answers.items()
        }
        failed = [address for address, one in found.items() if one.kind is Kind.ERROR and one.depth > 0]
        acknowledged = look_at_each(
            session, failed, lambda address: self._catalog.count_acknowledgements(address, MOST)
        )
        left_out |= looked.left_out | acknowledged.left_out
        for address, traffic in found.items():
            own, left = beside.own_queues.get(address), acknowledged.answers.get(address, 0)
            gauges.stands(address, traffic, acknowledgements=left, own=own)

    def _delayed(self, session: Session, left_out: dict[QueueAddress, str]) -> list[Family]:
        gauges = DelayedGauges()
        found = sort_out(session, self._catalog, session.run(self._catalog.find_delayed()))
        looked = look_at_each(session, found.tables, lambda address: delayed_table(address).state(MOST))
        left_out |= found.left_out | looked.left_out
        for address, state in looked.answers.items():
            movers = list_holders_now(session, delayed_table(address).leaders())
            gauges.stands(address, state, None if movers is None else len(movers))
        for address, rows in schedules(session, self._catalog):
            late = max(map(lateness, rows), default=timedelta())
            gauges.missed.set(late.total_seconds(), (str(address),))
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
        for one in consumers_with_lanes(consumers):
            for consumer in one.lanes or [one.state]:
                gauges.consumes(consumer, one.state.consumer, consumer.lane if one.lanes else "")
        for name, runs in run_steps_now(session, self._drivers.look(consumers)).items():
            gauges.drivers.set(runs, name)
        return gauges.families()


def unreachable(error: RowbusError | None) -> list[Family]:
    """Return the family that says whether the database answered."""
    gauges = QueueGauges()
    gauges.up.set(float(error is None))
    return [gauges.up]
