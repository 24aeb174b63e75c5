"""Errors of the drivers, and ours that come of them; the texts are those the drivers were seen to give."""

from __future__ import annotations

import mssql_python.exceptions as microsoft
import pymssql

from rowbus.database.sqlserver.driver import parse
from rowbus.database.sqlserver.faults import drivers_fault, read, translate, translate_connecting
from rowbus.database.statements import Query
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
from tests.fixtures.every import every

QUERY = Query(b"", b"", (), "Failed to send message to Sales@[dbo]@[Shop]", "Sales@[dbo]@[Shop]")
SOURCE = parse("mssql://shop:secret@db/Sales")
FROM = "[Microsoft][ODBC Driver 18 for SQL Server]"


def from_microsoft(phrase: str, text: str) -> microsoft.Error:
    return microsoft.ProgrammingError(phrase, FROM + text)


def from_pymssql(number: int, text: str) -> pymssql.Error:
    said = f"{text}DB-Lib error message {number}, severity 16:\nGeneral SQL Server error\n"
    return pymssql.OperationalError(number, said.encode())


class PyodbcError(Exception):
    """As pyodbc's: the SQLSTATE, and the text with the number."""


def from_pyodbc(state: str, number: int, text: str) -> PyodbcError:
    return PyodbcError(state, f"[{state}] {FROM}[SQL Server]{text} ({number}) (SQLExecDirectW)")


MISSING = [
    from_microsoft("Base table or view not found", "[SQL Server]Invalid object name 'Sales'."),
    from_microsoft("Base table or view not found", '[SQL Server]relation "dbo.sales" does not exist'),
    from_microsoft("Syntax error or access violation", '[SQL Server]relation "dbo.sales" does not exist'),
    from_microsoft("Syntax error or access violation", '[SQL Server]relation "it"s.sales" does not exist'),
    from_pymssql(208, "Invalid object name 'Sales'."),
    from_pymssql(33557097, 'relation "dbo.sales" does not exist'),
    from_pyodbc("42S02", 208, "Invalid object name 'Sales'."),
    from_microsoft(
        "Server rejected the connection", "[SQL Server]Database 'Shop' does not exist. Make sure …"
    ),
]


@every("error", MISSING)
def test_a_missing_table_or_catalog_is_a_missing_queue(error: Exception) -> None:
    ours = translate(error, QUERY)
    assert isinstance(ours, QueueNotFoundError)
    assert ours.queue == QUERY.queue
    assert "rowbus queue create" in str(ours)


def test_a_view_of_the_systems_that_babelfish_lacks_is_no_missing_queue() -> None:
    said = '[SQL Server]relation "sys.dm_tran_locks" does not exist'
    assert not isinstance(
        translate(from_microsoft("Syntax error or access violation", said), QUERY), QueueNotFoundError
    )


@every(
    "error",
    [
        from_pymssql(207, "Invalid column name 'Recoverable'."),
        from_pymssql(33557097, 'column "recoverable" of relation "sales" does not exist'),
        from_microsoft("Syntax error or access violation", '[SQL Server]column "recoverable" does not exist'),
        from_pyodbc("42000", 33557097, "column sales.recoverable does not exist"),
    ],
)
def test_a_missing_column_is_known_by_number_or_by_babelfishs_words(error: Exception) -> None:
    assert read(error).state == "42S22"


def test_another_messages_words_are_no_fault_of_its_table() -> None:
    said = from_pymssql(245, 'Conversion failed: relation "dbo.sales" does not exist')
    assert read(said).state is None


def test_another_missing_table_says_what_to_do_about_it() -> None:
    ours = translate(MISSING[0], QUERY._replace(queue=None, remedy="run `rowbus schema install`."))
    assert str(ours) == f"{QUERY.failing}: run `rowbus schema install`."


