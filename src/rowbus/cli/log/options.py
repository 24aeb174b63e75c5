"""Shared by the `rowbus log` commands: their arguments.

Invariant: a position that people type means the same to every command.
"""

from __future__ import annotations

from typing import Annotated

import typer

from rowbus.log.position import NOTATION, Position, read_position

LogName = Annotated[str, typer.Argument(metavar="LOG", help="A log, by its name.")]
AnyLog = Annotated[str | None, typer.Argument(metavar="LOG", help="Only this log.")]
ConsumerName = Annotated[str, typer.Argument(metavar="CONSUMER", help="A consumer of the log, by its name.")]
IntoLog = Annotated[str, typer.Option("--log", metavar="NAME", help="The log.")]


def position(text: str) -> Position:
    """Read a position as people type it."""
    try:
        return read_position(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of: {NOTATION}.") from None
