"""Exactly once into another database: the target remembers what has been applied, in the transaction that applies it.

A consumer's position commits after the target's transaction; a crash between the two delivers the same batch again,
under the same id, and the target knows it. Needs schema `pgq_ext` in the target, which `rowbus log install` makes.

Invariants: nothing is committed here; what is noted exists when the caller's transaction commits; the note commits with
the applied work, so that it is not applied again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.database.statements import Statement, scalar
from rowbus.log.queries import log_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Decode, Rows, T
    from rowbus.log.event import Batch, Event


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


class Deduplication:
    """Notes in a target database what one consumer has applied there, through your synchronous connection to it.

    ```python
    with target.transaction():
        for event in rowbus.Deduplication(target, "revenue").new_events(context.batch, events):
            ...
    ```
    """

    def __init__(self, target: object, consumer: str, subconsumer: str = "") -> None:
        """Use a connection to the target, which stays yours; `consumer` may be any name unique in the target.

        Raises ConfigurationError for connections of other libraries.
        """
        self._borrowed = borrow(target)
        self._table = AppliedTable(consumer, subconsumer)

    def new_events(self, batch: Batch, events: Sequence[Event]) -> list[Event]:
        """Note that events of a batch are applied and return those that were not before: apply these.

        Right for every consumer, however its batches are cut into calls. Raises StorageError.
        """
        new = self._borrowed().run(self._table.set_events_done(batch.id, [event.id for event in events]))
        return [event for event in events if event.id in new]

    def is_batch_done(self, batch: Batch) -> bool:
        """Say whether a batch is the last one applied."""
        return self._borrowed().run(self._table.is_batch_done(batch.id))

    def set_batch_done(self, batch: Batch) -> bool:
        """Note that a whole batch is applied; false when it was before: then apply nothing.

        One row for a batch instead of one for an event; only for handlers that are called once for a batch, and never
        for part of one.
        """
        return self._borrowed().run(self._table.set_batch_done(batch.id))

    def last_tick(self) -> int | None:
        """Return the last tick noted with `set_last_tick`, None if there is none."""
        return self._borrowed().run(self._table.get_last_tick())

    def set_last_tick(self, tick: int | None) -> None:
        """Note up to which tick the log is applied, for programs that `read` it; None forgets it."""
        self._borrowed().run(self._table.set_last_tick(tick))


class AsyncDeduplication:
    """The asynchronous twin of `Deduplication`."""

    def __init__(self, target: object, consumer: str, subconsumer: str = "") -> None:
        """Use a connection to the target, which stays yours; see `Deduplication`."""
        self._borrowed = borrow_async(target)
        self._table = AppliedTable(consumer, subconsumer)

    async def new_events(self, batch: Batch, events: Sequence[Event]) -> list[Event]:
        """Note that events of a batch are applied and return those that were not; see `Deduplication.new_events`."""
        session = await self._borrowed()
        new = await session.run(self._table.set_events_done(batch.id, [event.id for event in events]))
        return [event for event in events if event.id in new]

    async def is_batch_done(self, batch: Batch) -> bool:
        """Say whether a batch is the last one applied."""
        return await (await self._borrowed()).run(self._table.is_batch_done(batch.id))

    async def set_batch_done(self, batch: Batch) -> bool:
        """Note that a whole batch is applied; see `Deduplication.set_batch_done`."""
        return await (await self._borrowed()).run(self._table.set_batch_done(batch.id))

    async def last_tick(self) -> int | None:
        """Return the last tick noted with `set_last_tick`, None if there is none."""
        return await (await self._borrowed()).run(self._table.get_last_tick())

    async def set_last_tick(self, tick: int | None) -> None:
        """Note up to which tick the log is applied; see `Deduplication.set_last_tick`."""
        await (await self._borrowed()).run(self._table.set_last_tick(tick))