@every(
    "error, kind, transient",
    [
        (
            from_microsoft("Serialization failure", "was deadlocked on lock resources"),
            TransactionConflictError,
            True,
        ),
        (from_pymssql(1205, "Transaction was deadlocked"), TransactionConflictError, True),
        (
            from_microsoft(
                "Syntax error or access violation",
                "[SQL Server]Snapshot isolation transaction aborted due to update conflict.",
            ),
            TransactionConflictError,
            True,
        ),
        (
            from_microsoft("Communication link failure", "TCP Provider: Error code 0x2746"),
            ConnectionLostError,
            True,
        ),
        (from_pymssql(20047, "DBPROCESS is dead or not enabled"), ConnectionLostError, True),
        (
            from_microsoft("Base table or view already exists", "There is already an object named 'Sales'"),
            AlreadyThereError,
            False,
        ),
        (from_pymssql(1913, "an index or statistics with name 'x' already exists"), AlreadyThereError, False),
        (
            from_microsoft("Integrity constraint violation", "Violation of PRIMARY KEY constraint 'x'."),
            AlreadyThereError,
            False,
        ),
        (from_pymssql(2601, "Cannot insert duplicate key row in object 'x'"), AlreadyThereError, False),
        (
            from_pymssql(1105, "Speicherplatz konnte nicht zugeordnet werden"),
            StorageError,
            True,
        ),  # in any language
        (from_pymssql(9002, "Das Transaktionsprotokoll ist voll"), StorageError, True),
        (
            from_microsoft(
                "Syntax error or access violation",
                'The specified schema name "x" either does not exist or you do not have permission to use it.',
            ),
            SchemaNotFoundError,
            False,
        ),
        (
            from_microsoft(
                "Syntax error or access violation",
                "[SQL Server]The INSERT permission was denied on the object 'Sales'",
            ),
            PermissionDeniedError,
            False,
        ),
        (
            from_microsoft("Syntax error or access violation", "permission denied for table sales"),
            PermissionDeniedError,
            False,
        ),
        (
            from_microsoft(
                "Integrity constraint violation", "Cannot insert the value NULL into column 'Body'"
            ),
            StorageError,
            False,
        ),
    ],
)
def test_an_error_becomes_ours_by_what_it_says(
    error: Exception,
    kind: type[RowbusError],
    transient: object,
) -> None:
    ours = translate(error, QUERY)
    assert type(ours) is kind
    assert isinstance(ours, StorageError)
    assert ours.transient is transient
    assert str(ours).startswith(f"{QUERY.failing}: ")


@every(
    "error, state",
    [
        (from_microsoft("Column not found", "Invalid column name 'Recoverable'."), "42S22"),
        (from_pymssql(207, "Invalid column name 'Recoverable'."), "42S22"),
        (from_pyodbc("42S22", 207, "Invalid column name 'Recoverable'."), "42S22"),
        (from_pymssql(515, "Cannot insert the value NULL into column 'Recoverable'"), "23000"),
        (microsoft.DatabaseError("An error occurred with SQLSTATE code: HY117", "odd"), "HY117"),
        (ValueError("integer is out of range"), None),
    ],
)
def test_the_sqlstate_is_told_whatever_the_driver(error: Exception, state: str | None) -> None:
    assert read(error).state == state


def test_where_an_error_came_from_is_left_out_of_its_text() -> None:
    error = from_microsoft("General error", "[SQL Server]It   did\nnot work.")
    assert str(translate(error, QUERY)) == f"{QUERY.failing}: It did not work."


@every(
    "error, said, transient",
    [
        (
            from_microsoft(
                "Invalid authorization specification", "[SQL Server]Login failed for user 'shop'."
            ),
            "refused user 'shop', or the password",
            False,
        ),
        (
            from_microsoft(
                "Syntax error or access violation",
                '[SQL Server]Cannot open database "Sales" requested by the login. The login failed.',
            ),
            "no catalog 'Sales'",
            False,
        ),
        (
            from_microsoft("Syntax error or access violation", '[SQL Server]database "Sales" does not exist'),
            "no catalog 'Sales'",
            False,
        ),
        (
            from_microsoft(
                "Client unable to establish connection", "Encryption not supported on SQL Server."
            ),
            "`?encrypt=no`",
            False,
        ),
        (
            from_microsoft(
                "Client unable to establish connection",
                "SSL Provider: [error:0A000086:SSL routines::certificate verify failed:self-signed]",
            ),
            "`?server_certificate=/path/to/it.pem`",
            False,
        ),
        (
            from_microsoft(
                "Client unable to establish connection",
                "Invalid value specified for connection string attribute 'TrustServerCertificate'",
            ),
            "an option of its URL has a value that the driver does not know",
            False,
        ),
        (
            from_microsoft("Client unable to establish connection", "TCP Provider: Error code 0x2749"),
            "no SQL Server answers at db:1433",
            True,
        ),
    ],
)
def test_a_connection_that_cannot_be_made_says_why(error: Exception, said: str, transient: object) -> None:
    ours = translate_connecting(error, SOURCE)
    assert isinstance(ours, ConnectionLostError)
    assert ours.transient is transient
    assert str(ours).startswith("Could not connect to Sales on db:1433: ")
    assert said in str(ours)
    assert "secret" not in str(ours)


def test_a_missing_library_is_named_with_the_command_that_installs_it() -> None:
    error = from_microsoft(
        "Connection operation failed", "Failed to load the driver. Please read the documentation"
    )
    ours = translate_connecting(error, SOURCE)
    assert isinstance(ours, ConfigurationError)
    assert "apt-get install libltdl7" in str(ours)


def test_what_a_driver_raises_to_others_is_told_from_what_is_not_its_own() -> None:
    modules = frozenset({"mssql_python"})
    assert isinstance(drivers_fault(MISSING[0], modules), StorageError)
    assert drivers_fault(from_pymssql(208, ""), modules) is None
    assert drivers_fault(ValueError(), modules) is None


def test_our_own_errors_stay_as_they_are() -> None:
    ours = QueueNotFoundError("", queue="x")
    assert translate(ours) is ours
    assert translate_connecting(ours, SOURCE) is ours
