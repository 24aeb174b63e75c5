"""`rowbus log append`: one event, or one for each line of a file.

Invariant: all the events of one call are appended, or none.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rowbus.cli.log.options import LogName
from rowbus.cli.options import Database, Verbose
from rowbus.cli.output import complain, say
from rowbus.cli.queue.send import opened
from rowbus.cli.target import open_log_database
from rowbus.log.log import Log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def append(
    name: LogName,
    data: Annotated[
        str | None, typer.Argument(metavar="DATA", help="The data; - or nothing: read it from the input.")
    ] = None,
    *,
    type_: Annotated[str | None, typer.Option("--type", metavar="NAME", help="Type of the event.")] = None,
    extras: Annotated[
        list[str] | None,
        typer.Option("--extra", metavar="TEXT", help="extra1, then extra2 …; may be given four times."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", metavar="PATH", exists=True, dir_okay=False, help="Read the data from this file."
        ),
    ] = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Append each line that is not empty as an event; all or none.")
    ] = False,
    database: Database = None,
    _verbose: Verbose = False,
) -> None:
    """Append an event to a log, or one for each line of the input.

    The data is the argument, the content of --file, or the standard input; any text. Exit code 1: the log does not
    exist, or with --lines there was no line.
    """
    added = tuple(extras or ())
    if len(added) > 4:  # noqa: PLR2004 - extra1 to extra4
        raise typer.BadParameter("an event has four extras at most.", param_hint="--extra")
    with opened(data, file) as source, open_log_database(database).session() as session:
        log = Log(session.connection, name)
        if not lines:
            [extra1, extra2, extra3, extra4] = (*added, None, None, None, None)[:4]
            number = log.append(
                source.read(), type=type_, extra1=extra1, extra2=extra2, extra3=extra3, extra4=extra4
            )
            say(f"Appended event {number} to log {name}.")
            return
        count = log.append_many((type_, line, *added) for line in _lines(source))
    if not count:
        complain("there was no line to append")
        raise typer.Exit(1)
    say(f"Appended {count} {'event' if count == 1 else 'events'} to log {name}.")


def _lines(source: BinaryIO) -> Iterator[bytes]:
    for line in source:
        if data := line.rstrip(b"\r\n"):
            yield data
