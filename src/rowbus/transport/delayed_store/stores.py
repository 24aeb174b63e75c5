"""The delayed message stores that ship with Rowbus: a table, in the queues' database or in another.

Invariant: in the queues' database it works in the transaction of the queues, so that what is delayed is delivered
exactly once; elsewhere each transaction here is its own, and delivery is at least once.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

from rowbus.database.backends import addresses_of, borrow_async, open_database
from rowbus.database.statements import run_steps
from rowbus.errors import ConfigurationError
from rowbus.messages.address import PostgresAddresses
from rowbus.messages.sqlserver_address import SqlServerAddresses
from rowbus.transport.delayed_store.protocol import DelayedMessageStore
from rowbus.transport.delayed_store.table import delayed_store_table
from rowbus.transport.queues.installer import make_table
from rowbus.transport.queues.owners import refuse_foreign

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from datetime import datetime

    from rowbus.database.sessions import AsyncSession, Database
    from rowbus.database.statements import Statement
    from rowbus.messages.address import Addresses, QueueAddress
    from rowbus.settings import TransactionMode
    from rowbus.transport.delayed_store.protocol import DelayedMessage
    from rowbus.transport.delayed_store.table import DelayedStoreTable

T = TypeVar("T")

logger = logging.getLogger("rowbus.delaying")

MOST_SESSIONS = 10  # of messages in hand, held and stored at a time, and one that asks for the next
LOCK_TIMEOUT = 10.0  # seconds: the server gives a statement up that waits so long for a lock.
# Seconds that one may take; less than the 30 s after which nothing waits for it any more.
STATEMENT_TIMEOUT = 25.0
SUFFIX = "delayed"
MSMQ_SUFFIX = "timeouts"  # docs/wire-format.md#delayed-message-store


class _TableStore(DelayedMessageStore):
    """A store on one session, in that session's transaction."""

    def __init__(self, table: DelayedStoreTable, session: Callable[[], Awaitable[AsyncSession]]) -> None:
        self._table = table
        self._session = session

    async def setup_infrastructure(self) -> None:
        """Create the table if it is missing. Raises ConfigurationError for one of a role that ours cannot trust."""
        session = await self._session()
        if await session.run(self._table.exists()):
            self._refuse_other(await session.run(self._table.is_store()))
            await run_steps(session, refuse_foreign(self._table.address))
        else:
            await make_table(session, self._table)

    def _refuse_other(self, is_store: bool) -> None:  # noqa: FBT001 - an answer
        if not is_store:
            raise ConfigurationError(
                f"{self._table.address} is a table of another kind, perhaps a queue of the same name (some databases "
                "ignore case): name another one for the delayed message store."
            )

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:
        """Do nothing: the store this came from knows."""

    async def store(self, message: DelayedMessage) -> None:
        """Keep a message."""
        await self._run(self._table.store(message))

    async def remove(self, message: DelayedMessage) -> bool:
        """Delete a message."""
        return await self._run(self._table.remove(message.message_id)) > 0

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        """Count a failure of a message."""
        return await self._run(self._table.increment_failure_count(message.message_id)) > 0

    async def next(self) -> datetime | None:
        """Say when the earliest message is due."""
        return await self._run(self._table.next())

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        """Lock and give the earliest message that is due."""
        return await self._run(self._table.fetch_next_due(at))

    async def _run(self, statement: Statement[T]) -> T:
        return await (await self._session()).run(statement)


