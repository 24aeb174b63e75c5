"""Looks up a captured table for the option `changes`; every reason why its changes cannot be read is one sentence.

Invariant: only the catalogue is read, once, when a frame is loaded; nothing is locked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.log.consumers.table import log_not_found
from rowbus.spark.captured.source_table import describe_source_tables, locate_table
from rowbus.spark.log_source.snapshot_range import list_logs, may_read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.spark.captured.source_table import SourceTable, Whereabouts
    from rowbus.spark.log_source.options import LogSettings

_OVERRIDING: Final = ("ev_type=", "ev_data=", "ev_extra1=", "ev_extra2=")
_MAGIC: Final = "_pgq_ev_"  # columns of these names are an event's fields


def find_captured(table: str, settings: LogSettings) -> SourceTable:
    """Return a table captured into the log. Raises ConfigurationError, LogNotFoundError, StorageError."""
    [log] = settings.logs
    with Database(resolve_dsn(settings.dsn), application_name="rowbus spark schema").session() as session:
        _check_log(session, log, reads_here=settings.options["readDsn"] is None)
        captured = session.run(describe_source_tables(log))
        found = [each for each in captured if each.name == table]
        if not found:
            raise _not_captured(session, table, log, captured)
    _check(found, table, log)
    return found[0]


def _check_log(session: Session, log: str, *, reads_here: bool) -> None:
    states = session.run(list_logs([log]))
    if not states:
        raise log_not_found(log)
    allowed, role = session.run(may_read(states[0].current_table))
    if reads_here and not allowed:
        raise ConfigurationError(
            f'Role "{role}" may not read log "{log}"; `rowbus schema grants --log --receive` prints what it needs.'
        )


def _not_captured(
    session: Session, table: str, log: str, captured: Sequence[SourceTable]
) -> ConfigurationError:
    found = session.run(locate_table(table))
    there = ", ".join(sorted({each.name for each in captured})) or "no table"
    return ConfigurationError(
        f"Option 'changes': {_reason(found, table, log)}; captured into it is {there}.", option="changes"
    )


def _reason(found: Whereabouts, table: str, log: str) -> str:
    how = f"`rowbus log capture {table} --log {log} --arg backup`"
    if log in found.logs:
        return (
            f'{table} is captured into log "{log}" as a partitioned table, whose changes name its partitions'
        )
    if found.logs:
        others = " and ".join(f'"{other}"' for other in found.logs)
        return f'{table} is captured into {others}, not into log "{log}": read that, or capture it by {how}'
    if found.is_there:
        return f'{table} is not captured into log "{log}"; capture it by {how}'
    return f'there is no table {table} to capture into log "{log}"'


def _check(found: Sequence[SourceTable], table: str, log: str) -> None:
    if len(found) > 1:
        raise ConfigurationError(
            f"Option 'changes': {table} is captured into log \"{log}\" by {len(found)} triggers, so each change is "
            "there more than once; drop all but one of them.",
            option="changes",
        )
    how = _unreadable(found[0])
    if how is not None:
        raise ConfigurationError(
            f"Option 'changes': {table} is captured {how}, so its events do not show its rows; capture it with "
            "--format json and another --trigger into another log.",
            option="changes",
        )


def _unreadable(table: SourceTable) -> str | None:
    """Say what keeps events from showing the table's rows; None if nothing does."""
    magic = (f"with the column {each}" for each in table.columns if each.startswith(_MAGIC))
    return table.obstacle(_OVERRIDING) or next(magic, None)
