"""The driver's errors become ours: by SQLSTATE, with what was being done, and saying whether to try again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pyarrow as pa
import pytest
from psycopg import errors, sql

from rowbus.database.backends import borrow
from rowbus.database.postgresql.arrow import _adbc_errors
from rowbus.database.postgresql.connection import AsyncSession, Session
from rowbus.database.postgresql.database import Database
from rowbus.database.postgresql.faults import is_connection_loss, is_transient, translate
from rowbus.database.postgresql.handler_connection import HandlerConnection
from rowbus.database.statements import Statement, control, load, no_rows
from rowbus.errors import (
    AlreadyThereError,
    ConfigurationError,
    ConnectionLostError,
    PermissionDeniedError,
    QueueNotFoundError,
    RowbusError,
    StorageError,
    TransactionConflictError,
)
from rowbus.messages.address import QueueAddress
from rowbus.running.telemetry.process import full_disks, note_full_disk, process_families
from rowbus.transport.queues.postgresql import QueueTable
from tests.fixtures.every import every
from tests.fixtures.sessions import message

PURGE = load(
    "transport/queues/sql/postgresql/purge.sql",
    identifiers={"schema": "public", "queue": "Sales"},
    failing='Failed to purge "public"."Sales"',
    queue='"public"."Sales"',
)


def test_an_error_of_arrow_without_a_code_is_a_lost_connection_only_while_connecting() -> None:
    connecting = _adbc_errors("Failed to read it", connecting=True)
    for block, kind in ((_adbc_errors("Failed to read it"), StorageError), (connecting, ConnectionLostError)):
        with pytest.raises(StorageError, match="Failed to read it: no batch") as raised, block:
            raise pa.ArrowInvalid("no batch")

        assert type(raised.value) is kind
        assert raised.value.transient is (kind is ConnectionLostError)


def statement(text: LiteralString) -> Statement[None]:
    return control(text.encode(), "Failed to do it")


@every(
    "error, kind, transient",
    [
        (errors.DeadlockDetected(), TransactionConflictError, True),
        (errors.SerializationFailure(), TransactionConflictError, True),
        (errors.InsufficientPrivilege(), PermissionDeniedError, False),
        (errors.AdminShutdown(), ConnectionLostError, True),
        (errors.CrashShutdown(), ConnectionLostError, True),
        (errors.CannotConnectNow(), ConnectionLostError, True),
        (errors.IdleSessionTimeout(), ConnectionLostError, True),
        (errors.ConnectionFailure(), ConnectionLostError, True),
        (psycopg.OperationalError("server closed the connection unexpectedly"), ConnectionLostError, True),
        (psycopg.InterfaceError("the connection is closed"), ConnectionLostError, True),
        (errors.DuplicateTable(), AlreadyThereError, False),
        (errors.DuplicateSchema(), AlreadyThereError, False),
        (errors.DiskFull(), StorageError, True),
        (errors.ConfigurationLimitExceeded(), StorageError, False),
        (errors.UniqueViolation(), StorageError, False),
        (errors.QueryCanceled(), StorageError, False),
        (psycopg.DataError("bad"), StorageError, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_errors_are_told_apart_by_their_code(
    error: psycopg.Error,
    kind: type[StorageError],
    transient: bool,  # noqa: FBT001 - a column of the table above
) -> None:
    ours = translate(error, PURGE)

    assert type(ours) is kind
    assert isinstance(ours, StorageError)
    assert ours.sqlstate == error.sqlstate
    assert ours.transient is transient is is_transient(error)
    assert is_connection_loss(error) is (kind is ConnectionLostError)
    assert str(ours).startswith('Failed to purge "public"."Sales": ')


def test_an_error_without_a_text_of_its_own_still_says_something() -> None:
    assert (
        str(translate(errors.TooManyConnections(), PURGE))
        == 'Failed to purge "public"."Sales": TooManyConnections'
    )
    assert str(translate(psycopg.OperationalError())) == "The database failed: OperationalError"


def test_a_full_disk_is_called_so_and_remembered() -> None:
    assert str(translate(errors.DiskFull("no room"), PURGE)).endswith(": the server's disk is full: no room")
    assert "" in full_disks()


def test_a_full_disk_is_measured_by_its_server() -> None:
    note_full_disk("db1:5432")

    (full,) = [each for each in process_families(is_ready=True) if each.name == "rowbus_disk_full"]

    assert full.values[("db1:5432",)] == 1


SHARED = "This looks like a pooler in transaction mode, whose sessions share prepared statements: give the connection "
APART = (
    "This pooler lends a connection for one statement, and a message takes several in one transaction: have it do so "
    "for a transaction (PgBouncer: pool_mode = transaction), or connect to the server itself"
)
READ_ONLY = (
    "Connect to the primary server, and let the transaction write: default_transaction_read_only of the role, the "
    "database or the connection string is to be off"
)
ONE_EACH = "transaction blocks not allowed in statement pooling mode"


@every(
    "error, text",
    [
        (errors.InvalidSqlStatementName("no _p1"), f"no _p1. {SHARED}prepare_threshold=None"),
        (errors.DuplicatePreparedStatement("no _p1"), f"no _p1. {SHARED}prepare_threshold=None"),
        (errors.ReadOnlySqlTransaction("no"), f"no. {READ_ONLY}"),
        (
            errors.ProtocolViolation(ONE_EACH),
            f"{ONE_EACH}. {APART}",
        ),
    ],
)
def test_what_a_server_or_a_pooler_refuses_says_what_to_do(error: psycopg.Error, text: str) -> None:
    assert str(translate(error, PURGE)) == f'Failed to purge "public"."Sales": {text}'


@every("error", [errors.UndefinedTable(), errors.InvalidSchemaName()])
def test_a_missing_table_is_a_missing_queue_and_says_how_to_create_it(error: psycopg.Error) -> None:
    ours = translate(error, PURGE)

    assert isinstance(ours, QueueNotFoundError)
    assert ours.queue == '"public"."Sales"'
    assert "`rowbus queue create`" in str(ours)


def test_a_missing_table_that_is_no_queue_is_a_storage_error() -> None:
    assert type(translate(errors.UndefinedTable())) is StorageError


def fail(session: Session, text: LiteralString) -> StorageError:
    with pytest.raises(StorageError) as caught:
        session.run(statement(text))
    return caught.value


def test_the_servers_own_words_and_the_cause_are_kept(session: Session) -> None:
    error = fail(session, "select 1 / 0")

    assert str(error) == "Failed to do it: division by zero"
    assert error.sqlstate == "22012"
    assert isinstance(error.__cause__, errors.DivisionByZero)


def test_a_role_without_privileges_is_told_so(database: str, session: Session, queue: QueueTable) -> None:
    role = sql.Identifier(f"{session.connection.info.dbname}_role")
    session.connection.execute(sql.SQL("create role {} login").format(role))
    try:
        session.connection.execute(sql.SQL("set role {}").format(role))
        with pytest.raises(PermissionDeniedError, match="Failed to send message to") as caught:
            session.run(queue.send(message(), notify=False))
        assert not caught.value.transient
    finally:
        session.connection.execute("reset role")
        session.connection.execute(sql.SQL("drop role {}").format(role))


def test_a_session_that_the_server_ended_is_a_lost_connection(session: Session, other: Session) -> None:
    other.connection.execute("select pg_terminate_backend(%s, 5000)", [session.connection.info.backend_pid])

    with pytest.raises(ConnectionLostError, match="Failed to do it") as caught:
        session.run(statement("select 1"))

    assert caught.value.transient
    with pytest.raises(ConnectionLostError):
        session.run(statement("select 1"))


async def test_asynchronously_too(asynchronous: AsyncSession, session: Session) -> None:
    pid = asynchronous.connection.info.backend_pid
    session.connection.execute("select pg_terminate_backend(%s, 5000)", [pid])

    with pytest.raises(ConnectionLostError):
        await asynchronous.run(statement("select 1"))
    with pytest.raises(ConnectionLostError):
        await asynchronous.run_all([statement("select 1"), statement("select 2")])
    with pytest.raises(ConnectionLostError):
        await asynchronous.notified(0.01)


async def test_of_several_statements_the_one_that_failed_names_the_error(asynchronous: AsyncSession) -> None:
    fine = Statement(statement("select 1").query._replace(failing="Failed at first"), {}, no_rows)
    missing = QueueTable(QueueAddress("public", "Missing")).send(message(), notify=False)

    with pytest.raises(QueueNotFoundError, match=r'^Failed to send message to "public"\."Missing"'):
        await asynchronous.run_all([fine, missing, fine])

    await asynchronous.run_all([fine, fine])


@pytest.mark.one_version
@every("connect", ["connect", "connect_receiver"])
async def test_a_server_that_is_not_there_is_a_lost_connection(connect: str, tmp_path: object) -> None:
    database = Database(f"host={tmp_path} dbname=nothing user=nobody")

    with pytest.raises(ConnectionLostError, match=r"The database failed: .*connection") as caught:
        await getattr(database, connect)()

    assert caught.value.transient
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)


@pytest.mark.one_version
@every("kind", [psycopg.AsyncConnection, HandlerConnection])
async def test_a_connection_that_cannot_be_prepared_is_closed(
    kind: type[psycopg.AsyncConnection[Any]], database: str
) -> None:
    connection = await kind.connect(database, autocommit=True)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.cursor().execute("begin; select 1 / 0")

    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        await Database(database).configure(connection)

    assert connection.closed


def test_for_a_synchronous_session_too(tmp_path: object) -> None:
    with pytest.raises(ConnectionLostError), Database(f"host={tmp_path} user=nobody").session():
        pass


@every("dsn", ["nonsense", "hunter2", "hosts=a", "postgresql://host/name?no_such=option&password=hunter2"])
def test_a_connection_string_that_cannot_be_read_is_known_before_any_io(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="not given as a PostgreSQL connection string") as caught:
        Database(dsn)

    assert "hunter2" not in str(caught.value), "it may be a password"
    assert caught.value.__cause__ is None


def test_a_password_is_in_no_name_and_no_error(tmp_path: object) -> None:
    database = Database(f"host={tmp_path} dbname=shop user=nobody password=hunter2")
    assert "hunter2" not in database.name

    with pytest.raises(ConnectionLostError) as caught, database.session():
        pass

    assert "hunter2" not in str(caught.value)


def test_no_error_of_the_driver_leaves_a_session(session: Session, queue: QueueTable) -> None:
    def copy_badly() -> None:
        session.copy(queue.copy, [(b"not a uuid", None, "{}", b"")])

    def nest() -> None:
        with session.transaction():
            session.connection.execute("select 1 / 0")

    def name_no_text() -> None:
        session.run(queue.holds("half \ud800 of a character"))

    attempts: list[Callable[[], None]] = [copy_badly, nest, name_no_text]
    for attempt in attempts:
        with pytest.raises(RowbusError) as caught:
            attempt()
        assert isinstance(caught.value.__cause__, psycopg.Error | UnicodeEncodeError)


@pytest.mark.one_version
def test_a_letter_that_a_connection_cannot_write_is_named(database: str, queue: QueueTable) -> None:
    with (
        psycopg.connect(database, client_encoding="latin1") as connection,
        pytest.raises(StorageError, match="'5 €' holds '€', which is no character in latin-1"),
    ):
        borrow(connection).session().run(queue.holds("5 €"))


@every("said", ['password authentication failed for user "shop"', "no password supplied"])
def test_a_wrong_password_is_called_so(said: str) -> None:
    error = psycopg.OperationalError(
        f"connection failed: server at 10.0.0.1, port 5432 failed: FATAL:  {said}"
    )

    assert str(translate(error)) == (
        "The database refused the user or the password (see the connection string, or PGPASSFILE): "
        f"server at 10.0.0.1, port 5432 failed: FATAL: {said}"
    )
