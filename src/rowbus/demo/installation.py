"""The demo's schemas and log: made anew at each run, as a migration would make them, and left there to look at.

Invariant: nothing is dropped that the demo did not make, and two demos never run in one database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import rowbus
from rowbus.demo.books import CAPTURED, CONSUMER, LOG
from rowbus.demo.messages import ENDPOINTS, SCHEMA
from rowbus.demo.statements import ask, run_script, run_texts

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.demo.processes import Processes


def install(session: Session, processes: Processes) -> None:
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
    processes.run("Installation", "rowbus", "log", "install")
    with session.transaction():
        run_script(session, "drop")
        run_script(session, "tables")
        _make_queues(session)
        _capture(session)
        run_script(session, "views")


def _make_queues(session: Session) -> None:
    """Make the tables that the endpoints would make at their start, so that progress can be asked for from then on."""
    for endpoint in ENDPOINTS:
        run_texts(session, rowbus.endpoint_sql(endpoint, schema=SCHEMA))


def _capture(session: Session) -> None:
    """Have the changes of some tables written to the log, and register its reader, before anything changes."""
    ask(session, "create_log", log=LOG)
    ask(session, "register", log=LOG, consumer=CONSUMER)
    for table in CAPTURED:
        run_texts(session, rowbus.capture_sql(f"{SCHEMA}.{table}", LOG, arguments=["backup"]))
