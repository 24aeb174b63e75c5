"""Batches of T-SQL on a driver's connection, one after another: marks, parameters, answers, and their interruption.

Every parameter is sent as nvarchar(max) or varbinary(max), where the driver is Microsoft's: left alone it sizes a
parameter after its value, and the server would make a plan for each length of a message.

Another thread may interrupt a call of the driver, the one thing that may be done to a connection from beside it. ODBC
allows it while a statement is at work, and only then: a driver that is asked to cancel what is just being freed reads
memory that is gone, and takes the process down. Microsoft's frees a statement's handle also by itself, at the end of a
call that failed, as one that is interrupted does.

Invariants: an answer is read to its end before the next batch is sent, because the connection carries one at a time and
an error may follow the rows; no handle is freed while it is cancelled, and none is cancelled that was freed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakMethod

from rowbus.database.adaptation import KnownColumns
from rowbus.database.sqlserver import driver
from rowbus.database.sqlserver.faults import (
    CONSTRAINT,
    NO_COLUMN,
    is_connection_loss,
    missing_table,
    translate,
)
from rowbus.database.sqlserver.statements import (
    adapt,
    as_prepared,
    as_procedure,
    percent_marks,
    preparation,
    values,
)
from rowbus.database.sqlserver.transactions import COMMIT, COMMITTED, FAILED
from rowbus.database.statements import Query
from rowbus.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    from rowbus.database.sqlserver.driver import DriverConnection, DriverCursor
    from rowbus.database.statements import Adaptation, Row, Rows, Statement
    from rowbus.errors import RowbusError


T = TypeVar("T")

MOST_PREPARED = 16  # cursors, each of which keeps its last statement prepared
COPIED_AT_ONCE = (256, 64, 16, 4, 1)  # rows of one statement: few texts, of which each is prepared once
MOST_COPIED = 1024 * 1024  # characters and bytes of one statement's rows
LOOKS_AGAIN = 4  # how often a look at the catalogue is repeated
_Size = tuple[int, int, int]
_WIDE_TEXT: _Size = (-9, 0, 0)  # SQL_WVARCHAR without a length: nvarchar(max)
_WIDE_BINARY: _Size = (-3, 0, 0)  # SQL_VARBINARY: varbinary(max)
_CATALOGUE = b" sys."
_ABOUT_COLUMNS = frozenset({NO_COLUMN, CONSTRAINT})  # errors 207 and 515
_ROW = b"(?, ?, ?, convert(varbinary(max), ?))"  # of a `copy`, which is repeated for each
_DRIVER_NAME = 6  # SQL_DRIVER_NAME, which ODBC knows without asking the server
Fields = tuple[str | bytes, ...]
_PERCENT = frozenset({"pymssql"})  # drivers whose mark is %s

_COMMITTING = Query(COMMIT.encode(), COMMIT.encode(), (), "The transaction failed")


class Interruption:
    """Makes, frees and interrupts the cursors of one connection."""

    def __init__(self, connection: DriverConnection) -> None:
        """Begin without a cursor. No I/O."""
        self._connection = connection
        self._lock = Lock()
        self._cursor: Any = None  # the one at work
        self._is_over = False

    def cursor(self) -> DriverCursor:
        """Make a cursor, whose handle the driver frees only while nobody cancels."""
        cursor: Any = self._connection.cursor()
        reset = getattr(cursor, "_reset_cursor", None)  # mssql-python's, after an error
        if reset is not None:
            cursor._reset_cursor = partial(self._undisturbed, WeakMethod(reset))  # noqa: SLF001 - no public one
        made: DriverCursor = cursor
        return made

    def begin(self, cursor: DriverCursor) -> DriverCursor:
        """Note which cursor is at work from now on, and return it."""
        self._cursor = cursor
        return cursor

    def free(self, cursor: DriverCursor) -> None:
        """Close a cursor; one of a broken connection may refuse, and is gone all the same."""
        with self._lock:
            if self._cursor is cursor:
                self._cursor = None
            with suppress(Exception):  # every driver has errors of its own, and none of them matters here
                cursor.close()

    def interrupt(self) -> None:
        """Ask the server to give up what it is doing, from another thread; where the driver can, and if it does."""
        with self._lock:
            if self._is_over:
                return
            handle = getattr(self._cursor, "hstmt", None)  # mssql-python's; it has no public verb for this
            cancel = getattr(handle, "_cancel", None) or getattr(self._cursor, "cancel", None)
            if cancel is not None:
                cancel()

    def end(self) -> None:
        """Let nobody interrupt from now on, because the connection is about to be closed."""
        with self._lock:
            self._is_over = True

    def _undisturbed(self, reset: Callable[[], Callable[[], object] | None]) -> None:
        with self._lock:
            work = reset()
            if work is not None:
                work()


class Answer(NamedTuple):
    """One of the answers to a batch: the columns as the driver describes them, the rows, how many rows it touched."""

    description: Any
    rows: Sequence[Any]
    touched: int


class Together(NamedTuple):
    """The outcome of a batch of `together`: whether its transaction was committed, the rows received, the error."""

    committed: bool
    rows: Rows
    error: RowbusError | None


class Batches:
    """Runs batches on a connection, in the transaction it is in. Blocks; not for concurrent use."""

    def __init__(self, connection: DriverConnection) -> None:
        """Use a connection of the DB-API; what it takes for a mark goes by its module."""
        self.known_columns = KnownColumns()
        """The server's word on the columns of tables."""
        self.interruption = Interruption(connection)
        """The means by which another thread reaches a call in progress."""
        self._connection = connection
        self._module = type(connection).__module__.partition(".")[0]
        self._prepared: dict[str, DriverCursor] = {}
        self._plain: DriverCursor | None = None
        self._handles: dict[bytes, int] = {}  # of statements that the server keeps prepared, by their texts
        self.lost = False
        """Whether the connection was seen to be gone."""

    def run(self, statement: Statement[T]) -> T:
        """Run one statement, in the form that fits its table, and decode its answer.

        Raises a `RowbusError` naming what failed.
        """
        with self._adapting(statement.query) as query:
            rows = self.rows(query, values(statement._replace(query=query)))
        return statement.decode(rows, len(rows))

    def rows(self, query: Query, parameters: Sequence[str | bytes]) -> Rows:
        """Run one query and return the rows of its last answer that has any columns.

        A look at the catalogue, which on Babelfish fails while another session drops a table, is repeated.
        """
        for _look in range(LOOKS_AGAIN):
            try:
                return self._rows(query, parameters)
            except StorageError as error:
                if error.sqlstate != NO_COLUMN or _CATALOGUE not in query.text:
                    raise
        return self._rows(query, parameters)

    def _rows(self, query: Query, parameters: Sequence[str | bytes]) -> Rows:
        text = query.text.decode()

        def execute(cursor: DriverCursor) -> Rows:
            if not parameters:
                cursor.execute(text)
            else:
                self._size(cursor, parameters)
                cursor.execute(self._marked(text), parameters)
            return _last_rows(cursor)

        return self._with_cursor(execute, query, text if parameters and query.prepare else None)

    def copy(self, query: Query, rows: Iterable[Row]) -> None:
        """Run a query for rows, whose fields are its values in order behind the row's place: many at a time."""
        with self._adapting(query) as fitted:
            for chunk in _chunks(rows):
                text = fitted.text.replace(_ROW, b", ".join([_ROW] * len(chunk)))
                fields = [field for place, row in enumerate(chunk) for field in (str(place), *row)]
                self.rows(fitted._replace(text=text), fields)

    def control(self, text: str) -> Rows:
        """Run a batch of transaction control, or one that asks about it, and return its rows."""
        return self.rows(Query(text.encode(), text.encode(), (), "The transaction failed"), ())

    def fitted(self, statement: Statement[T]) -> Statement[T]:
        """Return a statement in the form that fits its table, asking the server what it has, if it has not said so."""
        adaptation = statement.query.adaptation
        if adaptation is None:
            return statement
        self._learn(adaptation)
        fitting = self.known_columns.fitting(statement.query)
        return statement._replace(query=fitting._replace(adaptation=adaptation))

    def _learn(self, adaptation: Adaptation) -> None:
        if not self.known_columns.knows(adaptation.table):
            self.known_columns.learn(adaptation.table, self.run(adaptation.probe))

    def prepared(self, statement: Statement[object]) -> str:
        """Return a call of a statement that the server keeps prepared: Babelfish is long over each text it reads.

        Its values are of the same kinds each time. Where it cannot be prepared, the call fails in its own place.
        """
        text = statement.query.native
        if text not in self._handles:
            try:
                ((handle,),) = self.control(preparation(statement))
            except StorageError:
                return as_procedure(statement)
            self._handles[text] = int(handle)
        return as_prepared(self._handles[text], statement)

    def together(self, text: str, queries: Sequence[Query]) -> Together:
        """Run a batch of `together`, whose statements have these queries, the receive's last; returns an error."""
        cursor: DriverCursor | None = None
        committed, failed = False, len(queries) - 1
        rows: Rows = ()
        try:
            cursor = self._cursor(None)
            cursor.execute(text)
            for answer in _each(cursor):
                name = answer.description[0][0].lower() if answer.description else ""
                committed = committed or name == COMMITTED
                failed = int(answer.rows[0][0]) if name == FAILED else failed
                rows = [tuple(row) for row in answer.rows] if name else rows
        except Exception as error:  # noqa: BLE001 - every driver has errors of its own, and they raise others too
            self.lost = self.lost or is_connection_loss(error)
            self._forget(cursor)
            is_known = committed or failed < len(queries) - 1
            query = queries[failed] if is_known else _missing(error, queries[:-1])
            ours = translate(error, query)
            self._misfit(query, ours)
            ours.__cause__ = error
            return Together(committed, rows, ours)
        return Together(committed, rows, None)

    def _misfit(self, query: Query, error: RowbusError) -> None:
        """Ask for a table's columns again if a statement failed on one."""
        if (
            query.adaptation is not None
            and isinstance(error, StorageError)
            and error.sqlstate in _ABOUT_COLUMNS
        ):
            table = query.adaptation.table
            known = self.known_columns
            (known.forget if known.shows(table) else known.misfitted)(table)

    def answers(self, operation: str, parameters: Sequence[object]) -> list[Answer]:
        """Run a handler's batch, marks and parameters in the driver's own form; raises the driver's errors."""
        cursor = self.interruption.begin(self.interruption.cursor())
        try:
            cursor.execute(operation, *parameters)
            return _read(cursor)
        except Exception as error:
            self.lost = self.lost or is_connection_loss(error)
            raise
        finally:
            self.interruption.free(cursor)

    def close(self) -> None:
        """Give up the cursors; the connection remains."""
        for cursor in (*self._prepared.values(), *((self._plain,) if self._plain else ())):
            self.interruption.free(cursor)
        self._prepared.clear()
        self._plain = None

    @contextmanager
    def _adapting(self, query: Query) -> Generator[Query]:
        """Give the query that fits its table, asking the server what it has; after a misfit it is asked again."""
        adaptation = query.adaptation
        if adaptation is None:
            yield query
            return
        known, table = self.known_columns, adaptation.table
        self._learn(adaptation)
        try:
            yield known.fitting(query)
        except StorageError as error:
            self._misfit(query, error)
            raise
        known.worked(table)

    def _with_cursor(self, use: Callable[[DriverCursor], T], query: Query, prepared: str | None) -> T:
        """Have a cursor used; raises our error for the driver's, noting what it means for the connection."""
        cursor = None
        try:
            cursor = self._cursor(prepared)
            return use(cursor)
        except Exception as error:  # every driver has errors of its own, and they raise others too
            self.lost = self.lost or is_connection_loss(error)
            self._forget(cursor)
            raise translate(error, query) from error

    def _cursor(self, prepared: str | None) -> DriverCursor:
        """Return the cursor that keeps a statement prepared, or the one for everything else; it begins to work."""
        if prepared is None:
            self._plain = self._plain or self.interruption.cursor()
            return self.interruption.begin(self._plain)
        cursor = self._prepared.pop(prepared, None) or self.interruption.cursor()
        self._prepared[prepared] = cursor  # the last in order is the last used
        if len(self._prepared) > MOST_PREPARED:
            self.interruption.free(self._prepared.pop(next(iter(self._prepared))))
        return self.interruption.begin(cursor)

    def _size(self, cursor: Any, parameters: Sequence[object]) -> None:  # noqa: ANN401 - not all have the verb
        """Give Microsoft's drivers the types and sizes of the parameters; leave them to the others.

        FreeTDS below pyodbc takes a size of 0 at its word and sends empty bytes; pymssql writes values into the text.
        """
        if self._sizes:
            sizes = [_WIDE_BINARY if isinstance(value, bytes) else _WIDE_TEXT for value in parameters]
            cursor.setinputsizes(sizes)

    @cached_property
    def _sizes(self) -> bool:
        connection: Any = self._connection
        return self._module == driver.MODULE or (
            self._module == "pyodbc" and "msodbcsql" in str(connection.getinfo(_DRIVER_NAME)).lower()
        )

    def _marked(self, text: str) -> str:
        return percent_marks(text) if self._module in _PERCENT else text

    def _forget(self, failed: DriverCursor | None) -> None:
        """Do not use a cursor again that failed: what it has prepared may be what was wrong."""
        if failed is None:
            return
        self._handles.clear()
        self._prepared = {text: cursor for text, cursor in self._prepared.items() if cursor is not failed}
        self._plain = None if self._plain is failed else self._plain
        self.interruption.free(failed)


