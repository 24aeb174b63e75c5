"""`rowbus doctor`: is this database fit for messaging, and what would make it so.

Invariant: gathers facts and shows findings; `transport/queues/diagnosis.py` decides what they mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.delayed import MOST
from rowbus.cli.options import Database, Json, Verbose
from rowbus.cli.output import show_json, show_table
from rowbus.cli.store import examine_endpoint, found_stores
from rowbus.cli.target import addresses_in, load_endpoint, open_database
from rowbus.database.backends import inspecting
from rowbus.database.locks.holders import find_holders_now
from rowbus.database.ownership import suspicious
from rowbus.log import catalog as log_catalog
from rowbus.log.diagnosis import LogSchema, diagnose_logs, diagnose_schema, diagnose_strangers
from rowbus.log.schema import table as log_schema
from rowbus.log.ticker import ticks
from rowbus.transport.delayed.diagnosis import diagnose_delayed, diagnose_shifts
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.delayed.time_shift import MOST_LOOKED_AT, shifts_of
from rowbus.transport.delayed_store.diagnosis import diagnose_store
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import Level, diagnose_queue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.queues.catalog.table import Catalog
    from rowbus.transport.queues.diagnosis import Finding


def doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:ENDPOINT", help="Examine the delayed message store of this endpoint too."
        ),
    ] = None,
    *,
    as_json: Json = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Examine the server, every queue, every table of delayed messages and every log.

    Says what to do about what is wrong, such as a transaction left open that makes queues slow. Exit code 1:
    something fails. Warnings do not count.
    """
    endpoint = None if target is None else load_endpoint(target)
    if endpoint is not None:
        database = database or endpoint.database
    location, addresses = open_database(database), addresses_in(database, None)
    with inspecting(location) as session:
        findings = list(_examine(session, catalog_of(addresses)))
        stores = found_stores(session, addresses, None, MOST)
        findings += [diagnose_store(str(address), state) for address, state in stores.items()]
        if location.has_logs:
            findings += _examine_logs(session)
    if endpoint is not None:
        findings += examine_endpoint(endpoint, database, MOST)
    if as_json:
        show_json([finding._asdict() | {"level": finding.level.value} for finding in findings])
    else:
        show_table(("", "subject", "found", "what to do"), map(_as_row, findings))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


def _examine(session: Session, catalog: Catalog) -> Iterator[Finding]:
    server = session.run(catalog.server())
    yield from server.findings()
    yield from server.findings_on_holders(session.run(catalog.snapshot_holders()))
    queues = session.run(catalog.find_queues())
    yield from map(diagnose_queue, queues)
    delayed = session.run(catalog.find_delayed())
    for address in delayed:
        yield from _examine_delayed(session, address)
    addresses = [*(queue.address for queue in queues), *delayed]
    yield from server.findings_on_storage(session.run(catalog.queue_storage(addresses)))


def _examine_delayed(session: Session, address: QueueAddress) -> Iterator[Finding]:
    table = delayed_table(address)
    state = session.run(table.state(MOST))
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


def _examine_logs(session: Session) -> Iterator[Finding]:
    """Judge the logs, where Rowbus's schema for them is installed; nothing is read of a stranger's."""
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
            session.run(ticks.rights()).is_private,
        )
        yield from diagnose_schema(schema)
        yield from diagnose_logs(logs, session.run(log_catalog.consumer_states()))


def _as_row(finding: Finding) -> tuple[str, str, str, str]:
    return finding.level.value, finding.subject, finding.text, finding.advice
