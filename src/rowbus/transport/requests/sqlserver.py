"""The queues of answers, and the application lock by which each is owned.

Invariant: as in `table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.sqlserver.statements import load, truth
from rowbus.transport.requests import table

if TYPE_CHECKING:
    from rowbus.database.statements import Rows


class AnswerQueue(table.AnswerQueue):
    """Statements on one queue of answers."""

    loader = load

    def _owns(self, rows: Rows, count: int) -> bool:
        return truth(rows, count)
