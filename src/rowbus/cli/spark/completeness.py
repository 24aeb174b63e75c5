"""`rowbus spark lake wait`: how far the tables of a lake are.

Invariant: only the lake's folder is read: it works where there is neither a database nor Spark.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rowbus.cli.options import Json, Verbose
from rowbus.cli.output import complain, say, show_json
from rowbus.cli.queue.send import time_span
from rowbus.cli.spark.lake import Folder, Tables

if TYPE_CHECKING:
    from rowbus.lake import Completeness


class TwoWords(TyperGroup):
    """Commands of which one has two words, and its first word is a command, too."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Typer's own, which it keeps to itself
        """Find the command of two words first."""
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)


def transaction_or_time(text: str) -> int | datetime:
    """Read a transaction's number, or a time."""
    try:
        return int(text) if text.isdecimal() else datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a transaction's number nor a time such as 2026-05-01T12:00 (UTC unless it says "
            "another zone).",
            param_hint="--until",
        ) from None


def wait(
    *,
    to: Folder,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME|TXID",
            help="A time, or the number of a transaction, as Log.position gives it.",
        ),
    ] = None,
    within: Annotated[
        timedelta | None,
        typer.Option("--within", metavar="SPAN", parser=time_span, help="Give up after: 30s. 0s: look once."),
    ] = None,
    tables: Tables = None,
    as_json: Json = False,
    _verbose: Verbose = False,
) -> None:
    """Wait until a lake's tables show a transaction, or all that was committed before a time; say how far they are.

    Without --until: only say it. Exit code 1: the tables do not show it within the span, or there are none.
    """
    from rowbus import lake
    from rowbus.spark.options import tables_named

    patterns = tables or ["*"]
    wanted = None if until is None else transaction_or_time(until)
    shown = wanted is None or asyncio.run(lake.visible(wanted, within=within, to=to, tables=patterns))
    known = lake.complete(to=to)
    found = {name: known[name] for pattern in patterns for name in tables_named(known, pattern)}
    if as_json:
        show_json({name: one._asdict() for name, one in found.items()})
    for name, one in () if as_json else found.items():
        say(f"{name} is complete up to {_told(one)}.")
    if not shown or not found:
        complain(
            f"the tables in {to} are not complete up to {until}; `rowbus spark lake LOG --to {to}` brings them up to "
            "the log's newest tick"
            if found
            else f"no table named {' or '.join(patterns)} is followed in {to}"
        )
        raise typer.Exit(1)


def _told(one: Completeness) -> str:
    return f"{one.time:%Y-%m-%d %H:%M:%S.%f} UTC" + ("" if one.tick is None else f", tick {one.tick}")
