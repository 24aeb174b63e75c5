"""Reading rows as Arrow record batches: a COPY stream through ADBC, or psycopg's cursor where ADBC is not installed.

Memory is bounded: batches are handed on as they come. Of one session everything happens in one transaction, so that a
table that was read stays as it is (not emptied, not rewritten) until the session ends.

Invariant: batches have exactly the columns and types that were asked for, and no error of a driver leaves this module.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import psycopg
import pyarrow as pa
from psycopg.conninfo import make_conninfo

from rowbus.database.postgresql.database import CONNECT_TIMEOUT, Database, facts_of
from rowbus.database.postgresql.faults import SERVER_GONE, retrying, translate
from rowbus.errors import ConfigurationError, ConnectionLostError, RowbusError, StorageError
from rowbus.errors.extras import install_command
from rowbus.running.bounded import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from rowbus.database.statements import Query

CHUNK = 10_000  # rows that psycopg has in memory
ADBC = "adbc_driver_postgresql"
MOST_DATABASES = 16  # kept ready; one in use outlives being forgotten


class Access(NamedTuple):
    """The way to reach a database for reading."""

    dsn: str
    reader: str = "auto"
    """`adbc`, `psycopg`, or `auto`: ADBC where it is installed."""

    application_name: str = "rowbus spark"
    retries: int = 3
    """The number of times that connecting is tried again."""

    retry_wait: float = 0.1
    """Seconds before the first of these; doubled each time."""


class ArrowSession(Protocol):
    """One transaction that reads."""

    def value(self, query: Query) -> Any:  # noqa: ANN401 - the type of a column is known to the caller only
        """Return the one value of a query without parameters."""

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        """Stream the rows of a query without parameters."""
        ...


@contextmanager
def arrow_session(access: Access, prepare: Query) -> Generator[ArrowSession]:
    """Open a session whose transaction lasts as long as the block, and run `prepare` first.

    Raises ConnectionLostError when connecting fails again and again, ConfigurationError without the driver asked for.
    """
    opened = retrying(lambda: _open(access), retries=access.retries, first=access.retry_wait)
    with opened as session:
        session.value(prepare)
        yield session


def uses_adbc(reader: str) -> bool:
    """Say whether a kind of reader is ADBC here; raises ConfigurationError when it is asked for and missing."""
    installed = find_spec(ADBC) is not None
    if reader == "adbc" and not installed:
        raise ConfigurationError(f"reader=adbc needs `{install_command('spark')}`; there is reader=psycopg.")
    return installed and reader != "psycopg"


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Give a batch a schema's columns, in its order and with its types; columns it lacks are an error."""
    if batch.schema.equals(schema):
        return batch
    types: dict[str, pa.DataType] = dict(zip(schema.names, schema.types, strict=True))
    given: Any = batch  # its stubs are partial
    columns = [_cast(given.column(name), kind) for name, kind in types.items()]
    return pa.RecordBatch.from_arrays(columns, schema=schema)  # pyright: ignore[reportUnknownMemberType] - its stubs are partial


def _cast(column: pa.Array[Any], kind: pa.DataType) -> pa.Array[Any]:
    return column if column.type.equals(kind) else column.cast(kind)


def _open(access: Access) -> Any:  # noqa: ANN401 - a context manager of either kind of session
    return _AdbcSession(access) if uses_adbc(access.reader) else _PsycopgSession(access)


# -------------------------------------------------------------------------------------------------------- ADBC


_databases: dict[str, Any] = Bounded(MOST_DATABASES)
"""ADBC's databases of this process: making one reads the server's types, which takes as long as reading 40,000 rows."""


