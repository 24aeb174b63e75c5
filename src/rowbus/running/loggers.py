"""Loggers whose records messages cannot forge, every value escaped and capped; and log lines as JSON.

The logger does it, before any handler, so it holds for all handlers and formatters of a program.

Invariants: every logger that a module of Rowbus asks for is one of `NAMES`; a test compares them; each record is one
line; a value that has no JSON is written as text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from copy import copy
from datetime import UTC, datetime
from numbers import Number
from typing import Any, Final

from rowbus.errors.strangers import LONGEST_TEXT, brief_traceback_of, printable, printable_value, traceback_of
from rowbus.running.handling import fields_in_hand

NAMES: Final = (
    "rowbus",
    "rowbus.bridge",
    "rowbus.claims",
    "rowbus.cli",
    "rowbus.delaying",
    "rowbus.endpoint",
    "rowbus.history",
    "rowbus.inbox",
    "rowbus.install",
    "rowbus.lanes",
    "rowbus.log",
    "rowbus.maintenance",
    "rowbus.platform",
    "rowbus.receiving",
    "rowbus.recoverability",
    "rowbus.limits",
    "rowbus.recurring",
    "rowbus.requests",
    "rowbus.sagas",
    "rowbus.spark",
    "rowbus.subscriptions",
    "rowbus.telemetry",
    "rowbus.ticker",
    "rowbus.uniqueness",
    "rowbus.web",
    "rowbus.workers",
)


class Escaping(logging.Filter):
    """Makes the values of every record printable and writes its traceback; the exception itself stays.

    A record about a message or an event gets attributes that say so, as if its caller had given them as `extra`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Change a record in place, before its handlers see it."""
        if not record.args:
            record.msg = printable(str(record.msg), LONGEST_TEXT)
        elif isinstance(record.args, Mapping):
            record.args = {name: _shown(value) for name, value in record.args.items()}
        else:
            record.args = tuple(map(_shown, record.args))
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = traceback_of(record.exc_info[1])
        for name, value in fields_in_hand().items():
            if name not in vars(record):
                setattr(record, name, value)
        return True


class EscapingFormatter(logging.Formatter):
    """The command line's formatter: does the same for the records of other libraries and of users' handlers.

    A traceback is brief unless all of it `is_wanted`.
    """

    def __init__(self, form: str, *, is_wanted: bool = False) -> None:
        """Write lines of this form."""
        super().__init__(form)
        self._write = traceback_of if is_wanted else brief_traceback_of

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record, its traceback as this formatter writes it."""
        own = copy(record)
        own.exc_text = None  # of the logger
        return super().format(own)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        """Return the line of a record."""
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802, ANN401 - the base class's name, and a private type of its
        """Return the traceback of a record."""
        return super().formatException(ei) if ei[1] is None else self._write(ei[1])


def escape_all() -> None:
    """Have all of our loggers escape. Harmless when repeated."""
    for name in NAMES:
        logging.getLogger(name).addFilter(_ESCAPING)


_ESCAPING = Escaping()


class _PrintableValue:
    """A value in a record, made printable when the record is written."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return printable_value(self._value)

    def __repr__(self) -> str:
        return printable_value(self._value, repr)


def _shown(value: object) -> object:
    """Return a value that is safe to write: numbers, which a record may format as such, are."""
    return value if isinstance(value, Number) else _PrintableValue(value)


_OF_A_RECORD: Final = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
)
"""The attributes of every record; the rest is what a caller gave as `extra`."""


class JsonFormatter(logging.Formatter):
    """Writes a record with its time (UTC), level, logger, process, message, what it is about, and its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
            **fields_in_hand(),
            **{name: value for name, value in vars(record).items() if name not in _OF_A_RECORD},
        }
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = traceback_of(record.exc_info[1])
        return json.dumps(
            {name: value for name, value in line.items() if value not in {"", None}}, default=str
        )
