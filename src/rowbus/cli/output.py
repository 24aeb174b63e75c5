"""What the commands print: tables for people, JSON for programs, paragraphs for errors.

Invariant: text from messages never controls the terminal: what is not printable is shown escaped.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

WIDTH_OF_PIPES = 200  # columns of a table that goes to a file or another program


def say(text: str) -> None:
    """Print a result."""
    typer.echo(printable(text))


def complain(text: str) -> None:
    """Print one paragraph on the standard error."""
    typer.echo(f"rowbus: {printable(' '.join(text.split()))}", err=True)


def show_json(value: object) -> None:
    """Print a value as JSON; moments in ISO 8601, spans in seconds."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, its cells unabridged; a column whose name ends in `#` is aligned to the right."""
    from rich.console import Console  # noqa: PLC0415 - only tables need it, and `--help` shall be quick
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(
            column.rstrip("#"), justify="right" if column.endswith("#") else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    Console(width=WIDTH_OF_PIPES if piped else None).print(table)


def show_logs(level: int) -> None:
    """Log to the standard error from this level on, unless the program has set up its own logging.

    The driver warns, in several lines, of what it could not end on a connection that broke; the breaking itself is
    reported by us, in one.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s [%(process)d] %(name)s: %(message)s")
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    logger = logging.getLogger("rowbus")
    if logger.level == logging.NOTSET or logger.level > level:
        logger.setLevel(level)


def printable(text: str) -> str:
    """Escape what is not printable, but for line ends and tabs."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)
