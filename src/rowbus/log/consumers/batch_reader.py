"""Reads one batch in chunks, so that memory is bounded however large the batch is.

Invariant: at most two chunks are held; when the last one is handed out no transaction is open any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from rowbus.database.postgresql.read_session import ReadSession
    from rowbus.log.consumers.table import ConsumerTable
    from rowbus.log.event import Batch, Event


class Chunk(NamedTuple):
    """Some of a batch's events, in order; `last` when there are no more."""

    events: list[Event]
    last: bool


async def read_batch(
    session: ReadSession, table: ConsumerTable, batch: Batch, *, after: int | None, size: int
) -> AsyncGenerator[Chunk]:
    """Give a batch's events, those after one or all, in chunks of `size`; at least one chunk, perhaps empty.

    A chunk is fetched before the one ahead of it is handed out. To be closed if it is left early.
    """
    fetch = table.fetch_batch(size)
    try:
        events = await session.open(table.open_batch(batch.id, after), fetch)
        while len(events) == size and (following := await session.fetch(fetch)):
            yield Chunk(events, last=False)
            events = following
    finally:
        await session.end()
    yield Chunk(events, last=True)