class TableDelayedMessageStore(DelayedMessageStore):
    """Keeps delayed messages in a table of a database that has a backend; the base of the stores below."""

    def __init__(
        self,
        database: str | None,
        default: Addresses,
        *,
        schema: str | None,
        table: str | None,
        suffix: str = SUFFIX,
    ) -> None:
        """Describe the store; no I/O. `default` are the addresses in an endpoint's own database.

        Without a name the table is the endpoint's name with the suffix.
        """
        self._database = (
            None if database is None else open_database(database, application_name="rowbus delayed")
        )
        self._pool = None if self._database is None else self._database.pool(MOST_SESSIONS)
        self._addresses = default if database is None else addresses_of(database, schema)
        if self._addresses.backend != default.backend:
            raise ConfigurationError(f"{type(self).__name__} cannot keep messages in such a database.")
        self._name = table
        self._suffix = suffix
        self._table: DelayedStoreTable | None = None
        self._earlier: DelayedStoreTable | None = None  # what was the default before
        self._bounded: WeakSet[AsyncSession] = WeakSet()

    def address(self, endpoint_name: str) -> QueueAddress:
        """Return where an endpoint's messages are kept. Raises InvalidAddressError: too long."""
        return self._place(self._name or f"{endpoint_name}.{self._suffix}")

    def _place(self, table: str) -> QueueAddress:
        address = self._addresses.for_endpoint(table)
        address.validate()
        return address

    @property
    def own_database(self) -> Database | None:
        """The store's own database; None: it is in its endpoint's."""
        return self._database

    async def initialize(self, endpoint_name: str, transaction_mode: TransactionMode) -> None:  # noqa: ARG002 - every mode that Rowbus has is supported
        """Find the endpoint's table. Raises InvalidAddressError if its name is too long."""
        self._table = delayed_store_table(self.address(endpoint_name))
        if self._name is None and self._suffix != SUFFIX:
            self._earlier = delayed_store_table(self._place(f"{endpoint_name}.{SUFFIX}"))
        if self._pool is not None:
            await self._pool.open()

    async def setup_infrastructure(self) -> None:
        """Create the table if it is missing; never the schema. Raises StorageError; ConfigurationError: no store."""
        async with self._pooled() as session:
            await self._on(session).setup_infrastructure()
            if self._earlier is not None:
                await _report_leftovers(session, self._earlier)

    async def store(self, message: DelayedMessage) -> None:
        """Keep a message, in a transaction of its own. Raises StorageError."""
        async with self._one() as store:
            await store.store(message)

    async def remove(self, message: DelayedMessage) -> bool:
        """Delete a message, in a transaction of its own; false if it was already gone. Raises StorageError."""
        async with self._one() as store:
            return await store.remove(message)

    async def increment_failure_count(self, message: DelayedMessage) -> bool:
        """Count a failure, in a transaction of its own; false if the message was gone. Raises StorageError."""
        async with self._one() as store:
            return await store.increment_failure_count(message)

    async def next(self) -> datetime | None:
        """Say when the earliest message is due, None if there is none. Raises StorageError."""
        async with self._one() as store:
            return await store.next()

    async def fetch_next_due(self, at: datetime) -> DelayedMessage | None:
        """Give the earliest message that is due; locked in a `transaction` only. Raises StorageError."""
        async with self._one() as store:
            return await store.fetch_next_due(at)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[DelayedMessageStore]:
        """Give this store in a transaction of its own database. Raises StorageError."""
        async with self._pooled() as session, session.transaction():
            yield self._on(session)

    def enlist(self, connection: object) -> DelayedMessageStore | None:
        """Give this store on a connection, unless it has a database of its own. Raises ConfigurationError."""
        return (
            None if self._pool is not None else _TableStore(self._bound(), borrow_async(connection).session)
        )

    async def close(self) -> None:
        """Close the connections to the store's own database."""
        if self._pool is not None:
            await self._pool.close()

    @asynccontextmanager
    async def _one(self) -> AsyncGenerator[DelayedMessageStore]:
        async with self._pooled() as session:
            yield self._on(session)

    @asynccontextmanager
    async def _pooled(self) -> AsyncGenerator[AsyncSession]:
        if self._pool is None:
            raise ConfigurationError(
                f"This {type(self).__name__} has no database of its own: only the endpoint that it was given to "
                "can use it. Give it a database to use it by itself."
            )
        async with self._pool.session() as session:
            await self._bound_once(session)
            yield session

    async def _bound_once(self, session: AsyncSession) -> None:
        """Limit what a session's statements may take, when the session is new."""
        if session not in self._bounded:
            limits = self._bound().bound_session(
                lock_timeout=LOCK_TIMEOUT, statement_timeout=STATEMENT_TIMEOUT
            )
            for limit in limits:
                await session.run(limit)
            self._bounded.add(session)

    def _on(self, session: AsyncSession) -> DelayedMessageStore:
        async def same() -> AsyncSession:
            return session

        return _TableStore(self._bound(), same)

    def _bound(self) -> DelayedStoreTable:
        if self._table is None:
            raise ConfigurationError("The store is not initialized: call `initialize` first.")
        return self._table


async def _report_leftovers(session: AsyncSession, table: DelayedStoreTable) -> None:
    """Warn of messages in the table that was the default of earlier versions: nothing looks there any more."""
    if not (await session.run(table.exists()) and await session.run(table.is_store())):
        return
    if (await session.run(table.state(1))).waiting:
        logger.warning(
            "Delayed messages wait in %s, the default of earlier versions of Rowbus, where nothing looks any more; "
            "go on with it by table_name=%r, or move its rows.",
            table.address,
            table.address.table,
        )


class PostgresDelayedMessageStore(TableDelayedMessageStore):
    """Keeps delayed messages in a PostgreSQL table.

    ```python
    store = rowbus.PostgresDelayedMessageStore()
    delayed = rowbus.DelayedDeliverySettings(store, number_of_retries=7)
    sales = rowbus.Endpoint("Sales", delayed_delivery=delayed)
    ```
    """

    def __init__(
        self, database: str | None = None, *, schema: str = "public", table: str | None = None
    ) -> None:
        """Describe the store; no I/O. An instance belongs to one endpoint.

        `database` is a libpq connection string; none given, the endpoint's own database, in whose transactions the
        store then takes part: exactly once. `table` defaults to the endpoint's name with the suffix `.delayed`.
        Raises ConfigurationError.
        """
        super().__init__(database, PostgresAddresses(schema), schema=schema, table=table)


class SqlServerDelayedMessageStore(TableDelayedMessageStore):
    """Keeps delayed messages in a SQL Server table, that of NServiceBus's MSMQ transport.

    ```python
    store = rowbus.SqlServerDelayedMessageStore("mssql://user:password@host:1433/catalog")
    delayed = rowbus.DelayedDeliverySettings(store, number_of_retries=7)
    ```
    """

    def __init__(
        self, connection: str | None = None, schema: str = "dbo", table_name: str | None = None
    ) -> None:
        """Describe the store; no I/O. An instance belongs to one endpoint.

        `connection` is an `mssql://` URL; none given, the endpoint's own database, in whose transactions the store then
        takes part: exactly once. `table_name` defaults to the endpoint's name with the suffix `.timeouts`, as in every
        2.x of NServiceBus's MSMQ transport; in the endpoint's own database, where names may ignore case and
        `<endpoint>.Timeouts` is a queue, with the suffix `.delayed`. Raises ConfigurationError.
        """
        own = SqlServerAddresses(schema, catalog="")  # the connection's, not the endpoint's
        suffix = SUFFIX if connection is None else MSMQ_SUFFIX
        super().__init__(connection, own, schema=schema, table=table_name, suffix=suffix)
