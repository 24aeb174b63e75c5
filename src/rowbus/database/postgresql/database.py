"""One database: how to reach it, for every kind of session; and one that exists for the length of a block.

Invariants: every connection made here is in autocommit mode, carries an application name an operator can recognise, and
has its time zone pinned to UTC, so that no row's meaning depends on a server's or a user's setting. Both of its ends
notice within seconds that the other one's machine, or the network, is gone, unless they were set otherwise. Only a
database made here is ever dropped.
"""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rowbus.database.location import TEMPORARY_PREFIX, refuse_unescaped, unescaped
from rowbus.database.pool import SessionPool
from rowbus.database.postgresql.connection import AsyncSession, ReadSession, Session, bound_sends, close
from rowbus.database.postgresql.driver_hooks import TellingCursor
from rowbus.database.postgresql.faults import server_of, translate
from rowbus.database.postgresql.handler_connection import HandlerConnection
from rowbus.database.postgresql.receive_session import ReceiveSession
from rowbus.database.statements import Statement, control, load, no_rows, source
from rowbus.errors import ConfigurationError
from rowbus.errors.strangers import is_a
from rowbus.running.telemetry import process

if TYPE_CHECKING:
    from collections.abc import Generator

    from psycopg.rows import TupleRow

    from rowbus.errors import RowbusError


CONNECT_TIMEOUT = "10"  # seconds
PROBED = 1.0  # seconds in which a session hears what another one has notified
FAILED_TO_LISTEN = "Failed to find out whether a pooler is in between"
NOT_HERE = (
    "Event logs, their ticker and what Spark reads and writes are in PostgreSQL only; the database given is another. "
    "Queues, delayed messages and subscriptions work there."
)
LONGEST_NAME = 63  # bytes of an application name
LIVENESS = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
"""libpq's words; in seconds, the last in milliseconds. What sends nothing is found broken after 11 s, what sends after
10 s. A connection service that is named (`service`, PGSERVICE) may have words of its own, which win."""


def marked(name: str, ended: int) -> str:
    """Return the application name of a process whose loops ended so often; `ended_loops.sql` finds it."""
    mark = f" (ended loops: {ended})"
    return name.encode()[: LONGEST_NAME - len(mark)].decode(errors="ignore") + mark


def facts_of(dsn: str) -> dict[str, Any]:
    """Read a libpq connection string or URI; raises ConfigurationError, whose text holds nothing of it. No I/O."""
    if "://" in dsn:
        refuse_unescaped(dsn, in_options=True)
    try:
        return {**conninfo_to_dict(dsn)}
    except (psycopg.Error, UnicodeDecodeError):  # the latter for %99 and the like
        if dsn.strip().lower().startswith("mssql:"):
            raise ConfigurationError(NOT_HERE) from None
        # The driver's text repeats the string, password and all.
        if "@" in dsn.partition("://")[2].partition("?")[2]:
            raise unescaped() from None
        raise ConfigurationError(
            "The database is not given as a PostgreSQL connection string: neither postgresql://user@host/name, with "
            "what is special in it percent-encoded and no SQLAlchemy driver in its scheme, nor key=value pairs."
        ) from None


def _preparation() -> bytes:
    return source("database/sql/postgresql/prepare_session.sql").encode()


