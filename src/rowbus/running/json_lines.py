"""Log lines as JSON, one object a line, for programs that collect them.

Invariant: each record is one line; a value that has no JSON is written as text.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final

from rowbus.errors.printable import traceback_of
from rowbus.running.handling import fields_in_hand

_OF_A_RECORD: Final = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName"}
)
"""What every record has; the rest is what a caller gave as `extra`."""


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
