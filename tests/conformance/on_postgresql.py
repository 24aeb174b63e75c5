"""The conformance suite's PostgreSQL: a database of the test's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg import sql

from rowbus.errors import StorageError
from rowbus.messages.address import QueueAddress
from tests.conformance.backend import Backend, DelayedRow, StoredRow


class PostgreSQL(Backend):
    """One empty PostgreSQL database."""

    name = "PostgreSQL"
    finds_out_at_commit = True
    error_at_commit = StorageError
    failure_at_commit = "foreign key"

    def __init__(self, dsn: str, connection: psycopg.AsyncConnection[tuple[Any, ...]]) -> None:
        super().__init__(dsn, "public")
        self.connection = connection

    @classmethod
    async def open(cls, dsn: str) -> Self:
        return cls(dsn, await psycopg.AsyncConnection.connect(dsn, autocommit=True))

    async def close(self) -> None:
        await self.connection.close()

    # --- the user's own connection

    def transaction(self, *, force_rollback: bool = False) -> AbstractAsyncContextManager[object]:
        found: AbstractAsyncContextManager[object] = self.connection.transaction(
            force_rollback=force_rollback
        )
        return found

    @asynccontextmanager
    async def another_connection(self) -> AsyncGenerator[psycopg.AsyncConnection]:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            yield connection

    async def end(self, connection: psycopg.AsyncConnection, *, commits: bool) -> None:
        await (connection.commit() if commits else connection.rollback())

    # --- queues

    async def insert(
        self,
        queue: QueueAddress | str,
        headers_text: str,
        body: bytes | None = b"{}",
        *,
        expires_in: float | None = None,
    ) -> str:
        command = self._on(
            queue,
            "insert into {queue} (id, expires, headers, body)"
            " values (gen_random_uuid(), (now() at time zone 'UTC') + %s * interval '1 second', %s, %s)"
            " returning id::text",
        )
        cursor = await self.connection.execute(command, (expires_in, headers_text, body))
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0])

    async def rows(self, queue: QueueAddress | str) -> list[StoredRow]:
        query = self._on(
            queue,
            "select id::text, headers, body,"
            " extract(epoch from expires - (now() at time zone 'UTC'))::float8 from {queue} order by seq",
        )
        cursor = await self.connection.execute(query)
        return [StoredRow(*row) for row in await cursor.fetchall()]

    async def count(self, queue: QueueAddress | str) -> int:
        cursor = await self.connection.execute(self._on(queue, "select count(*) from {queue}"))
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    async def drop_queue(self, queue: QueueAddress | str) -> None:
        await self.connection.execute(self._on(queue, "drop table {queue}"))

    async def rename_queue(self, queue: QueueAddress | str, name: str) -> None:
        rename = sql.SQL("alter table {queue} rename to {name}")
        await self.connection.execute(rename.format(queue=self._identifier(queue), name=sql.Identifier(name)))

    async def tables(self) -> list[str]:
        return await self.values(
            "select lower(table_name::text) from information_schema.tables"
            " where table_schema not in ('pg_catalog', 'information_schema') order by 1"
        )

    async def create_schema(self, name: str) -> str:
        await self.connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        return name

    # --- tables of delayed messages

    async def delayed_rows(self, queue: QueueAddress | str) -> list[DelayedRow]:
        query = self._on(
            queue,
            "select id::text, headers, body, due, extract(epoch from due - clock_timestamp())::float8"
            " from {queue} order by due",
        )
        cursor = await self.connection.execute(query)
        return [DelayedRow(*row) for row in await cursor.fetchall()]

    async def insert_delayed(
        self, queue: QueueAddress | str, headers_text: str, body: bytes | None, *, due_in: float
    ) -> str:
        command = self._on(
            queue,
            "insert into {queue} (headers, body, due)"
            " values (%s, %s, now() + (%s || ' milliseconds')::interval) returning id::text",
        )
        cursor = await self.connection.execute(command, (headers_text, body, round(due_in * 1000)))
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0])

    # --- tables of subscriptions

    async def subscriptions(self, table: QueueAddress | str = "SubscriptionRouting") -> list[tuple[str, str]]:
        query = "select queueaddress::text, topic::text from {queue} order by topic, queueaddress"
        cursor = await self.connection.execute(self._on(table, query))
        return [(str(address), str(topic)) for address, topic in await cursor.fetchall()]

    async def subscribe(self, endpoint: str, topic: str) -> None:
        command = self._on("SubscriptionRouting", "insert into {queue} values (%s, %s, %s)")
        await self.connection.execute(command, (str(self.queue(endpoint)), endpoint, topic))

    def _on(self, queue: QueueAddress | str, text: str) -> sql.Composed:
        return sql.SQL(text).format(queue=self._identifier(queue))

    def _identifier(self, queue: QueueAddress | str) -> sql.Identifier:
        address = self._address(queue)
        return sql.Identifier(address.schema, address.table)

    # --- SQL of the suite's own

    async def execute(self, command: str, *parameters: object) -> None:
        await self.connection.execute(command.encode(), parameters or None)

    async def values(self, query: str, *parameters: object) -> list[Any]:
        cursor = await self.connection.execute(query.encode(), parameters or None)
        return [row[0] for row in await cursor.fetchall()]

    # --- business data

    async def create_business_tables(self) -> None:
        """Make a table for what handlers write, and one whose foreign key is only checked at commit."""
        await self.execute("create table business (entry text not null)")
        await self.execute("create table parent (id int primary key)")
        await self.execute("create table child (id int references parent deferrable initially deferred)")

    async def business(self) -> list[str]:
        return await self.values("select entry from business order by entry")

    async def write(self, connection: psycopg.AsyncConnection, entry: str) -> None:
        await connection.execute("insert into business values (%s)", [entry])

    async def fail_at_commit(self, connection: psycopg.AsyncConnection) -> None:
        await connection.execute("insert into child values (1)")  # there is no parent

    async def fail(self, connection: psycopg.AsyncConnection) -> None:
        await connection.execute("select 1/0")

    async def pause(self, connection: psycopg.AsyncConnection) -> None:
        await connection.execute("select pg_sleep(0.3)")

    # --- sessions

    async def passes_over_locked(self) -> bool:
        return True

    async def terminate_sessions(self) -> int:
        broken = await self.values(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return len(broken)

    async def count_sessions(self) -> int:
        (count,) = await self.values(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        return int(count)


# --- for tests of PostgreSQL alone

WRITE_BUSINESS = b"insert into business values (%s)"
FAIL_AT_COMMIT = b"insert into child values (1)"  # there is no parent; the server says so at the commit


def queue(name: str) -> QueueAddress:
    """Return the address of a queue in the schema `public`."""
    return QueueAddress("public", name)