class Database:
    """Where the queues live."""

    notifies = True
    has_logs = True

    def __init__(
        self,
        dsn: str,
        *,
        application_name: str = "rowbus",
        prepared_statements: bool = True,
    ) -> None:
        """Take a libpq connection string or URI; raises ConfigurationError if it cannot be parsed. No I/O."""
        facts = facts_of(dsn)
        facts.setdefault("application_name", application_name)
        facts.setdefault("connect_timeout", CONNECT_TIMEOUT)
        if "service" not in facts and "PGSERVICE" not in os.environ:
            facts = {**LIVENESS, **facts}
        facts["client_encoding"] = "utf8"
        self._conninfo = make_conninfo("", **facts)
        self._application_name = str(facts["application_name"])
        self.identity = make_conninfo("", **{**facts, "application_name": None})
        self._prepared_statements = prepared_statements
        self._is_pooled = False
        self.server = ""
        self.name = f"{facts.get('dbname', '')} on {facts.get('host', 'the local socket')}"

    @property
    def conninfo(self) -> str:
        """The parameters of a connection. They name loops of this process that ended unasked, for `rowbus doctor`."""
        if not process.ENDED:
            return self._conninfo
        ended = sum(loop.times for loop in process.ENDED.values())
        return make_conninfo(self._conninfo, application_name=marked(self._application_name, ended))

    async def configure(
        self, connection: psycopg.AsyncConnection[TupleRow], level: psycopg.IsolationLevel | None = None
    ) -> None:
        """Make a new connection what the invariant says."""
        try:
            if level is not None:
                await connection.set_isolation_level(level)
            cursor = await connection.execute(_preparation())
            self._choose_plans(connection, await cursor.fetchone())
        except BaseException:  # cancelled, perhaps, and only this frame knows the connection
            await close(connection)
            raise

    async def connect(self) -> AsyncSession:
        """Open an asynchronous session; raises ConnectionLostError when that fails."""
        try:
            connection = await psycopg.AsyncConnection.connect(self.conninfo, autocommit=True)
            await self.configure(connection, psycopg.IsolationLevel.READ_COMMITTED)
        except psycopg.Error as error:
            raise translate(error) from error
        return AsyncSession(connection)

    async def connect_reader(self) -> ReadSession:
        """Open an asynchronous session that can also read through a cursor; raises ConnectionLostError."""
        session = await self.connect()
        return ReadSession(session.connection, keep_plans=True)

    async def connect_sender(self) -> ReadSession:
        """Open the same for what only sends: it waits for no lock without end. Raises ConnectionLostError."""
        session = await self.connect_reader()
        try:
            await session.run(bound_sends(in_transaction=False))
        except BaseException:  # cancelled, perhaps, and only this frame knows the session
            await session.close()
            raise
        return session

    async def connect_receiver(self) -> ReceiveSession:
        """Open the session of one receiving slot; raises ConnectionLostError when that fails."""
        try:
            connection = await HandlerConnection.connect(self.conninfo, autocommit=True)
            await self.configure(connection)
        except psycopg.Error as error:
            raise translate(error) from error
        connection.cursor_factory = TellingCursor
        return ReceiveSession(connection)

    @contextmanager
    def session(self) -> Generator[Session]:
        """Open a synchronous session and close it again; raises ConnectionLostError when that fails."""
        with ExitStack() as opened:
            try:
                connection = opened.enter_context(psycopg.connect(self.conninfo, autocommit=True))
                connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
                self._choose_plans(connection, connection.execute(_preparation()).fetchone())
            except psycopg.Error as error:
                raise translate(error) from error
            yield Session(connection)

    def keeps_sessions(self) -> bool:
        """Say whether a session hears what is notified: through a pooler in transaction mode none does.

        There a session's locks and settings mean nothing either. Blocks, through such a pooler for a second. Raises
        ConnectionLostError.
        """
        with self.session() as session:
            return not self._is_pooled or self._hears(session)

    def _hears(self, session: Session) -> bool:
        with self.session() as other:
            session.run(control(b"listen rowbus_session", FAILED_TO_LISTEN))
            other.run(control(b"notify rowbus_session", FAILED_TO_LISTEN))
            heard = session.notified(PROBED)
            session.run(control(b"unlisten rowbus_session", FAILED_TO_LISTEN))
            return heard

    def _choose_plans(
        self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], row: TupleRow | None
    ) -> None:
        """Keep no plans if they are not wanted, or a pooler may change the server's process behind the connection.

        A pooler answers to its clients with a process number of its own.
        """
        self.server = server_of(connection)
        self._is_pooled = row is None or row[0] != connection.info.backend_pid
        if self._is_pooled or not self._prepared_statements:
            connection.prepare_threshold = None

    def pool(self, size: int) -> SessionPool:
        """Return a pool that lends at most `size` sessions at a time. No I/O."""
        return SessionPool(self, size=size)

    def fault(self, error: Exception) -> RowbusError | None:
        """Return our error for one of psycopg's, None for others."""
        return translate(error, server=self.server) if is_a(error, psycopg.Error) else None


@contextmanager
def temporary_database(server: str, template: str | None = None) -> Generator[str]:
    """Create a database on the server of a connection string and give its own string; drop it in the end.

    With `template`, the connection string of another database there that nothing is connected to, it is a copy. The
    role must be allowed to create databases. Raises ConfigurationError, ConnectionLostError, or PermissionDeniedError.
    Sessions left open are ended. Blocks.
    """
    database = Database(server, application_name="rowbus testing")
    name = f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"
    if template is None:
        _run(database, "create_database", name, "Could not create a database for tests")
    else:
        source = str(conninfo_to_dict(template)["dbname"])
        _run(database, "copy_database", name, "Could not copy a database for tests", template=source)
    try:
        yield _with_name(server, name)
    finally:
        _run(database, "drop_database", name, f"Could not drop the database {name}, made for tests")


def _run(database: Database, operation: str, name: str, failing: str, **names: str) -> None:
    path = f"database/sql/postgresql/{operation}.sql"
    query = load(
        path,
        identifiers={"database": name} | {key: str(value) for key, value in names.items()},
        failing=failing,
        prepare=False,
    )
    with database.session() as session:
        session.run(Statement(query, {}, no_rows))


def _with_name(dsn: str, name: str) -> str:
    """Return the connection string of another database on the same server, in the same notation."""
    if "://" in dsn:
        return urlsplit(dsn)._replace(path=f"/{name}").geturl()
    return make_conninfo(dsn, dbname=name)
