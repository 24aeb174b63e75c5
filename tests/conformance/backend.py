"""Facts about a database that the conformance suite needs: how to make queues and how to look into them.

Everything else in the suite is the same for every database; another one is another class, and a name in `KINDS` of
tests/fixtures/backends.py. Tables and queues of a test are in one schema, `Backend.schema`; other schemas it makes
through `create_schema`, so that they go when it ends.

Invariant: rows are written and read with SQL of the suite's own, so that a fault of ours cannot hide in it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, NamedTuple, Self

import rowbus
from rowbus.database.backends import addresses_of, open_database
from rowbus.database.pool import SessionPool
from rowbus.database.sessions import Database
from rowbus.errors import RowbusError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import decode_headers
from rowbus.transport.queues.installer import create_queue


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


class DelayedRow(NamedTuple):
    """A row as it lies in a table of delayed messages; `due_in` in seconds."""

    id: str
    headers_text: str
    body: bytes | None
    due: datetime
    due_in: float

    @property
    def headers(self) -> dict[str, str | None]:
        return decode_headers(self.headers_text)


class Backend(ABC):
    """One empty place for a test's tables: a database, or a schema of one."""

    connection: Any
    """A connection of the user's, in autocommit mode: for `AsyncClient`."""

    def __init__(self, dsn: str, schema: str) -> None:
        self.dsn = dsn
        self.schema = schema

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in tests/conformance/behaviours.md."""

    @property
    def database(self) -> Database:
        return open_database(self.dsn, application_name="rowbus conformance")

    def pool(self) -> SessionPool:
        return SessionPool(self.database, size=4)

    @abstractmethod
    async def close(self) -> None:
        """Remove what the test made, and disconnect."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- addresses

    def queue(self, name: str, schema: str | None = None) -> QueueAddress:
        """Return the address of a queue, in the test's schema unless another is named."""
        return addresses_of(self.dsn, schema or self.schema).for_endpoint(name)

    def read(self, text: str) -> QueueAddress:
        """Read an address as it is on the wire."""
        return addresses_of(self.dsn, self.schema).parse(text)

    def _address(self, queue: QueueAddress | str) -> QueueAddress:
        return self.queue(queue) if isinstance(queue, str) else queue

    # --- the user's own connection

    def client(self, **settings: Any) -> rowbus.AsyncClient:  # noqa: ANN401 - the client's own
        """Return a client on the user's own connection."""
        return rowbus.AsyncClient(self.connection, schema=self.schema, **settings)

    @abstractmethod
    def transaction(self, *, force_rollback: bool = False) -> AbstractAsyncContextManager[object]:
        """Have what is done on the user's own connection in one transaction."""

    @abstractmethod
    def another_connection(self) -> AbstractAsyncContextManager[Any]:
        """Give one more connection of the user's, in a transaction that ends with the block; see `end`."""

    @abstractmethod
    async def end(self, connection: Any, *, commits: bool) -> None:  # noqa: ANN401 - each driver's own
        """Commit or roll back on a connection of `another_connection`."""

    # --- queues

    async def create_queue(self, queue: QueueAddress | str) -> None:
        session = await self.database.connect()
        await create_queue(session, self._address(queue))
        await session.close()

    @abstractmethod
    async def insert(
        self,
        queue: QueueAddress | str,
        headers_text: str,
        body: bytes | None = b"{}",
        *,
        expires_in: float | None = None,
    ) -> str:
        """Insert a row the way .NET does, and return its id."""

    @abstractmethod
    async def rows(self, queue: QueueAddress | str) -> list[StoredRow]:
        """Return what lies in the queue, oldest first, rows in a receiver's hands included."""

    @abstractmethod
    async def count(self, queue: QueueAddress | str) -> int:
        """Return how many rows there are, those in a receiver's hands included."""

    @abstractmethod
    async def drop_queue(self, queue: QueueAddress | str) -> None: ...

    @abstractmethod
    async def rename_queue(self, queue: QueueAddress | str, name: str) -> None: ...

    @abstractmethod
    async def tables(self) -> list[str]:
        """Return the names of the test's tables, in lower case: not every database keeps it."""

    @abstractmethod
    async def create_schema(self, name: str) -> str:
        """Make one more schema, and return its name: one like it where schemas outlive a test."""

    # --- tables of delayed messages

    @abstractmethod
    async def delayed_rows(self, queue: QueueAddress | str) -> list[DelayedRow]:
        """Return what waits, in the order in which it is due."""

    @abstractmethod
    async def insert_delayed(
        self, queue: QueueAddress | str, headers_text: str, body: bytes | None, *, due_in: float
    ) -> str:
        """Store a row the way a .NET endpoint does, notifying nobody; return its id."""

    # --- tables of subscriptions

    @abstractmethod
    async def subscriptions(self, table: QueueAddress | str = "SubscriptionRouting") -> list[tuple[str, str]]:
        """Return address and topic of each subscription, in the order of the topics and addresses."""

    @abstractmethod
    async def subscribe(self, endpoint: str, topic: str) -> None:
        """Note a subscription of an endpoint's, the way .NET does."""

    # --- SQL of the suite's own

    @abstractmethod
    async def execute(self, command: str, *parameters: object) -> None: ...

    @abstractmethod
    async def values(self, query: str, *parameters: object) -> list[Any]: ...

    # --- business data

    @abstractmethod
    async def create_business_tables(self) -> None:
        """Make a table for what handlers write, and whatever `fail_at_commit` needs."""

    @abstractmethod
    async def business(self) -> list[str]:
        """Return what handlers wrote."""

    @abstractmethod
    async def write(self, connection: Any, entry: str) -> None:  # noqa: ANN401 - each driver's own
        """Write on a handler's connection, or on the user's own."""

    @abstractmethod
    async def fail_at_commit(self, connection: Any) -> None:  # noqa: ANN401 - each driver's own
        """Do on a handler's connection what is only found out when it commits; itself it raises nothing."""

    @abstractmethod
    async def fail(self, connection: Any) -> None:  # noqa: ANN401 - each driver's own
        """Have the database refuse something on a handler's connection; raises."""

    @abstractmethod
    async def pause(self, connection: Any) -> None:  # noqa: ANN401 - each driver's own
        """Have the database take 0.3 s over something on a handler's connection."""

    finds_out_at_commit: bool
    """Whether that is found out after what RECEIVE_ONLY sends has left, and the message is then still in hand.

    Where the server rolls back at once, another slot may have the message before this one has counted its failure.
    """
    error_at_commit: type[RowbusError]
    failure_at_commit: str
    """The error, and its text, that `fail_at_commit` leads to."""

    # --- sessions

    @abstractmethod
    async def passes_over_locked(self) -> bool:
        """Whether a receive passes over messages in others' hands, instead of waiting for them."""

    async def shows_locks(self) -> bool:
        """Whether the server says who holds an application's lock."""
        return True

    @abstractmethod
    async def terminate_sessions(self) -> int:
        """Break the other sessions of this test and return how many there were."""

    @abstractmethod
    async def count_sessions(self) -> int:
        """Return how many sessions this test has, besides the suite's own."""
