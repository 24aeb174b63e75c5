"""The conformance suite's SQL Server: a schema of the test's own in a catalog that others may use as well.

It talks to the driver itself, in a thread, because the driver blocks. Names of tables are compared without regard to
case, and columns by position, because engines differ in what they give back.

A server that holds readers up (READ_COMMITTED_SNAPSHOT off) would have the suite wait for the rows it looks at: switch
that on in the catalog the suite is given. Babelfish always reads versions.

Invariant: when `close` returns, the test's schemas are gone, with all that was in them, whatever the test left.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC
from typing import Any, Self, cast

import pytest

from rowbus.database.sqlserver import driver
from rowbus.database.sqlserver.driver import parse
from rowbus.errors import RowbusError
from rowbus.messages.address import QueueAddress
from rowbus.messages.sqlserver_address import SqlServerAddress, quote
from tests.conformance.backend import Backend, DelayedRow, StoredRow
from tests.conformance.kept_connections import ConnectionRegister

ATTEMPTS = 40  # to drop a table that a session of the test's, which is just ending, still holds
PAUSE = 0.05
ROLLBACK = "if @@trancount > 0 rollback transaction"  # Babelfish has done it after some errors
LOCK_TIMEOUT = 1000  # milliseconds that one attempt waits for a lock
LONG_ENOUGH = 2.0  # seconds for a statement that waits for nobody
_PASSING: dict[str, bool] = {}  # whether receives pass over others' messages, by DSN


class SqlServer(Backend):
    """One empty schema."""

    name = "SQL Server"
    finds_out_at_commit = False  # that its transaction is gone a session knows before
    error_at_commit = RowbusError  # whether the server rolls back or only dooms depends on the engine
    failure_at_commit = "transaction"

    def __init__(self, dsn: str, schema: str) -> None:
        super().__init__(dsn, schema)
        self._source = parse(dsn)
        self._lock = asyncio.Lock()
        self._schemas = list[str]()

    @classmethod
    async def open(cls, dsn: str, schema: str, made: ConnectionRegister) -> Self:
        backend = cls(dsn, schema)
        backend.connection = await asyncio.to_thread(driver.connect, backend._source)
        backend._own = await asyncio.to_thread(driver.connect, backend._source)
        made.forget()  # these two are the suite's
        backend._made = made
        await backend._create(backend.schema)
        return backend

    _made: ConnectionRegister
    _own: driver.DriverConnection  # the suite's eyes and hands; `connection` is the user's

    async def close(self) -> None:
        await self._end_sessions()
        try:
            with suppress(Exception):  # an engine that has no time limit for locks
                await self.execute(f"set lock_timeout {LOCK_TIMEOUT}")
            for schema in self._schemas:
                await self._remove(schema)
        finally:
            await asyncio.to_thread(self.connection.close)
            await asyncio.to_thread(self._own.close)

    async def _end_sessions(self) -> None:
        """Have the server end what a test has left open: its locks would keep its tables from being dropped.

        A connection that is closed from beside its own thread may end the process.
        """
        for session in self._made.sessions():
            with suppress(Exception):  # it has ended meanwhile, or the server lets the suite end none
                await self.execute(f"kill {session}")

    async def _create(self, schema: str) -> None:
        await self.execute(f"create schema {quote(schema)}")
        self._schemas.append(schema)

    async def _remove(self, schema: str) -> None:
        """Drop a schema; sessions that the test closed may still be ending, and hold its tables."""
        for attempt in range(ATTEMPTS):
            try:
                for table in await self._tables(schema):
                    await self.execute(f"drop table {quote(schema)}.{quote(table)}")
                await self.execute(f"drop schema {quote(schema)}")
            except Exception:
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(PAUSE)
            else:
                return

    # --- the user's own connection

    @asynccontextmanager
    async def transaction(self, *, force_rollback: bool = False) -> AsyncGenerator[None]:
        await _execute(self.connection, "begin transaction")
        try:
            yield
        except BaseException:
            await _execute(self.connection, ROLLBACK)
            raise
        await _execute(self.connection, ROLLBACK if force_rollback else "commit transaction")

    @asynccontextmanager
    async def another_connection(self) -> AsyncGenerator[driver.DriverConnection]:
        connection = await asyncio.to_thread(driver.connect, self._source)
        try:
            await _execute(connection, "begin transaction")
            yield connection
            await _execute(connection, "if @@trancount > 0 commit transaction")
        finally:
            await asyncio.to_thread(connection.close)

    async def end(self, connection: driver.DriverConnection, *, commits: bool) -> None:
        await _execute(connection, f"{'commit' if commits else 'rollback'} transaction")

    # --- queues

    async def insert(
        self,
        queue: QueueAddress | str,
        headers_text: str,
        body: bytes | None = b"{}",
        *,
        expires_in: float | None = None,
    ) -> str:
        row_id = str(uuid.uuid4())
        expires = "null" if expires_in is None else f"dateadd(ms, {round(expires_in * 1000)}, getutcdate())"
        content = _binary(body)
        await self.execute(
            f"insert into {self._name(queue)} (Id, Recoverable, Expires, Headers, Body) "
            f"values (cast('{row_id}' as uniqueidentifier), 1, {expires}, {_literal(headers_text)}, {content})"
        )
        return row_id

    async def rows(self, queue: QueueAddress | str) -> list[StoredRow]:
        found = await self.fetch(
            "select lower(cast(Id as char(36))), Headers, Body, Expires, getutcdate() "
            f"from {self._name(queue)} order by RowVersion"
        )
        return [
            StoredRow(
                row_id.strip(),
                headers,
                None if body is None else bytes(body),
                None if expires is None else (expires - now).total_seconds(),
            )
            for row_id, headers, body, expires, now in found
        ]

    async def count(self, queue: QueueAddress | str) -> int:
        (count,) = await self.values(f"select count(*) from {self._name(queue)}")
        return int(count)

    async def drop_queue(self, queue: QueueAddress | str) -> None:
        await self.execute(f"drop table {self._name(queue)}")

    async def rename_queue(self, queue: QueueAddress | str, name: str) -> None:
        raise NotImplementedError("a test that renames tables is PostgreSQL's")

    async def tables(self) -> list[str]:
        found = [table.lower() for schema in self._schemas for table in await self._tables(schema)]
        return sorted(found)

    async def _tables(self, schema: str) -> list[str]:
        query = (
            "select t.name from sys.tables as t inner join sys.schemas as s on t.schema_id = s.schema_id"
            f" where s.name = {_literal(schema)}"
        )
        return [str(name) for name in await self.values(query)]

    async def create_schema(self, name: str) -> str:
        unique = f"{name} {secrets.token_hex(4)}"
        await self._create(unique)
        return unique

    def _name(self, queue: QueueAddress | str) -> str:
        return cast("SqlServerAddress", self._address(queue)).qualified

    def table(self, name: str) -> str:
        """Return the name of a table of the test's schema, as statements take it."""
        return f"{quote(self.schema)}.{quote(name)}"

    # --- tables of delayed messages

    async def delayed_rows(self, queue: QueueAddress | str) -> list[DelayedRow]:
        found = await self.fetch(
            f"select RowVersion, Headers, Body, Due, getutcdate() from {self._name(queue)} order by Due"
        )
        return [
            DelayedRow(
                str(position),
                headers,
                None if body is None else bytes(body),
                due.replace(tzinfo=UTC),
                (due - now).total_seconds(),
            )
            for position, headers, body, due, now in found
        ]

    async def insert_delayed(
        self, queue: QueueAddress | str, headers_text: str, body: bytes | None, *, due_in: float
    ) -> str:
        content = _binary(body)
        await self.execute(
            f"insert into {self._name(queue)} (Headers, Body, Due) "
            f"values ({_literal(headers_text)}, {content}, dateadd(ms, {round(due_in * 1000)}, getutcdate()))"
        )
        return str(max(await self.values(f"select max(RowVersion) from {self._name(queue)}")))

    # --- tables of subscriptions

    async def subscriptions(self, table: QueueAddress | str = "SubscriptionRouting") -> list[tuple[str, str]]:
        found = await self.fetch(
            f"select QueueAddress, Topic from {self._name(table)} order by Topic, QueueAddress"
        )
        return [(str(address), str(topic)) for address, topic in found]

    async def subscribe(self, endpoint: str, topic: str) -> None:
        values = ", ".join(map(_literal, (str(self.queue(endpoint)), endpoint, topic)))
        await self.execute(
            f"insert into {self.table('SubscriptionRouting')} (QueueAddress, Endpoint, Topic) values ({values})"
        )

    # --- SQL of the suite's own

    async def execute(self, command: str, *parameters: object) -> None:
        async with self._lock:
            await _execute(self._own, command, *parameters)

    async def fetch(self, query: str, *parameters: object) -> Sequence[Sequence[Any]]:
        async with self._lock:
            return await asyncio.to_thread(_fetch, self._own, query, parameters)

    async def values(self, query: str, *parameters: object) -> list[Any]:
        return [row[0] for row in await self.fetch(query, *parameters)]

    # --- business data

    async def create_business_tables(self) -> None:
        await self.execute(f"create table {self.table('business')} (entry nvarchar(100) not null)")

    async def business(self) -> list[str]:
        return await self.values(f"select entry from {self.table('business')} order by entry")

    async def write(self, connection: Any, entry: str) -> None:  # noqa: ANN401 - a handler's or the driver's
        await run_on(connection, f"insert into {self.table('business')} (entry) values ({_literal(entry)})")

    async def fail_at_commit(self, connection: Any) -> None:  # noqa: ANN401 - a handler's or the driver's
        """Lose the transaction, and say nothing: what SQL Server has instead of constraints checked at commit."""
        with suppress(Exception):
            await run_on(connection, "set xact_abort on; select 1/0")

    async def fail(self, connection: Any) -> None:  # noqa: ANN401 - a handler's or the driver's
        await run_on(connection, "select 1/0")

    async def pause(self, connection: Any) -> None:  # noqa: ANN401 - a handler's or the driver's
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            await run_on(connection, "select 1")

    # --- sessions

    async def passes_over_locked(self) -> bool:
        """Ask the server itself, once a catalog: have one session hold a row, and another look for one."""
        if self.dsn not in _PASSING:
            _PASSING[self.dsn] = await self._probe()
        return _PASSING[self.dsn]

    async def shows_locks(self) -> bool:
        """Ask the server itself: Babelfish has no such view."""
        try:
            await self.values("select top(1) request_session_id from sys.dm_tran_locks")
        except Exception:  # noqa: BLE001 - of the driver's
            return False
        return True

    async def _probe(self) -> bool:
        table = self.table("probe")
        await self.execute(f"create table {table} (number int not null)")
        await self.execute(f"insert into {table} (number) values (1), (2)")
        async with self.another_connection() as holding, self.another_connection() as looking:
            await _execute(holding, f"delete from {table} where number = 1")
            query = (
                f"delete from {table} output deleted.number where number ="
                f" (select top(1) number from {table} with (updlock, readpast, rowlock) order by number)"
            )
            taking = asyncio.create_task(asyncio.to_thread(_fetch, looking, query, ()))
            done, _ = await asyncio.wait([taking], timeout=LONG_ENOUGH)
            await self.end(holding, commits=False)
            await taking
            await self.end(looking, commits=False)
        await self.execute(f"drop table {table}")
        return bool(done)

    async def terminate_sessions(self) -> int:
        sessions = self._made.sessions()
        for session in sessions:
            try:
                await self.execute(f"kill {session}")
            except Exception as error:  # noqa: BLE001 - the driver's, which only `driver.py` knows
                pytest.skip(f"this server lets the suite end no sessions: {error}")
        return len(sessions)

    async def count_sessions(self) -> int:
        return len(self._made.sessions())


async def run_on(connection: Any, command: str) -> None:  # noqa: ANN401 - a handler's or the driver's
    """Run a command on a handler's connection, or on one of the driver's."""
    if inspect.iscoroutinefunction(inspect.unwrap(connection.execute)):
        await connection.execute(command)
    else:
        await _execute(connection, command)


async def _execute(connection: driver.DriverConnection, command: str, *parameters: object) -> None:
    await asyncio.to_thread(_fetch, connection, command, parameters)


def _fetch(
    connection: driver.DriverConnection, query: str, parameters: Sequence[object]
) -> Sequence[Sequence[Any]]:
    """Run one batch and return the rows of its first answer that has any; raises what any of its answers is."""
    cursor = connection.cursor()
    try:
        cursor.execute(query, *([parameters] if parameters else []))
        rows = cursor.fetchall() if cursor.description else []
        while cursor.nextset():
            rows = rows or (cursor.fetchall() if cursor.description else [])
        return rows
    finally:
        cursor.close()


def _binary(body: bytes | None) -> str:
    if not body:
        return "null" if body is None else "cast('' as varbinary(max))"
    return f"0x{body.hex()}"


def _literal(text: str) -> str:
    return "N'" + text.replace("'", "''") + "'"
