"""PostgreSQL's errors as SQL Server's: number, SQLSTATE of its ODBC driver, and text; and how they reach Python.

Invariant: what leaves this package is an exception of `mssql_python`, of the class and with the wording it would have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
from mssql_python import exceptions as driver

from tests.database.sqlserver.standin.rewriting import Flavour

if TYPE_CHECKING:
    from collections.abc import Callable

GOES_ON = frozenset({2627, 2601, 515, 547, 8134})
"""Errors that end their statement only: the batch goes on with the next."""
ENDS_TRANSACTION = frozenset({1205, 3960})


class Fault(Exception):  # noqa: N818 - SQL Server's word
    """An error as the server reports it."""

    def __init__(self, number: int, text: str, state: str | None = None) -> None:
        super().__init__(text)
        self.number = number
        self.text = text
        self.state = state or _STATES.get(number, "42000")


class Gone(Exception):  # noqa: N818 - it says so
    """The connection to the server is lost."""


_STATES = {
    208: "42S02",
    207: "42S22",
    2714: "42S01",
    1913: "42S11",
    3701: "42S02",
    515: "23000",
    547: "23000",
    2627: "23000",
    2601: "23000",
    1205: "40001",
    3960: "40001",
    8134: "22012",
    8115: "22003",
    2628: "22001",
    245: "22018",
    241: "22007",
    1222: "HYT00",
}


def _quoted(text: str) -> str:
    found = re.search(r'"([^"]*(?:"\."[^"]*)*)"', text)
    return found[1] if found else text


_WORDS: dict[str, tuple[int, Callable[[str], str]]] = {
    "42P01": (208, lambda text: f"Invalid object name '{_quoted(text)}'."),
    "42703": (207, lambda text: f"Invalid column name '{_quoted(text)}'."),
    "42P07": (2714, lambda text: f"There is already an object named '{_quoted(text)}' in the database."),
    "42710": (2714, lambda text: f"There is already an object named '{_quoted(text)}' in the database."),
    "42P06": (2714, lambda text: f"There is already an object named '{_quoted(text)}' in the database."),
    "42701": (2705, lambda _text: "Column names in each table must be unique."),
    "23502": (
        515,
        lambda text: (
            f"Cannot insert the value NULL into column '{_quoted(text)}', table 'x'; "
            "column does not allow nulls. INSERT fails."
        ),
    ),
    "23503": (547, lambda _text: "The statement conflicted with the FOREIGN KEY constraint."),
    "23505": (
        2627,
        lambda text: f"Violation of PRIMARY KEY constraint '{_quoted(text)}'. Cannot insert duplicate key.",
    ),
    "23514": (547, lambda _text: "The statement conflicted with the CHECK constraint."),
    "40P01": (
        1205,
        lambda _text: (
            "Transaction was deadlocked on lock resources and has been chosen as the deadlock victim."
        ),
    ),
    "40001": (3960, lambda _text: "Snapshot isolation transaction aborted due to update conflict."),
    "42501": (
        229,
        lambda text: (
            f"The SELECT permission was denied on the object '{text.rsplit(' ', 1)[-1]}', database 'x', schema 'dbo'."
        ),
    ),
    "22012": (8134, lambda _text: "Divide by zero error encountered."),
    "22001": (2628, lambda _text: "String or binary data would be truncated."),
    "22P02": (245, lambda _text: "Conversion failed when converting the value."),
    "22007": (241, lambda _text: "Conversion failed when converting date and/or time from character string."),
    "3F000": (
        2760,
        lambda text: (
            f'The specified schema name "{_quoted(text)}" does not exist, or you do not have permission to use it.'
        ),
    ),
    "55P03": (1222, lambda _text: "Lock request time out period exceeded."),
    "42601": (102, lambda text: f"Incorrect syntax near '{_quoted(text)}'."),
}


def fault_of(error: psycopg.Error, flavour: Flavour, verb: str) -> Fault:
    """Return the fault the server would report for what PostgreSQL said of a statement beginning with `verb`."""
    text = error.diag.message_primary or str(error)
    number, words = _WORDS.get(error.sqlstate or "", (50000, str))
    if number == 2714 and "index" in verb:
        number = 1913
    if number == 208 and verb.startswith("drop"):
        number = 3701
    if number == 2760 and not verb.startswith("create"):
        number = 208
    return Fault(number, text if flavour is Flavour.BABELFISH else words(text))


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
