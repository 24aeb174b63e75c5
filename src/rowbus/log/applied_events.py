"""Exactly once into another database: the target remembers what has been applied, in the transaction that applies it.

A consumer's position commits after the target's transaction; a crash between the two delivers the same batch again,
under the same id, and the target knows it. Needs schema `pgq_ext` in the target, which `rowbus log install` makes.

Invariant: nothing is committed here; what is noted exists when the caller's transaction commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.postgresql.borrowed import borrow, borrow_async
from rowbus.log.applied import AppliedTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.log.event import Batch, Event


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
