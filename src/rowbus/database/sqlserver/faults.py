"""The drivers' errors become ours: by the server's error number, by SQLSTATE, by what they say.

mssql-python gives neither number nor SQLSTATE, only a phrase that stands for the SQLSTATE, and the server's text;
pymssql gives the number, pyodbc both. Where the number would be needed and is not there, the text is looked at, in SQL
Server's English and in Babelfish's. The SQLSTATEs of numbers are those that Microsoft's ODBC driver was seen to give.

Invariant: the cause is chained, `sqlstate` and `transient` are set, and the text begins with what was being done.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, cast

from rowbus.errors import (
    AlreadyThereError,
    ConfigurationError,
    ConnectionLostError,
    PermissionDeniedError,
    QueueNotFoundError,
    RowbusError,
    SchemaNotFoundError,
    StorageError,
    TransactionConflictError,
)
from rowbus.errors.strangers import arguments_of, attribute, is_a, text_of

if TYPE_CHECKING:
    from rowbus.database.sqlserver.driver import DataSource
    from rowbus.database.statements import Query

NO_TABLE = "42S02"
NO_COLUMN = "42S22"
CONSTRAINT = "23000"
WAITED_FOR_LOCK = "HYT00"
DOOMED = "25S03"  # the transaction is rolled back

_PHRASES = {  # of mssql-python, see its module `exceptions`
    "Base table or view not found": NO_TABLE,
    "Base table or view already exists": "42S01",
    "Index already exists": "42S11",
    "Column not found": NO_COLUMN,
    "Column already exists": "42S21",
    "Integrity constraint violation": CONSTRAINT,
    "Serialization failure": "40001",
    "Syntax error or access violation": "42000",
    "Invalid transaction state": "25000",
    "Transaction is rolled back": DOOMED,
    "Invalid authorization specification": "28000",
    "Client unable to establish connection": "08001",
    "Connection not open": "08003",
    "Server rejected the connection": "08004",
    "Connection failure during transaction": "08007",
    "Communication link failure": "08S01",
    "Disconnect error": "01002",
    "Timeout expired": "HYT00",
    "Connection timeout expired": "HYT01",
    "Operation canceled": "HY008",
    "General error": "HY000",
    "Cannot create cursor on closed connection": "08003",
    "Operation cannot be performed: The cursor is closed.": "08003",
}
_STATES = {  # of the numbers that matter here
    207: NO_COLUMN,
    208: NO_TABLE,
    229: "42000",
    262: "42000",
    515: CONSTRAINT,
    911: "08004",
    916: "08004",
    1205: "40001",
    1222: "HYT00",
    1913: "42S11",
    2601: CONSTRAINT,
    2627: CONSTRAINT,
    2714: "42S01",
    3902: "25000",
    4060: "42000",
    18456: "28000",
    20002: "08001",  # from here on DB-Library's, which pymssql uses
    20003: "HYT00",
    20004: "08S01",
    20006: "08S01",
    20009: "08001",
    20047: "08S01",
}
_SHORTAGES = frozenset({
    701, 802, 823, 1105, 8645, 9002, 10928, 10929, 17830, 40197, 40501, 40613, 49918, 49919, 49920,
})  # fmt: skip
_SHORTAGE = re.compile(
    r"could not allocate space for object|transaction log for database .* is full|insufficient (?:system )?memory"
    r"|waiting for memory resources|Resource ID ?: ?\d.* limit|service is currently busy|is not currently available"
    r"|service has encountered an error processing your request",
    re.IGNORECASE | re.DOTALL,
)
_LOST = frozenset({"08001", "08003", "08007", "08S01", "01002", "HYT01"})
_THERE = frozenset({"42S01", "42S11"})
_NUMBER = re.compile(r"\((\d{1,6})\)")  # how pyodbc writes it
_UNKNOWN_STATE = re.compile(r"SQLSTATE code: (\w{5})")
_ORIGIN = re.compile(r"^(?:\[[^\]]*\])+|DB-Lib error message \d+, severity \d+:\s*")

_CONFLICT = re.compile(
    r"deadlock|snapshot isolation transaction aborted|could not serialize access", re.IGNORECASE
)
_MISSING = re.compile(
    r"(?:^|\])(?:relation \"(?!sys\.)(?P<there>.*)\" does not exist|Invalid object name '(?P<name>.*)')"
)
"""Texts of a missing table; a view of the system's that Babelfish lacks is none."""
_BABELFISHS = (  # of its faults without a number of their own (33557097), whose SQLSTATE is 42000
    (_MISSING, NO_TABLE),
    (re.compile(r'(?:^|\])column "?[^"]*"? (?:of relation "[^"]*" )?does not exist'), NO_COLUMN),
)
_DENIED = re.compile(
    r"permission (?:was |is )?denied|do(?:es)? not have permission|not able to access the database",
    re.IGNORECASE,
)
_NO_SCHEMA = re.compile(
    r"specified schema name .* does not exist|schema \"[^\"]*\" does not exist", re.IGNORECASE | re.DOTALL
)
_NO_CATALOG = re.compile(
    r"database ['\"].*['\"] does not exist|cannot open database", re.IGNORECASE | re.DOTALL
)
_MISTAKEN = re.compile("invalid value specified for connection string attribute", re.IGNORECASE)
_DUPLICATE = re.compile(
    r"violation of (?:primary|unique) key|insert duplicate key|duplicate key value", re.IGNORECASE
)
_ENCRYPTION = re.compile(r"encryption|SSL Provider|certificate|TLS", re.IGNORECASE)
_UNTRUSTED = re.compile(
    r"certificate verify failed|certificate chain|self.signed|subject name", re.IGNORECASE
)
_LOCKED = re.compile(r"lock request time out period exceeded|due to lock timeout", re.IGNORECASE)
"""Texts of a statement that waited for a lock longer than `set lock_timeout` says; drivers give it various states."""
_LIBRARY = re.compile(r"failed to load the driver|cannot open shared object", re.IGNORECASE)

