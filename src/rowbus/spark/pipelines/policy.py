"""The fate of a query that failed: Rowbus's error in Spark's words, and whether to begin it again.

A query goes on from its checkpoint, so to begin it again is always safe; only some of it is of use. Pure functions of
the error and of how often the query has failed without a micro-batch between.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from rowbus import errors
from rowbus.errors import (
    AlreadyThereError,
    ConfigurationError,
    ConnectionLostError,
    ConsumerBusyError,
    LeaseLostError,
    PermissionDeniedError,
    RowbusError,
    SchemaNotFoundError,
    StorageError,
    TransactionConflictError,
)
from rowbus.running.backoff import doubling

FIRST_PAUSE: Final = 1.0  # seconds before a query is begun again, doubled for each failure …
LONGEST_PAUSE: Final = 60.0  # … up to this
TRIES: Final = 5
"""Times in a row that a query may fail of what may pass, or may not: a worker that died, an error of the database."""

_OURS: Final = re.compile(r"rowbus\.errors\.(\w+): (.*)")
JAVA_ENDED: Final = (
    "Spark's Java process has ended: it was killed, or ran out of memory. Nothing is lost; start the program again, "
    "which goes on from the checkpoint."
)
_UNANSWERED: Final = re.compile(r"An error occurred while calling \S+\s*")
_UNREADABLE: Final = ("AnalysisException", "ParseException")
_PASSES: Final = (ConnectionLostError, TransactionConflictError)
_MAY_PASS: Final = (StorageError, LeaseLostError)
_STAYS: Final = (AlreadyThereError, PermissionDeniedError, SchemaNotFoundError)


def explain(error: Exception) -> RowbusError:
    """Return Rowbus's error from Spark's message of forty lines, if there is one; else its first sentences."""
    if isinstance(error, RowbusError):
        return error
    text = str(error)
    if found := _OURS.findall(text):
        name, message = found[-1]
        kind = getattr(errors, name, StorageError)
        facts = (
            {"sqlstate": None, "transient": issubclass(kind, _PASSES)}
            if issubclass(kind, StorageError)
            else {}
        )
        return kind(message.strip(), **facts)
    if type(error).__name__ in _UNREADABLE:
        return ConfigurationError(f"Spark cannot read this: {text.splitlines()[0]}")
    if _is_java_gone(error):
        return StorageError(JAVA_ENDED, sqlstate=None, transient=False)
    return StorageError(f"Spark failed: {_first_lines(text)}", sqlstate=None, transient=False)


def _is_java_gone(error: Exception) -> bool:
    """Say whether a call of Java was not answered: what py4j raises then has no error of Java's."""
    name, text = type(error).__name__, str(error)
    unanswered = name == "Py4JError" and _UNANSWERED.fullmatch(text) is not None
    return unanswered or name == "Py4JNetworkError" or isinstance(error, ConnectionError)


class Failures(NamedTuple):
    """The failures of a query in a row, without a micro-batch between."""

    all: int = 0
    doubtful: int = 0
    """Those that may come again for ever, unlike a server that restarts."""

    def and_one(self, error: RowbusError) -> Failures:
        """Return these and one more."""
        return Failures(self.all + 1, self.doubtful + (not isinstance(error, _PASSES)))


def pause_before(error: RowbusError, failures: Failures) -> float | None:
    """Return how long to wait before a query that failed is begun again; None: it never would go on.

    What surely passes (a server that restarts) is waited for without end, and counts against nothing else.
    Another query of the same name may be the one that failed just now, so that counts from the second on.
    """
    if not isinstance(error, _PASSES) and (failures.doubtful > TRIES or not _may_pass(error, failures)):
        return None
    return doubling(failures.all, first=FIRST_PAUSE, most=LONGEST_PAUSE)


def _may_pass(error: RowbusError, failures: Failures) -> bool:
    if isinstance(error, ConsumerBusyError):
        return failures.all > 1
    return isinstance(error, _MAY_PASS) and not isinstance(error, _STAYS) and str(error) != JAVA_ENDED


def _first_lines(text: str) -> str:
    """Return the first lines at the margin, which a stack is not; of a Python traceback, its error."""
    said = text.rpartition("Traceback (most recent call last):")[2]
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line[0].isspace()]
    return " ".join(lines[:4])[:600] or "Spark gave no reason."
