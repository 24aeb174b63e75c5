"""Applied events: the statements on schema `pgq_ext` of a target database, which remembers what a consumer has applied.

Invariant: the note commits with the applied work, so that it is not applied again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Statement, scalar
from rowbus.log.queries import log_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Decode, Rows, T


class AppliedTable:
    """Statements of one consumer, in the transaction that applies what it is given."""

    def __init__(self, consumer: str, subconsumer: str = "") -> None:
        """Bind the SQL files to names. No I/O."""
        self._names = {"consumer": consumer, "subconsumer": subconsumer}

    def _once(self, operation: str, decode: Decode[T], **parameters: object) -> Statement[T]:
        failing = f"Could not note what {self._names['consumer']} has applied"
        return Statement(log_query(f"applied/{operation}", failing), {**self._names, **parameters}, decode)

    def is_batch_done(self, batch: int) -> Statement[bool]:
        """Ask whether a batch is the last one applied."""
        return self._once("is_batch_done", scalar, batch=batch)

    def set_batch_done(self, batch: int) -> Statement[bool]:
        """Note that a batch is applied; false if it was before."""
        return self._once("set_batch_done", scalar, batch=batch)

    def set_events_done(self, batch: int, events: Sequence[int]) -> Statement[set[int]]:
        """Note that events are applied, and answer which were not before."""
        return self._once("set_events_done", _ids, batch=batch, events=list(events))

    def get_last_tick(self) -> Statement[int | None]:
        """Ask for the last tick applied; None if there is none."""
        return self._once("get_last_tick", scalar)

    def set_last_tick(self, tick: int | None) -> Statement[int]:
        """Note the last tick applied; None forgets it."""
        return self._once("set_last_tick", scalar, tick=tick)


def _ids(rows: Rows, _count: int) -> set[int]:
    return {number for (number,) in rows}
