"""What the conformance suite needs to know of a database: how to make queues and how to look into them.

Everything else in the suite is the same for every database; another one is another class here and a name in `BACKENDS`.

Invariant: rows are written and read with SQL of the suite's own, so that a fault of ours cannot hide in it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import sql

from rowbus.database.pool import SessionPool
from rowbus.database.postgresql.database import Database
from rowbus.model.address import QueueAddress
from rowbus.services.installer import create_queue

if TYPE_CHECKING:
    from typing import Any, Self


WRITE_BUSINESS = b"insert into business values (%s)"
FAIL_AT_COMMIT = b"insert into child values (1)"  # there is no parent; the server says so at the commit


class StoredRow(NamedTuple):
    """A row as it lies in a queue; `expires_in` in seconds, None for never."""

    id: str
    headers_text: str
    body: bytes | None
    expires_in: float | None

    @property
    def headers(self) -> dict[str, str | None]:
        headers = json.loads(self.headers_text)
        assert isinstance(headers, dict)
        return headers


@dataclass
class PostgreSQL:
    """One empty PostgreSQL database."""

    dsn: str
    connection: psycopg.AsyncConnection[tuple[Any, ...]]

    @classmethod
    async def open(cls, dsn: str) -> Self:
        return cls(dsn, await psycopg.AsyncConnection.connect(dsn, autocommit=True))

    async def close(self) -> None:
        await self.connection.close()

    @property
    def database(self) -> Database:
        return Database(self.dsn, application_name="rowbus conformance")

    def pool(self) -> SessionPool:
        return SessionPool(self.database, size=4)

    async def execute(self, command: str, *parameters: object) -> None:
        await self.connection.execute(command.encode(), parameters or None)

    async def values(self, query: str, *parameters: object) -> list[Any]:
        cursor = await self.connection.execute(query.encode(), parameters or None)
        return [row[0] for row in await cursor.fetchall()]

    # --- queues

    async def create_queue(self, address: QueueAddress) -> None:
        session = await self.database.connect()
        await create_queue(session, address)
        await session.close()

    async def insert(
        self,
        address: QueueAddress,
        headers_text: str,
        body: bytes | None = b"{}",
        *,
        expires_in: float | None = None,
    ) -> str:
        """Insert a row the way .NET does, and return its id."""
        command = _on(
            address,
            "insert into {queue} (id, expires, headers, body)"
            " values (gen_random_uuid(), (now() at time zone 'UTC') + %s * interval '1 second', %s, %s)"
            " returning id::text",
        )
        cursor = await self.connection.execute(command, (expires_in, headers_text, body))
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0])

    async def rows(self, address: QueueAddress) -> list[StoredRow]:
        """Return what lies in the queue, oldest first, rows in a receiver's hands included."""
        query = _on(
            address,
            "select id::text, headers, body,"
            " extract(epoch from expires - (now() at time zone 'UTC'))::float8 from {queue} order by seq",
        )
        cursor = await self.connection.execute(query)
        return [StoredRow(*row) for row in await cursor.fetchall()]

    async def count(self, address: QueueAddress) -> int:
        cursor = await self.connection.execute(_on(address, "select count(*) from {queue}"))
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    async def drop_queue(self, address: QueueAddress) -> None:
        await self.connection.execute(_on(address, "drop table {queue}"))

    async def tables(self) -> list[str]:
        return await self.values(
            "select table_name::text from information_schema.tables"
            " where table_schema not in ('pg_catalog', 'information_schema') order by 1"
        )

    # --- business data

    async def create_business_tables(self) -> None:
        """Make a table for what handlers write, and one whose foreign key is only checked at commit."""
        await self.execute("create table business (entry text not null)")
        await self.execute("create table parent (id int primary key)")
        await self.execute("create table child (id int references parent deferrable initially deferred)")

    async def business(self) -> list[str]:
        return await self.values("select entry from business order by entry")

    # --- sessions

    async def terminate_sessions(self) -> int:
        """Break every other connection to the database and return how many there were."""
        broken = await self.values(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return len(broken)


def _on(address: QueueAddress, text: str) -> sql.Composed:
    return sql.SQL(text).format(queue=sql.Identifier(address.schema, address.table))


Backend = PostgreSQL
BACKENDS = {"postgresql": PostgreSQL}
