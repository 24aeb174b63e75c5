"""The demo's schema and log: dropped and made anew at each run, and left there for whoever wants to look.

Invariant: nothing is dropped that the demo did not make, and two demos never run in one database.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from rowbus.demo.analytics import REPLICA
from rowbus.demo.books import CAPTURED, CONSUMER, LOG
from rowbus.demo.messages import ADDRESSES, SCHEMA
from rowbus.demo.processes import ENDPOINTS
from rowbus.demo.statements import ask, execute
from rowbus.errors import ConfigurationError
from rowbus.log import catalog as log_catalog
from rowbus.log.consuming.subscription import Subscription
from rowbus.log.schema import installer as log_installer
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

TABLES = (
    "lines",
    "orders",
    "order_items",
    "payments",
    "payments_by_order",
    "shipments",
    "invoices",
    "estimates",
    "reminders",
    "outages",
    "put_back",
    "revenue",
    "order_states",
    "books",
)
VIEWS = ("failures", "outcomes", "handled")
FOR_ANALYTICS = ("replica", "replica_mark", "archived", "events")


def install(session: Session) -> None:
    """Make schema, queues, business tables and views, and the log of the tables' changes, all new.

    Raises ConfigurationError when another demo runs in this database, or the schema is somebody else's.
    """
    _lock(session)
    log_installer.install_now(session)
    with session.transaction():
        _clear(session)
        for name in ("schema", "mark", *TABLES):
            execute(session, f"create/{name}")
        execute(session, "begin_outages")
        _make_queues(session)
        for name in VIEWS:
            execute(session, f"create/{name}")
        _capture(session)
        for name in FOR_ANALYTICS:
            execute(session, f"create/{name}")


def _make_queues(session: Session) -> None:
    """Make what the endpoints would make at their start, so that progress can be asked for from the beginning."""
    for queue in (*ENDPOINTS, "error"):
        session.run_all(queue_table(ADDRESSES.for_endpoint(queue)).create())
    for endpoint in ENDPOINTS:
        later = ADDRESSES.for_endpoint(endpoint, qualifier=DEFAULT_DELAYED_SUFFIX)
        session.run_all(delayed_table(later).create())


def _capture(session: Session) -> None:
    """Have the changes of some tables written to the log, and register who reads it, before anything changes."""
    session.run(log_catalog.create(LOG))
    session.run(Subscription(LOG, CONSUMER).register())
    for table in CAPTURED:
        name = f"{SCHEMA}.{table}"
        session.run(log_catalog.capture(name, LOG, form="json", arguments=["backup"], trigger=None))


def _lock(session: Session) -> None:
    (locked,) = ask(session, "lock_demo", itemgetter(0))
    if not locked:
        raise ConfigurationError(
            "Another demo is running in this database; wait for its end, or name another database."
        )


def _clear(session: Session) -> None:
    if _is_ours(session, REPLICA):
        execute(session, "drop_replica")
    if _is_ours(session, SCHEMA):
        execute(session, "drop_schema")
        execute(session, "drop_log", log=LOG)


def _is_ours(session: Session, schema: str) -> bool:
    """Say whether a schema is there; raise ConfigurationError if the demo did not make it."""
    marks = ask(session, "find_schema", itemgetter(0), schema=schema)
    if marks and not str(marks[0]).startswith("made by `rowbus demo`"):
        raise ConfigurationError(
            f"This database has a schema {schema!r} that the demo did not make; rename it, or name another database."
        )
    return bool(marks)
