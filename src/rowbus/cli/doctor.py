"""`rowbus doctor`: is this database fit for messaging, and what would make it so.

Invariant: shows findings; `log/examination.py` gathers the facts, and the `diagnosis.py` of each subject judges them.
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
from rowbus.log.examination import examine, examine_logs
from rowbus.transport.delayed_store.diagnosis import diagnose_store
from rowbus.transport.queues.catalog.table import catalog_of
from rowbus.transport.queues.diagnosis import Level, diagnose_left_out

if TYPE_CHECKING:
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
        findings = list(examine(session, catalog_of(addresses), MOST))
        stores, left_out = found_stores(session, addresses, None, MOST)
        findings += [diagnose_store(str(address), state) for address, state in stores.items()]
        findings += [diagnose_left_out(str(address), reason) for address, reason in left_out.items()]
        if location.has_logs:
            findings += examine_logs(session)
    if endpoint is not None:
        findings += examine_endpoint(endpoint, database, MOST)
    if as_json:
        show_json([finding._asdict() | {"level": finding.level.value} for finding in findings])
    else:
        show_table(("", "subject", "found", "what to do"), map(_as_row, findings))
    if any(finding.level is Level.FAIL for finding in findings):
        raise typer.Exit(1)


def _as_row(finding: Finding) -> tuple[str, str, str, str]:
    return finding.level.value, finding.subject, finding.text, finding.advice
