"""The demo's schemas and log: made anew at each run, and left there to look at.

Invariant: nothing is dropped that the demo did not make, and two demos never run in one database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import rowbus
from rowbus.demo.books import CAPTURED, CONSUMER, LOG
from rowbus.demo.messages import ADDRESSES, ENDPOINTS, SCHEMA
from rowbus.demo.statements import ask, run_script
from rowbus.log import catalog as log_catalog
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.schema import installer as log_installer
from rowbus.messages.address import DEFAULT_DELAYED_SUFFIX
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.queues.table import queue_table

if TYPE_CHECKING:
    from rowbus.database.sessions import Session


def install(session: Session) -> None:
    """Make schemas, queues, tables and views, and the log of the tables' changes, all new.

    Raises ConfigurationError when another demo runs in this database, or the demo did not make a schema of its names.
    """
    ((locked,),) = ask(session, "lock_demo")
    if not locked:
        raise rowbus.ConfigurationError(
            "Another demo is running in this database; wait for its end, or name another database."
        )
    for (schema,) in ask(session, "find_foreign"):
        raise rowbus.ConfigurationError(
            f"This database has a schema {schema!r} that the demo did not make; rename it, or name another database."
        )
    log_installer.install_now(session)
    with session.transaction():
        run_script(session, "drop")
        run_script(session, "tables")
        _make_queues(session)
        _capture(session)
        run_script(session, "views")


def _make_queues(session: Session) -> None:
    """Make the tables that the endpoints would make at their start, so that progress can be asked for from then on."""
    for queue in (*ENDPOINTS, "error"):
        session.run_all(queue_table(ADDRESSES.for_endpoint(queue)).create())
    for endpoint in ENDPOINTS:
        later = ADDRESSES.for_endpoint(endpoint, qualifier=DEFAULT_DELAYED_SUFFIX)
        session.run_all(delayed_table(later).create())


def _capture(session: Session) -> None:
    """Have the changes of some tables written to the log, and register its reader, before anything changes."""
    session.run(log_catalog.create(LOG))
    session.run(ConsumerTable(LOG, CONSUMER).register())
    for table in CAPTURED:
        name = f"{SCHEMA}.{table}"
        session.run(log_catalog.capture(name, LOG, form="json", arguments=["backup"], trigger=None))