def _missing(error: Exception, last: Sequence[Query]) -> Query:
    """Return whose queue is missing, where the batch has not said what failed, as on Babelfish; else the commit.

    It ends there before its `catch` is reached: by the name of what is missing, small or cut as it may be.
    """
    name = missing_table(error)
    if name is None:
        return _COMMITTING
    named = [each for each in last if each.queue is not None]
    fitting = [each for each in named if _table_of(each).startswith(name)]
    return (fitting or named or [_COMMITTING])[0]


def _table_of(query: Query) -> str:
    return (query.queue or "").partition("@")[0].lower()


def _last_rows(cursor: DriverCursor) -> Rows:
    """Read all answers, so that late errors surface, and return the rows of the last that has columns."""
    rows: list[Row] = []
    for answer in _read(cursor):
        rows = [tuple(row) for row in answer.rows] if answer.description else rows
    return rows


def _read(cursor: DriverCursor) -> list[Answer]:
    return list(_each(cursor))


def _each(cursor: DriverCursor) -> Iterator[Answer]:
    while True:
        rows = cursor.fetchall() if cursor.description else ()
        yield Answer(cursor.description, rows, cursor.rowcount)
        if not cursor.nextset():
            return


def _chunks(rows: Iterable[Row]) -> Iterator[list[Fields]]:
    remaining = iter(rows)
    while some := _next(remaining):
        while some:
            most = next(size for size in COPIED_AT_ONCE if size <= len(some))
            yield some[:most]
            del some[:most]


def _next(rows: Iterator[Row]) -> list[Fields]:
    """Return as many of the next rows as one statement may have."""
    some, left = list[Fields](), MOST_COPIED
    for row in rows:
        some.append(tuple(map(adapt, row)))
        left -= sum(map(len, some[-1]))
        if left < 0 or len(some) == COPIED_AT_ONCE[0]:
            break
    return some
