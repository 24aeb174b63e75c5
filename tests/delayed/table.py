"""The table of delayed messages as other software sees it: with SQL of the tests' own.

Invariant: what a .NET mover does is done here in its two statements (reference §5.2), in our own words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql

from rowbus.model.address import QueueAddress
from rowbus.model.headers import Header, decode_headers
from rowbus.services.installer import create_delayed
from tests.conformance.backend import Backend

SALES_DELAYED = QueueAddress("public", "Sales.Delayed")


class StoredRow(NamedTuple):
    """A row as it lies in the table; `due_in` in seconds."""

    id: str
    headers_text: str
    body: bytes | None
    due: datetime
    due_in: float

    @property
    def headers(self) -> dict[str, str | None]:
        return decode_headers(self.headers_text)


@dataclass
class Delayed:
    """One table of delayed messages."""

    backend: Backend
    address: QueueAddress = SALES_DELAYED

    async def create(self) -> None:
        session = await self.backend.database.connect()
        await create_delayed(session, self.address)
        await session.close()

    async def rows(self) -> list[StoredRow]:
        """Return what waits, in the order in which it is due."""
        query = self._on(
            "select id::text, headers, body, due, extract(epoch from due - clock_timestamp())::float8"
            " from {delayed} order by due"
        )
        cursor = await self.backend.connection.execute(query)
        return [StoredRow(*row) for row in await cursor.fetchall()]

    async def count(self) -> int:
        cursor = await self.backend.connection.execute(self._on("select count(*) from {delayed}"))
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    async def insert(
        self, headers: dict[str, str | None] | str, body: bytes | None = b"{}", *, due_in: float
    ) -> str:
        """Store a row the way a .NET endpoint does, in a session of UTC; it notifies nobody."""
        text = headers if isinstance(headers, str) else json.dumps(headers, separators=(",", ":"))
        command = self._on(
            "insert into {delayed} (headers, body, due)"
            " values (%s, %s, timestamptz(now() at time zone 'UTC') + (%s || ' milliseconds')::interval)"
            " returning id::text"
        )
        async with await psycopg.AsyncConnection.connect(self.backend.dsn, autocommit=True) as connection:
            await connection.execute("set timezone to 'UTC'")
            cursor = await connection.execute(command, (text, body, round(due_in * 1000)))
            row = await cursor.fetchone()
        assert row is not None
        return str(row[0])

    def _on(self, text: LiteralString) -> sql.Composed:
        return sql.SQL(text).format(delayed=sql.Identifier(self.address.schema, self.address.table))


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
