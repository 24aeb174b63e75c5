"""One look of a slot at its queue: from where, for how many, and what the lower bound learns of it.

Invariant: what a look found is noted once, with the position and the time at which it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.transport.receiving.decisions.lower_bound import FROM_THE_START

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.message import MessageRow
    from rowbus.transport.queues.table import QueueTable
    from rowbus.transport.receiving.decisions.lower_bound import LowerBound


class Look:
    """One look at the queue: the statement, and the lower bound's bookkeeping."""

    def __init__(
        self,
        table: QueueTable,
        most: int,
        bound: LowerBound,
        started: float,
        *,
        most_bytes: int,
        passed_over: Sequence[int],
    ) -> None:
        """Begin a look at `started`, for messages up to so many bytes, but not for those at some positions."""
        self._bound = bound
        self._from = bound.claim()
        self._started = started
        self.found_nothing = False
        self.statement: Statement[list[MessageRow]] = table.receive(
            most, self._from, most_bytes=most_bytes, passed_over=passed_over
        )

    def saw(self, rows: list[MessageRow]) -> int:
        """Note what was found and return how many."""
        self._bound.looked(self._from, self._started, rows[-1].seq if rows else None)
        self.found_nothing = not rows and self._from == FROM_THE_START
        return len(rows)
