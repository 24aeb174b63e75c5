"""Output of the commands: tables for people, JSON for programs, paragraphs for errors.

Invariant: text from messages never controls the terminal, nor forges a line or a cell: what is not printable is shown
escaped (`rowbus.errors.strangers`), in JSON as JSON does it, so that programs read it as it was.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

import typer

from rowbus.errors.strangers import LONGEST_VALUE, printable, printable_lines
from rowbus.running.loggers import EscapingFormatter, JsonFormatter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LAST_OF_FOUR_DIGITS = 0xFFFF  # what JSON escapes as one \u1234; json.dumps leaves DEL as it is
WIDTH_OF_PIPES = 200  # columns of a table that goes to a file or another program


class LogFormat(Enum):
    """The form of log lines."""

    TEXT = "text"
    JSON = "json"


def say(text: str) -> None:
    """Print a result of one line."""
    typer.echo(printable(text))


def show_text(text: str) -> None:
    """Print text of several lines; names and values from messages stand in it as `printable` gives them."""
    typer.echo(printable_lines(text))


def complain(text: str) -> None:
    """Print one paragraph on the standard error."""
    typer.echo(f"rowbus: {printable(' '.join(text.split()))}", err=True)


def show_json(value: object) -> None:
    r"""Print a value as JSON; moments in ISO 8601, spans in seconds, what is not printable as `\u0085`."""
    show_written_json(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def show_written_json(text: str) -> None:
    """Print JSON as it is written, its numbers letter for letter; what is not printable is escaped."""
    typer.echo("\n".join(map(_escaped_as_json, text.split("\n"))))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, each cell a line of its own; a column whose name ends in `#` is aligned to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.rstrip("#"), justify="right" if column.endswith("#") else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(str(cell), LONGEST_VALUE)) for cell in row))
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    Console(width=WIDTH_OF_PIPES if piped else None).print(table)


def show_logs(level: int, form: LogFormat = LogFormat.TEXT, *, whole_tracebacks: bool = False) -> None:
    """Log to the standard error from this level on, unless the program has set up its own logging.

    Tracebacks are brief unless they are wanted whole.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonFormatter()
        if form is LogFormat.JSON
        else EscapingFormatter(
            "%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s", is_wanted=whole_tracebacks
        )
    )
    logging.basicConfig(handlers=[handler])
    logger = logging.getLogger("rowbus")
    if logger.level == logging.NOTSET or logger.level > level:
        logger.setLevel(level)


def _escaped_as_json(line: str) -> str:
    """Return a line of JSON, which names its own controls already, with the rest of what is not printable escaped."""
    if line.isprintable():
        return line
    return "".join(letter if letter.isprintable() else _json_escape(letter) for letter in line)


def _json_escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) <= LAST_OF_FOUR_DIGITS else json.dumps(letter)[1:-1]


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