_TRUST_IT = (
    "the server's certificate is not trusted; have this machine trust the authority that signed it, or name the "
    "certificate with `?server_certificate=/path/to/it.pem` (`trust_server_certificate=yes` trusts any, also that of "
    "an attacker in between: for a server on this machine only)"
)
_ENCRYPT_IT = (
    "encryption could not be agreed upon; give the server a certificate, and name it with "
    "`?server_certificate=/path/to/it.pem` where this machine does not trust it (`?encrypt=no` goes without, and shows "
    "password and messages to the network: for a server on this machine only)"
)
_REMEDIES = (  # an option may be one of encryption's
    (_MISTAKEN, "an option of its URL has a value that the driver does not know"),
    (_UNTRUSTED, _TRUST_IT),
    (_ENCRYPTION, _ENCRYPT_IT),
)


class Fault(NamedTuple):
    """The text of a driver's error."""

    number: int | None
    state: str | None
    text: str


def translate(error: Exception, query: Query | None = None) -> RowbusError:
    """Return our error for one of a driver's; the caller raises it `from` the original."""
    if is_a(error, RowbusError):
        return error
    fault = read(error)
    missing = fault.state == NO_TABLE or (fault.state == "08004" and _NO_CATALOG.search(fault.text))
    if missing and query is not None and query.queue is not None:
        remedy = query.remedy or "the queue does not exist; create it with `rowbus queue create`."
        return QueueNotFoundError(f"{query.failing}: {remedy}", queue=query.queue)
    doing = "The database failed" if query is None else query.failing
    said = query.remedy if missing and query is not None and query.remedy else fault.text
    kind = _kind(fault)
    transient = issubclass(kind, ConnectionLostError | TransactionConflictError) or _lacks_resources(fault)
    return kind(f"{doing}: {said}", sqlstate=fault.state, transient=transient)


def translate_connecting(error: Exception, source: DataSource) -> RowbusError:
    """Return our error for a connection that could not be made; says what to do about it, where that is known."""
    if is_a(error, RowbusError):
        return error
    fault = read(error)
    if _LIBRARY.search(fault.text):
        return ConfigurationError(
            "SQL Server cannot be reached: Microsoft's driver lacks a library of the operating system. On Debian "
            "and Ubuntu, `apt-get install libltdl7 libkrb5-3 libgssapi-krb5-2`."
        )
    reason, transient = _refusal(fault, source)
    return ConnectionLostError(
        f"Could not connect to {source.name}: {reason}", sqlstate=fault.state, transient=transient
    )


def drivers_fault(error: BaseException, modules: frozenset[str]) -> RowbusError | None:
    """Return our error for one that a driver raised to users of its connection; None for any other."""
    for base in type(error).__mro__:
        if base.__name__ == "Error" and base.__module__.partition(".")[0] in modules:
            return translate(error) if is_a(error, Exception) else None
    return None


