"""The doctor's examination of a database: its server, its queues, its delayed messages and its logs.

Invariant: gathers facts, and waits for no lock for long; `diagnosis.py` of each subject decides what they mean.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from rowbus.database.locks import find_holders_now
from rowbus.database.ownership import suspicious
from rowbus.database.statements import run_steps_now
from rowbus.errors import PermissionDeniedError, QueueNotFoundError
from rowbus.log import catalog as log_catalog
from rowbus.log.diagnosis import (
    LogSchema,
    diagnose_captures,
    diagnose_logs,
    diagnose_lost_captures,
    diagnose_replicas,
    diagnose_schema,
    diagnose_strangers,
)
from rowbus.log.schema import table as log_schema
from rowbus.log.ticker import ticks
from rowbus.transport.delayed.diagnosis import MOST_LOOKED_AT, diagnose_delayed, diagnose_shifts, shifts_of
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.lanes.rule import with_lanes
from rowbus.transport.queues.catalog.looking import (
    NotLookedAtError,
    find_queues,
    find_storages,
    find_tables,
    look,
    look_at_each,
    look_into_each,
    looking,
    sort_out,
)
from rowbus.transport.queues.catalog.ownership import LOCKED
from rowbus.transport.queues.catalog.table import guard_of
from rowbus.transport.queues.diagnosis import (
    diagnose_ended_loops,
    diagnose_fault,
    diagnose_full_disk,
    diagnose_lanes,
    diagnose_left_out,
    diagnose_outbox,
    named_with_lanes,
)
from rowbus.transport.queues.owners import find_faults
from rowbus.transport.queues.traffic import Kind, diagnose_traffic, traffic_of
from rowbus.transport.recoverability.failed_message import diagnose_failures
from rowbus.transport.recoverability.table import error_queue_table
from rowbus.transport.recurring.table import COLUMNS, diagnose_schedules, recurring_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.diagnosis import Finding
    from rowbus.transport.queues.shape import QueueShape
    from rowbus.transport.queues.traffic import Traffic
    from rowbus.transport.recurring.table import ScheduleRow

    Estimates = Mapping[QueueAddress, int]

MOST_FAILURES = 1_000  # failed messages that are read, the latest of them


def examine(session: Session, catalog: Catalog, most: int) -> Iterator[Finding]:
    """Judge the server, the queues and the tables of delayed messages, of which up to `most` are counted."""
    server = session.run(catalog.server())
    yield from server.findings()
    yield from server.findings_on_holders(session.run(catalog.snapshot_holders()))
    if (ended := catalog.ended_loops()) is not None:
        yield from diagnose_ended_loops(session.run(ended))
    if (full := catalog.full_disks()) is not None:
        yield from diagnose_full_disk(session.run(full))
    queues = find_queues(session, catalog)
    for queue, *lanes in with_lanes(queues, attrgetter("address")):
        yield from diagnose_lanes(queue, lanes)
    delayed = sort_out(session, catalog, session.run(catalog.find_delayed()))
    yield from (diagnose_left_out(str(address), reason) for address, reason in delayed.left_out.items())
    owned = [queue.address for queue in queues if not queue.left_out]
    yield from map(diagnose_fault, run_steps_now(session, find_faults(*owned, *delayed.tables)))
    waiting = look_into_each(
        session, delayed.tables, lambda address: list(_look_at_delayed(session, address, most))
    )
    yield from chain.from_iterable(waiting.answers.values())
    yield from (diagnose_left_out(str(address), reason) for address, reason in waiting.left_out.items())
    read = [queue.address for queue in queues if not queue.left_out]
    storages, locked = find_storages(session, catalog, [*read, *delayed.tables])
    yield from server.findings_on_storage(storages)
    yield from (diagnose_left_out(str(address), LOCKED) for address in locked if address in read)
    estimates = {storage.address: storage.live_rows for storage in storages}
    yield from _examine_traffic(session, catalog, queues, estimates, most)
    for address, rows in schedules(session, catalog):
        yield from diagnose_schedules(str(address), rows)


def schedules(session: Session, catalog: Catalog) -> Iterator[tuple[QueueAddress, list[ScheduleRow]]]:
    """Yield the schedules of each endpoint that has some, as far as they can be read; none on SQL Server."""
    found = find_tables(session, catalog, COLUMNS).tables
    yield from look_at_each(session, found, lambda address: recurring_table(address).list()).answers.items()


def _examine_traffic(
    session: Session, catalog: Catalog, queues: Iterable[QueueShape], estimates: Estimates, most: int
) -> Iterator[Finding]:
    """Judge what waits in the queues, and who takes it out."""
    read = [queue.address for queue in queues if queue.is_queue and queue.readable and not queue.left_out]
    receivers = count_receivers(session, catalog, read)
    states = look_at_each(session, read, lambda address: catalog.queue_state(address, most)).answers
    for together in with_lanes(read, lambda address: address):
        found: list[Traffic] = []
        failures: list[Finding] = []
        for address in together:
            state = states.get(address)
            if state is None:
                continue  # another session changes it now; the next examination reads it
            estimate = estimates.get(address, 0)
            traffic = traffic_of(address, state, receivers.get(address), most=most, estimate=estimate)
            found.append(traffic)
            if traffic.kind is Kind.ERROR and traffic.depth:
                failures += _examine_failures(session, address, traffic.depth, state.at)
        yield from diagnose_traffic(named_with_lanes(together[0], len(together) - 1), *found)
        yield from failures


def _examine_failures(session: Session, address: QueueAddress, depth: int, at: datetime) -> Iterator[Finding]:
    """Tell of failed messages, by the latest of them."""
    table = error_queue_table(address)
    try:
        with looking(session, address):
            newest = session.run(table.newest()) or 0
            latest = session.run(table.scan(max(newest - MOST_FAILURES, 0), newest, MOST_FAILURES))
    except (NotLookedAtError, QueueNotFoundError):
        return
    yield diagnose_failures(address, depth, [one for one in latest if not one.is_acknowledgement], at)


def count_receivers(
    session: Session, catalog: Catalog, queues: Sequence[QueueAddress]
) -> dict[QueueAddress, int]:
    """Count the processes that receive from each queue; nothing where they cannot be seen."""
    asked = catalog.receivers(queues)
    if asked is None:
        return {}
    counts = dict.fromkeys(queues, 0)
    for found in session.run(asked):
        counts[found.queue] += found.processes
    return counts


def examine_outbox(
    session: Session, catalog: Catalog, endpoint: str, address: QueueAddress, most: int
) -> Iterator[Finding]:
    """Judge the outbox that .NET instances of an endpoint have, if they have one."""
    with suppress(QueueNotFoundError):
        try:
            waiting = look(session, address, catalog.count_undispatched(address, most))
        except NotLookedAtError as error:
            yield diagnose_left_out(str(address), error.reason)
        else:
            yield diagnose_outbox(endpoint, str(address), waiting)


def _look_at_delayed(session: Session, address: QueueAddress, most: int) -> Iterator[Finding]:
    table = delayed_table(address)
    state = session.run(table.state(most))
    yield diagnose_delayed(
        str(address),
        waiting=state.waiting,
        overdue=state.overdue,
        next_due=state.next_due,
        at=state.at,
        mover=find_holders_now(session, table.leaders()),
    )
    shifted = diagnose_shifts(str(address), shifts_of(session.run(table.peek(MOST_LOOKED_AT))))
    if shifted is not None:
        yield shifted


def examine_logs(session: Session) -> Iterator[Finding]:
    """Judge the logs and the replicas in a database; nothing is read of a stranger's."""
    yield from _examine_schema(session)
    guard = guard_of(log_catalog.REPLICAS)
    if guard is not None and session.run(guard.owners):
        replicas = look_at_each(session, [log_catalog.REPLICAS], lambda _: log_catalog.replica_faults())
        yield from chain.from_iterable(map(diagnose_replicas, replicas.answers.values()))


def _examine_schema(session: Session) -> Iterator[Finding]:
    strangers = suspicious(session.run(log_schema.foreign_objects()))
    if strangers:
        yield from diagnose_strangers(strangers)
    elif session.run(log_schema.state()).is_ours:
        logs = session.run(log_catalog.log_states())
        tickers = session.run(ticks.leaders())
        schema = LogSchema(
            session.run(log_schema.grant_style()),
            tickers[0] if tickers else None,
            any(log.ticker_is_late for log in logs),
            any(log.waits_for_tick for log in logs),
            session.run(ticks.rights()).is_private,
        )
        if logs:
            yield from diagnose_schema(schema)
        yield from diagnose_logs(logs, session.run(log_catalog.consumer_states()))
        yield from diagnose_captures(session.run(log_catalog.capture_faults()))
        with suppress(PermissionDeniedError):  # who reads no events is not told what became of tables
            yield from diagnose_lost_captures(session.run(log_catalog.lost_captures()))
