"""The table of delayed messages as other software sees it: with SQL of the tests' own.

Invariant: what a .NET mover does is done here in its two statements, in our own words
(docs/wire-format.md#moving-due-messages).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.transport.delayed.installer import create_delayed
from tests.conformance.backend import Backend, DelayedRow


@dataclass
class Delayed:
    """The table of delayed messages of the endpoint Sales."""

    backend: Backend
    address: QueueAddress = field(init=False)

    def __post_init__(self) -> None:
        self.address = self.backend.queue("Sales.Delayed")

    async def create(self) -> None:
        session = await self.backend.database.connect()
        await create_delayed(session, self.address)
        await session.close()

    async def rows(self) -> list[DelayedRow]:
        """Return what waits, in the order in which it is due."""
        return await self.backend.delayed_rows(self.address)

    async def count(self) -> int:
        return await self.backend.count(self.address)

    async def insert(
        self, headers: dict[str, str | None] | str, body: bytes | None = b"{}", *, due_in: float
    ) -> str:
        """Store a row the way a .NET endpoint does; it notifies nobody."""
        text = headers if isinstance(headers, str) else json.dumps(headers, separators=(",", ":"))
        return await self.backend.insert_delayed(self.address, text, body, due_in=due_in)


class NetMover:
    """A mover of NServiceBus: everything that is due goes into the endpoint's own queue, batch by batch."""

    def __init__(
        self,
        connection: psycopg.AsyncConnection[tuple[object, ...]],
        delayed: QueueAddress,
        queue: QueueAddress,
    ) -> None:
        self._connection = connection
        self._move = sql.SQL(
            "with taken as (delete from {delayed} where id in"
            " (select id from {delayed} where due < now() at time zone 'UTC' limit 100) returning id, headers, body)"
            " insert into {queue} (id, expires, headers, body) select id, null, headers, body from taken"
        ).format(
            delayed=sql.Identifier(delayed.schema, delayed.table),
            queue=sql.Identifier(queue.schema, queue.table),
        )

    async def move(self) -> int:
        """Make one pass in a transaction of its own; return how many messages were moved."""
        async with self._connection.transaction():
            await self._connection.execute("set local timezone to 'UTC'")
            return (await self._connection.execute(self._move)).rowcount


def headers_of(
    message_id: str, wire_name: str, destination: QueueAddress | str | None
) -> dict[str, str | None]:
    """Return the headers of a delayed message as a .NET endpoint writes them."""
    headers: dict[str, str | None] = {
        Header.MESSAGE_ID: message_id,
        Header.ENCLOSED_MESSAGE_TYPES: wire_name,
        Header.CONTENT_TYPE: "application/json",
        Header.MESSAGE_INTENT: "Send",
    }
    if destination is not None:
        headers[Header.FORWARD_DESTINATION] = str(destination)
    return headers