def read(error: Exception) -> Fault:
    """Read the error of any of the drivers."""
    number = _number(error)
    text = _text(error)
    state = WAITED_FOR_LOCK if _LOCKED.search(text) else _state(error) or _STATES.get(number or 0)
    return Fault(number, _exactly(state, text), text)


def _exactly(state: str | None, text: str) -> str | None:
    """Return the state that SQL Server would give, where Babelfish says it only in words."""
    if state not in {None, "42000", "HY000"}:
        return state
    return next((meant for words, meant in _BABELFISHS if words.search(text)), state)


def is_connection_loss(error: Exception) -> bool:
    """Say whether the connection is gone, so that its session is of no use any more."""
    return read(error).state in _LOST


def missing_table(error: Exception) -> str | None:
    """Return the name of the table that is missing, in small letters and without its schema; None for other errors."""
    fault = read(error)
    said = _MISSING.search(fault.text) if fault.state == NO_TABLE else None
    return None if said is None else (said["there"] or said["name"]).rpartition(".")[2].strip('"[]').lower()


def is_conflict(error: Exception) -> bool:
    """Say whether it is a deadlock or the like, after which the server has rolled the transaction back."""
    return _conflicts(read(error))


def _conflicts(fault: Fault) -> bool:
    return fault.state == "40001" or _CONFLICT.search(fault.text) is not None


def _lacks_resources(fault: Fault) -> bool:
    """Say whether the server lacks space, memory or connections, or is busy with itself, as Azure's may be."""
    return fault.number in _SHORTAGES or _SHORTAGE.search(fault.text) is not None


def _kind(fault: Fault) -> type[StorageError]:
    if _conflicts(fault):
        return TransactionConflictError
    if fault.state in _LOST:
        return ConnectionLostError
    if fault.state in _THERE or (fault.state == CONSTRAINT and _DUPLICATE.search(fault.text)):
        return AlreadyThereError
    if _NO_SCHEMA.search(fault.text):
        return SchemaNotFoundError
    return PermissionDeniedError if _DENIED.search(fault.text) else StorageError


def _refusal(fault: Fault, source: DataSource) -> tuple[str, bool]:
    """Say in words why there is no connection, and whether the same may work a moment later."""
    if fault.state == "28000":
        who = f"user {source.user!r}" if source.user else "this login"
        return f"the server refused {who}, or the password: {fault.text}", False
    if _NO_CATALOG.search(fault.text) or fault.state == "3D000":
        return f"there is no catalog {source.catalog!r}, or it may not be opened: {fault.text}", False
    for pattern, remedy in _REMEDIES:
        if pattern.search(fault.text):
            return f"{remedy}: {fault.text}", False
    if fault.state in _LOST or fault.state == "HYT00":
        return f"no SQL Server answers at {source.server} ({fault.text})", True
    return fault.text, True


def _number(error: Exception) -> int | None:
    args = arguments_of(error)
    if len(args) == 1 and isinstance(args[0], tuple):  # pymssql wraps what it gives when connecting
        args = cast("tuple[object, ...]", args[0])
    if args and isinstance(args[0], int):
        return args[0]
    if len(args) > 1 and isinstance(args[1], str):  # pyodbc: SQLSTATE, text with the number
        numbers = _NUMBER.findall(args[1])
        return int(numbers[0]) if numbers else None
    return None


def _state(error: Exception) -> str | None:
    phrase = attribute(error, "driver_error")
    if isinstance(phrase, str):
        unknown = _UNKNOWN_STATE.search(phrase)
        return unknown[1] if unknown else _PHRASES.get(phrase)
    first = next(iter(arguments_of(error)), None)
    return first if isinstance(first, str) and re.fullmatch(r"[0-9A-Z]{5}", first) else None


def _text(error: Exception) -> str:
    """Return what was said, in one line, without where it came from: it becomes a line of a log."""
    said = attribute(error, "ddbc_error") or attribute(error, "driver_error")
    if not isinstance(said, str) or not said:
        said = _last_text(arguments_of(error))
    return " ".join(_ORIGIN.sub("", said.strip()).split()) or type(error).__name__


def _last_text(args: tuple[object, ...]) -> str:
    last = args[-1] if args else ""
    if isinstance(last, tuple):
        return _last_text(cast("tuple[object, ...]", last))
    return last.decode("utf-8", "replace") if isinstance(last, bytes) else text_of(last)