class _AdbcSession:
    def __init__(self, access: Access) -> None:
        from adbc_driver_manager import AdbcConnection  # noqa: PLC0415 - not installed everywhere

        with _adbc_errors("Could not connect for reading", connecting=True):
            self._connection = AdbcConnection(_adbc_database(access))
            self._connection.set_autocommit(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        with _adbc_errors("Could not end reading"):
            self._connection.close()

    def value(self, query: Query) -> Any:  # noqa: ANN401 - as in the protocol
        found: Any = next(self.batches(query), None)  # its stubs are partial
        return found.column(0)[0].as_py() if found else None

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        from adbc_driver_manager import AdbcStatement  # noqa: PLC0415 - not installed everywhere

        with _adbc_errors(query.failing), AdbcStatement(self._connection) as statement:
            statement.set_sql_query(query.native.decode())
            stream, _count = statement.execute_query()
            yield from pa.RecordBatchReader.from_stream(stream)


def _adbc_database(access: Access) -> Any:  # noqa: ANN401 - ADBC has no types
    facts = _facts(access)
    conninfo = make_conninfo("", **facts)
    found = _databases.get(conninfo)
    if found is None:
        adbc_driver_postgresql = import_module(ADBC)  # not installed everywhere
        found = adbc_driver_postgresql.connect(conninfo)
        if not _knows_types(found):
            unquoted = f"{facts.get('options', '')} -c quote_all_identifiers=off"
            found = adbc_driver_postgresql.connect(make_conninfo("", **facts | {"options": unquoted}))
        _databases[conninfo] = found
    return found


def _knows_types(database: Any) -> bool:  # noqa: ANN401 - ADBC has no types
    """Return whether ADBC knows the server's types: it finds none where a setting puts their names in quotes."""
    from adbc_driver_manager import AdbcConnection, AdbcStatement  # noqa: PLC0415 - not installed everywhere

    with AdbcConnection(database) as connection, AdbcStatement(connection) as statement:
        statement.set_sql_query("select 'known'")
        stream, _count = statement.execute_query()
        with pa.RecordBatchReader.from_stream(stream) as rows:
            return rows.schema.types == [pa.string()]


def _facts(access: Access) -> dict[str, Any]:
    facts = facts_of(access.dsn)
    facts.setdefault("application_name", access.application_name)
    facts.setdefault("connect_timeout", CONNECT_TIMEOUT)
    return {**facts, "client_encoding": "utf8"}


@contextmanager
def _adbc_errors(failing: str, *, connecting: bool = False) -> Generator[None]:
    from adbc_driver_manager import Error  # noqa: PLC0415 - not installed everywhere

    try:
        yield
    except (Error, pa.ArrowException, OSError) as error:
        raise _translated(error, failing, connecting=connecting) from error


def _translated(error: Exception, failing: str, *, connecting: bool) -> RowbusError:
    state = getattr(error, "sqlstate", None)
    text = " ".join(str(error).split())
    gone = connecting if state is None else state.startswith("08") or state in SERVER_GONE
    kind = ConnectionLostError if gone else StorageError
    return kind(f"{failing}: {text}", sqlstate=state, transient=gone)


# ----------------------------------------------------------------------------------------------------- psycopg


class _PsycopgSession:
    """Runs the server's own text: without parameters psycopg takes a text as it is, doubled percent signs included."""

    def __init__(self, access: Access) -> None:
        database = Database(access.dsn, application_name=access.application_name)
        try:
            self._connection = psycopg.connect(database.conninfo)
        except psycopg.Error as error:
            raise translate(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def value(self, query: Query) -> Any:  # noqa: ANN401 - as in the protocol
        try:
            row = self._connection.execute(query.native).fetchone()
        except psycopg.Error as error:
            raise translate(error, query) from error
        return None if row is None else row[0]

    def batches(self, query: Query) -> Iterator[pa.RecordBatch]:
        try:
            with self._connection.cursor("rowbus_batches") as cursor:
                cursor.execute(query.native, binary=True)
                schema = _schema(cursor.description or ())
                while rows := cursor.fetchmany(CHUNK):
                    yield _arrow(rows, schema)
        except psycopg.Error as error:
            raise translate(error, query) from error


def _arrow(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    types: list[pa.DataType] = schema.types
    columns = zip(types, zip(*rows, strict=True), strict=True)
    arrays: list[pa.Array[Any]] = [pa.array(values, kind) for kind, values in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)  # pyright: ignore[reportUnknownMemberType] - its stubs are partial


_TYPES: dict[int, Callable[[], pa.DataType]] = {
    16: pa.bool_,
    17: pa.binary,
    20: pa.int64,
    21: pa.int16,
    23: pa.int32,
    700: pa.float32,
    701: pa.float64,
    1184: lambda: pa.timestamp("us", tz="UTC"),
}
"""By PostgreSQL's number of the type; all others are text."""


def _schema(description: Any) -> pa.Schema:  # noqa: ANN401 - psycopg's columns
    return pa.schema([(column.name, _TYPES.get(column.type_code, pa.string)()) for column in description])
