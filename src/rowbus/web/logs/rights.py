"""What the database's role may do with the consumers of logs.

Invariant: asks the catalogue, and locks nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Statement, load

if TYPE_CHECKING:
    from rowbus.database.statements import Rows


class LogRights(NamedTuple):
    """Whether the role may do it; what a function that is missing would do, it may not."""

    may_replay: bool
    may_discard: bool
    may_discard_some: bool
    may_move: bool


def log_rights() -> Statement[LogRights]:
    """Ask what the role may do."""
    query = load("web/sql/postgresql/log_rights.sql", failing="Failed to look for privileges", prepare=False)
    return Statement(query, {}, _rights)


def _rights(rows: Rows, _count: int) -> LogRights:
    return LogRights(*(bool(granted) for granted in rows[0]))
