"""The stand-in as tests use it: a DSN, and the driver's seam led to it.

Invariants: only connections to the host `standin.invalid` are the stand-in's; others fail as they would without it.
What asynchronous sessions open is watched (tests/database/sqlserver/own_thread.py): `complaints` says what happened to
it from beside.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from rowbus.database.sqlserver import driver as seam
from rowbus.database.sqlserver.threads import NAME
from tests.database.sqlserver.own_thread import WatchedConnection
from tests.database.sqlserver.standin import driver
from tests.database.sqlserver.standin.faults import Fault, raised

if TYPE_CHECKING:
    import pytest

    from rowbus.database.sqlserver.driver import DataSource

HOST = "standin.invalid"


class Standin:
    """One catalog, which is a database of PostgreSQL's."""

    def __init__(self, database: str) -> None:
        """Prepare an empty database."""
        driver.prepare_database(database)
        self.database = database
        self.complaints = list[str]()
        self.catalog = str(conninfo_to_dict(database)["dbname"])
        self.dsn = f"mssql://tests:secret@{HOST}/{self.catalog}"

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Lead `rowbus.database.sqlserver.driver.connect` here, for the test."""
        monkeypatch.setattr(seam, "connect", self._connect)

    def _connect(self, source: DataSource) -> WatchedConnection | driver.Connection:
        assert source.host == HOST, f"no test but of a real server connects to {source.host}"
        if source.catalog != self.catalog:
            raise raised(
                Fault(
                    4060, f'Cannot open database "{source.catalog}" requested by the login. The login failed.'
                )
            )
        made = driver.connect(self.database)
        is_sessions = threading.current_thread().name == NAME
        return WatchedConnection(made, self.complaints.append) if is_sessions else made
