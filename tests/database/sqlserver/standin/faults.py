"""PostgreSQL's errors as SQL Server's: number, SQLSTATE of its ODBC driver, and text; and how they reach Python.

Invariant: what leaves this package is an exception of `mssql_python`, of the class and with the wording it would have.
"""

from __future__ import annotations

import re

import psycopg
from mssql_python import exceptions as driver

GOES_ON = frozenset({2627, 515, 547, 8134})
"""Errors that end their statement only: the batch goes on with the next."""
ENDS_TRANSACTION = frozenset({1205, 3960})


class Fault(Exception):  # noqa: N818 - SQL Server's word
    """An error as the server reports it."""

    def __init__(self, number: int, text: str, state: str = "42000") -> None:
        super().__init__(text)
        self.number = number
        self.text = text
        self.state = state


class Gone(Exception):  # noqa: N818 - it says so
    """The connection to the server is lost."""


_THERE = (2714, "42S01", "There is already an object named '{}' in the database.")
_FAULTS = {  # PostgreSQL's SQLSTATE: number, the driver's SQLSTATE, words around what PostgreSQL quotes
    "42P01": (208, "42S02", "Invalid object name '{}'."),
    "3F000": (208, "42S02", "Invalid object name '{}'."),
    "42703": (207, "42S22", "Invalid column name '{}'."),
    "42P07": _THERE,
    "42710": _THERE,
    "42P06": _THERE,
    "23502": (515, "23000", "Cannot insert the value NULL into column '{}', table 'x'; INSERT fails."),
    "23503": (547, "23000", "The statement conflicted with the FOREIGN KEY constraint."),
    "23505": (2627, "23000", "Violation of PRIMARY KEY constraint '{}'. Cannot insert duplicate key."),
    "23514": (547, "23000", "The statement conflicted with the CHECK constraint."),
    "40P01": (
        1205,
        "40001",
        "Transaction was deadlocked on lock resources and has been chosen as the deadlock victim.",
    ),
    "40001": (3960, "40001", "Snapshot isolation transaction aborted due to update conflict."),
    "42501": (
        229,
        "42000",
        "The SELECT permission was denied on the object '{}', database 'x', schema 'dbo'.",
    ),
    "22012": (8134, "22012", "Divide by zero error encountered."),
    "22003": (8115, "22003", "Arithmetic overflow error converting expression to data type int."),
    "22001": (2628, "22001", "String or binary data would be truncated."),
    "22P02": (245, "22018", "Conversion failed when converting the value."),
    "22007": (241, "22007", "Conversion failed when converting date and/or time from character string."),
    "55P03": (1222, "HYT00", "Lock request time out period exceeded."),
    "42601": (102, "42000", "Incorrect syntax near '{}'."),
}


def fault_of(error: psycopg.Error) -> Fault:
    """Return the fault that the server would report for what PostgreSQL said."""
    text = error.diag.message_primary or str(error)
    number, state, words = _FAULTS.get(error.sqlstate or "", (50000, "42000", "{}"))
    quoted = re.search(r'"([^"]*(?:"\."[^"]*)*)"', text)
    return Fault(number, words.format(quoted[1] if quoted else text), state)


def raised(fault: Fault) -> driver.Exception:
    """Return the exception that the driver raises for a fault."""
    text = f"[Microsoft][ODBC Driver 18 for SQL Server][SQL Server]{fault.text}"
    return driver.sqlstate_to_exception(fault.state, text) or driver.DatabaseError(
        f"An error occurred with SQLSTATE code: {fault.state}", text
    )


def lost() -> driver.Exception:
    """Return the exception that the driver raises when the server is gone."""
    found = driver.sqlstate_to_exception(
        "08S01", "[Microsoft][ODBC Driver 18 for SQL Server]TCP Provider: Error code 0x68"
    )
    assert found is not None
    return found
