"""The queues of answers, and the advisory lock by which each is owned.

Invariant: as in `table.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import load, scalar
from rowbus.transport.requests import table

if TYPE_CHECKING:
    from rowbus.database.statements import Rows


class AnswerQueue(table.AnswerQueue):
    """Statements on one queue of answers."""

    loader = load

    def _owns(self, rows: Rows, count: int) -> bool:
        owns: bool = scalar(rows, count)
        return owns
