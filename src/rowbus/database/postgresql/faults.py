"""The driver's errors become ours, by SQLSTATE; where a connection is lost, another try.

Invariants: the cause is chained, `sqlstate` and `transient` are set, and the text begins with what was being done.
Codes: PostgreSQL documentation, appendix A. Nothing else than a lost connection is tried again.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import psycopg

from rowbus.errors import (
    AlreadyThereError,
    ConnectionLostError,
    LogNotFoundError,
    PermissionDeniedError,
    QueueNotFoundError,
    RowbusError,
    SchemaNotFoundError,
    StorageError,
    TransactionConflictError,
)
from rowbus.errors.strangers import attribute, is_a, sqlstate_of, text_of
from rowbus.running.backoff import doubling
from rowbus.running.telemetry import process

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.database.statements import Query

UNDEFINED_TABLE = "42P01"
UNDEFINED_SCHEMA = "3F000"
ALREADY_THERE = frozenset({"42P07", "42710", "42P06"})  # table, object, schema
_TAKEN = "23505"  # a row of this key, in the catalogue: another session is just creating the table or schema
_CATALOGUE = "pg_catalog"
_NOT_THERE = frozenset({UNDEFINED_TABLE, UNDEFINED_SCHEMA})
_CONFLICTS = frozenset({"40001", "40P01"})
_NO_LOG = frozenset(
    {"No such queue", "Event queue not found", "Event queue not created yet", "No such event queue"}
)
_NO_LOG_SCHEMA = frozenset({UNDEFINED_TABLE, UNDEFINED_SCHEMA, "42883"})  # 42883: no such function
_IN_SCHEMA = ('"pgq"', '"pgq.', " pgq.")  # the schema itself, a table, a function
_KINDS: dict[str, type[StorageError]] = {
    "42501": PermissionDeniedError,
    UNDEFINED_SCHEMA: SchemaNotFoundError,
    **dict.fromkeys(ALREADY_THERE, AlreadyThereError),
    **dict.fromkeys(_CONFLICTS, TransactionConflictError),
}
_NO_PASSWORD = re.compile("password authentication failed|no password supplied|Peer authentication failed")
_NEXT_STEPS: dict[str, str] = dict.fromkeys(
    ("26000", "42P05"),  # a prepared statement that is not there, or is there already
    ". This looks like a pooler in transaction mode, whose sessions share prepared statements: give the connection "
    "prepare_threshold=None",
) | {
    "25006": ". Connect to the primary server, and let the transaction write: default_transaction_read_only of the "
    "role, the database or the connection string is to be off"
}
_EACH_ALONE = "statement pooling mode"  # PgBouncer's words
_TOGETHER = (
    ". This pooler lends a connection for one statement, and a message takes several in one transaction: have it do so "
    "for a transaction (PgBouncer: pool_mode = transaction), or connect to the server itself"
)
_UNREGISTERED = "Not subscriber to queue: "  # PgQ's words
_REGISTER = (
    ". It was unregistered, or its log dropped: start its program again, which registers it from then on"
)
_NO_TEXT = "{0.object!r} holds {1!r}, which is no character in {0.encoding}, the connection's client_encoding"
_LIMIT_EXCEEDED = "53400"
_LOCKED = "55P03"  # a lock was not to be had in time
_IO_ERROR = "58030"
_DISK_FULL = "53100"
_SAID_AGAIN = re.compile(
    r"^connection failed: | Is the server running on that host and accepting TCP/IP connections\?"
)
_FATAL = frozenset({"FATAL", "PANIC"})
FAULTS: Final = (psycopg.Error, UnicodeEncodeError)
"""The errors of the driver about a statement; the second is for a value that is no text."""
SERVER_GONE = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"})
"""The server closes the connection: it stops, or a timeout of idle or long transactions has passed."""


def translate(
    given: psycopg.Error | UnicodeEncodeError,
    query: Query | None = None,
    *,
    sends: bool = False,
    connection: psycopg.BaseConnection[Any] | None = None,
    server: str = "",
) -> RowbusError:
    """Return our error for one of the driver's; the caller raises it `from` the original.

    Notes a full disk: of the connection's server, or of the one that is named.
    """
    if is_a(given, UnicodeEncodeError):
        doing = "The database was given no text" if query is None else query.failing
        said = _NO_TEXT.format(given, given.object[given.start])
        return StorageError(f"{doing}: {said}", sqlstate=None, transient=False)
    error = cast("psycopg.Error", given)
    state = sqlstate_of(error)
    transient = is_transient(error) or (sends and state == _LOCKED)
    if state == _DISK_FULL:
        process.note_full_disk(server if connection is None else server_of(connection))
    if state in _NOT_THERE and query is not None and query.queue is not None:
        remedy = query.remedy or "the queue does not exist; create it with `rowbus queue create`."
        return QueueNotFoundError(f"{query.failing}: {remedy}", queue=query.queue)
    if query is not None and query.log is not None and (missing := _missing_log(error, query.log)):
        return LogNotFoundError(f"{query.failing}: {missing}", log=query.log)
    doing = _failing(error) if query is None else query.failing
    said = _remedy(error, query) or _explanation(error) + _NEXT_STEPS.get(state or "", "")
    return _kind(error)(f"{doing}: {said}", sqlstate=state, transient=transient)


def translate_send(
    error: psycopg.Error, query: Query | None = None, *, connection: psycopg.BaseConnection[Any] | None = None
) -> RowbusError:
    """Return the same for a statement that sends: a lock that it waited for in vain is no fault of what it sends."""
    return translate(error, query, sends=True, connection=connection)


def server_of(connection: psycopg.BaseConnection[Any]) -> str:
    """Return the server that a connection goes to, or went to; empty where the driver does not know it any more."""
    with suppress(psycopg.Error):
        return f"{connection.info.host}:{connection.info.port}"
    return ""


def _failing(error: psycopg.Error) -> str:
    """Say what failed where no query did: the connecting, or the database by itself."""
    if is_a(error, psycopg.OperationalError) and _NO_PASSWORD.search(text_of(error)):
        return "The database refused the user or the password (see the connection string, or PGPASSFILE)"
    return "The database failed"


def _remedy(error: psycopg.Error, query: Query | None) -> str | None:
    """Return what the query says about a missing table, if that is what went wrong."""
    return None if query is None or sqlstate_of(error) not in _NOT_THERE else query.remedy


def _missing_log(error: psycopg.Error, log: str) -> str | None:
    """Say what is missing and how to make it, if that is what went wrong.

    The texts are PgQ's (docs/wire-format.md#appending-events).
    """
    text = _said(error, "message_primary")
    if sqlstate_of(error) in _NO_LOG_SCHEMA and any(mark in text for mark in _IN_SCHEMA):
        return "this database has no event log, or an older one; install it with `rowbus log install`."
    if text in _NO_LOG or text.endswith(f"queue {log} does not exist"):
        return f"there is no log {log!r}; create it with `rowbus log create`."
    return None


def last_words(notice: psycopg.errors.Diagnostic) -> psycopg.Error | None:
    """Return the error with which the server ended a session, told while nothing ran: the driver makes it a notice."""
    if notice.severity_nonlocalized not in _FATAL:
        return None
    try:
        kind = psycopg.errors.lookup(notice.sqlstate or "")
    except KeyError:
        kind = psycopg.OperationalError
    error: psycopg.Error = kind(notice.message_primary or "")
    return error


def is_transient(error: psycopg.Error) -> bool:
    """Say whether the same work may succeed when it is simply done again, now or when the server is well again."""
    return sqlstate_of(error) in _CONFLICTS or is_connection_loss(error) or lacks_resources(error)


def lacks_resources(error: psycopg.Error) -> bool:
    """Say whether the server lacks disk, memory or connections, or cannot read or write its files.

    Not 53400, a limit that was configured: work that exceeds it will exceed it again.
    """
    state = sqlstate_of(error) or ""
    return (state.startswith("53") and state != _LIMIT_EXCEEDED) or state == _IO_ERROR


def is_connection_loss(error: psycopg.Error) -> bool:
    """Say whether the connection is gone (or could not be made)."""
    state = sqlstate_of(error)
    if state is None:
        return is_a(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return state.startswith("08") or state in SERVER_GONE


def _kind(error: psycopg.Error) -> type[StorageError]:
    state = sqlstate_of(error)
    if state == _TAKEN and _said(error, "schema_name") == _CATALOGUE:
        return AlreadyThereError
    kind = _KINDS.get(state or "")
    if kind is not None:
        return kind
    return ConnectionLostError if is_connection_loss(error) else StorageError


def _explanation(error: psycopg.Error) -> str:
    """Say what the server or, in several lines, libpq said, in one line: it becomes a line of a log."""
    said = " ".join((_said(error, "message_primary") or text_of(error) or type(error).__name__).split())
    said = (f"{process.DISK_FULL}: " if sqlstate_of(error) == _DISK_FULL else "") + _SAID_AGAIN.sub("", said)
    if said.startswith(_UNREGISTERED):
        return said + _REGISTER
    return said + _TOGETHER if said.endswith(_EACH_ALONE) else said


def _said(error: psycopg.Error, field: str) -> str:
    """Return a field of what the server said; handlers may raise the driver's errors, too, with nothing in them."""
    said = attribute(attribute(error, "diag"), field)
    return said if isinstance(said, str) else ""


T = TypeVar("T")

LONGEST = 60.0  # seconds between two tries


def retrying(attempt: Callable[[], T], *, retries: int, first: float) -> T:
    """Return what an attempt returns; if the connection is lost try again, so many times.

    Waits `first` seconds before the first retry, and twice as long before each that follows. Raises what the last
    attempt raised.
    """
    for failures in range(1, retries + 1):
        try:
            return attempt()
        except ConnectionLostError:
            time.sleep(doubling(failures, first=first, most=LONGEST))
    return attempt()
