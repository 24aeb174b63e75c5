"""Counts what a receiver asks the database for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowbus.settings import LARGEST_MESSAGE
from tests.conformance.transport import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Rows, Statement
    from rowbus.messages.message import MessageRow
    from rowbus.transport.queues.table import QueueTable
    from rowbus.transport.receiving.receiver import Receiver


class Spy:
    """The table of one receiver; its `peeks`, its receives, and how many of those found something or nothing."""

    def __init__(self, receiver: Receiver) -> None:
        self._table: QueueTable = receiver._table
        receiver._table = receiver._looks.table = self
        self.peeks = 0
        self.full = 0
        self.empty = 0

    @property
    def receives(self) -> int:
        return self.full + self.empty

    async def rounds_to_be_over(self) -> None:
        """Wait until nothing is under way: a receiver only peeks when its round is over."""
        peeks = self.peeks
        await eventually(lambda: self.peeks >= peeks + 2)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the table has
        return getattr(self._table, name)

    def count_available(self, most: int, lower_bound: int) -> Statement[int]:
        self.peeks += 1
        return self._table.count_available(most, lower_bound)

    def receive(
        self,
        most: int,
        lower_bound: int,
        *,
        most_bytes: int = LARGEST_MESSAGE,
        passed_over: Sequence[int] = (),
    ) -> Statement[list[MessageRow]]:
        statement = self._table.receive(most, lower_bound, most_bytes=most_bytes, passed_over=passed_over)

        def decode(rows: Rows, count: int) -> list[MessageRow]:
            self.full += bool(rows)
            self.empty += not rows
            return statement.decode(rows, count)

        return statement._replace(decode=decode)
