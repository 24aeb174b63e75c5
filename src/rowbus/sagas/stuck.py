"""Sagas that do not go on: found, told of to operators, and measured.

Invariant: what is read is bounded, however many sagas there are.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from rowbus.errors.strangers import printable
from rowbus.running.telemetry.series import Gauge
from rowbus.sagas.table import COLUMNS, MOST_STUCK, saga_table
from rowbus.transport.queues.catalog.looking import find_tables, look_at_each
from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.database.sessions import Session
    from rowbus.messages.address import QueueAddress
    from rowbus.running.telemetry.series import Family
    from rowbus.sagas.table import StuckSaga
    from rowbus.transport.queues.catalog.table import Catalog

logger = logging.getLogger("rowbus.telemetry")

LONGEST_SHOWN: Final = 100  # characters of the text that finds one


def examine_sagas(session: Session, catalog: Catalog) -> Iterator[Finding]:
    """Judge the sagas of a database, as far as they can be read; none on SQL Server."""
    for address, stuck in find_stuck(session, catalog).items():
        if stuck:
            yield diagnose_stuck(address, stuck)


def find_stuck(session: Session, catalog: Catalog) -> dict[QueueAddress, list[StuckSaga]]:
    """Find the stuck sagas of each table that can be read."""
    found = find_tables(session, catalog, COLUMNS).tables
    return look_at_each(session, found, lambda address: saga_table(address).stuck()).answers


def diagnose_stuck(address: QueueAddress, stuck: Sequence[StuckSaga]) -> Finding:
    """Tell of the sagas of a table that do not go on."""
    first = stuck[0]
    count = f"{len(stuck)} or more sagas are" if len(stuck) == MOST_STUCK else f"{len(stuck)} sagas are"
    count = "a saga is" if len(stuck) == 1 else count
    key = printable(first.correlation, LONGEST_SHOWN)
    text = f"{count} stuck: a timeout of {key} is overdue for {duration(first.overdue)}"
    endpoint, _, saga = address.table.rpartition(".")
    advice = (
        "if its message has failed, retry it: `rowbus errors list`; if it waits, start the endpoint; "
        f"if it is lost: `rowbus sagas resend-timeouts {endpoint} {saga}`"
    )
    return Finding(Level.WARN, str(address), text, advice)


def overdue_gauge() -> Gauge:
    """Return the gauge of stuck sagas, without values."""
    text = "How long the timeout of a saga that is overdue for longest is so; 0: none for a minute."
    return Gauge("rowbus_saga_overdue_seconds", text, ("table",))


class StuckSagas:
    """Measures which sagas are stuck, and warns of a table when it begins to have some."""

    def __init__(self) -> None:
        """Begin without any."""
        self._warned: set[QueueAddress] = set()

    def measure(self, session: Session, catalog: Catalog) -> list[Family]:
        """Measure for how long the timeout of a saga is overdue, a value a table; 0 where none is for long."""
        gauge = overdue_gauge()
        found = find_stuck(session, catalog)
        for address, stuck in found.items():
            late = max((one.overdue for one in stuck), default=timedelta())
            gauge.set(late.total_seconds(), (str(address),))
            if stuck and address not in self._warned:
                finding = diagnose_stuck(address, stuck)
                logger.warning("%s: %s; %s", *finding[1:])
        self._warned = {address for address, stuck in found.items() if stuck}
        return [gauge]
