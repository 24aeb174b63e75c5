"""Places of keys on each PostgreSQL: what sessions take beside each other, and when it is free again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rowbus
from rowbus.database.backends import open_database
from rowbus.messages.address import PostgresAddresses
from rowbus.messages.message import MessageRow
from rowbus.transport.limits.concurrency import CrowdedMessage, Places
from rowbus.transport.limits.places import PlaceKeeper
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from rowbus.database.sessions import AsyncSession
    from rowbus.database.statements import Runs

QUEUE = rowbus.QueueAddress("public", "Sales")


def keeper(most: int) -> PlaceKeeper:
    async def find(row: MessageRow, _session: Runs) -> CrowdedMessage | None:
        return CrowdedMessage(row, (Places(row.headers, most),), waited=False) if row.headers else None

    return PlaceKeeper(QUEUE, find, catalog_of(PostgresAddresses()).clock)


async def lacking(session: AsyncSession, most: int, *keys: str) -> list[str]:
    rows = [MessageRow(str(number), None, key, b"", number) for number, key in enumerate(keys)]
    return [row.headers for row in await keeper(most).take(rows, session, keeps_place=False)]


async def test_places_are_taken_beside_each_other_and_free_when_transactions_end(database: str) -> None:
    first, second, third = [await open_database(database).connect() for _ in range(3)]
    try:
        async with third.transaction():
            async with first.transaction():
                assert await lacking(first, 2, "A", "B", "A", "") == []
                async with second.transaction():
                    assert await lacking(second, 2, "A") == []
                    assert await lacking(third, 2, "A", "B", "C", "A") == ["A", "A"]
                assert await lacking(third, 2, "A") == []
            assert await lacking(third, 1, "B") == []
        async with second.transaction():
            assert await lacking(second, 1, "A", "B", "C") == []
            assert await lacking(first, 1, "A") == ["A"]
    finally:
        for session in (first, second, third):
            await session.close()
