"""The two ways a message can reach its handlers, behind one face: through PostgreSQL, and through `rowbus.testing`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol

import psycopg

from rowbus import AsyncClient, Endpoint, EndpointSettings, QueueAddress, Recoverability
from rowbus.database.postgresql.connection import AsyncSession
from rowbus.errors.strangers import type_name
from rowbus.messages.headers import Header, decode_headers
from rowbus.testing.handlers import SUBSCRIBERS, run_handlers
from rowbus.transport.pubsub.postgresql import SubscriptionRouting
from rowbus.transport.queues.postgresql import QueueTable

QUEUES = ("Billing", "Client", SUBSCRIBERS)
"""The queues that messages may be sent to in these tests."""


class Arrived(NamedTuple):
    """A message that arrived in a queue."""

    queue: str
    headers: dict[str, str | None]
    body: bytes

    @property
    def type(self) -> str | None:
        return self.headers.get(Header.ENCLOSED_MESSAGE_TYPES)


class Result(NamedTuple):
    """Result of one attempt at a message; `error` is the name of the exception's type."""

    arrived: list[Arrived]
    error: str | None

    def bodies(self, queue: str) -> list[bytes]:
        return [message.body for message in self.arrived if message.queue == queue]


class Transport(Protocol):
    """Brings one message to an endpoint's handlers and sees what comes of it."""

    def endpoint(self) -> Endpoint:
        """Make the endpoint `Sales`."""

    async def handle(
        self,
        endpoint: Endpoint,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        reply_to: str | None = "Client",
    ) -> Result:
        """Have the endpoint process the message once."""


class InMemory:
    """`rowbus.testing.run_handlers`."""

    def endpoint(self) -> Endpoint:
        return Endpoint("Sales")

    async def handle(
        self,
        endpoint: Endpoint,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        reply_to: str | None = "Client",
    ) -> Result:
        outcome = await run_handlers(endpoint, message, type=type, headers=headers, reply_to=reply_to)
        arrived = [
            Arrived(sent.destination.table, dict(sent.headers), sent.body)
            for sent in outcome.sends
            if sent.due is None
        ]
        return Result(arrived, None if outcome.error is None else type_name(outcome.error))


class PostgreSql:
    """A started endpoint on a database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def endpoint(self) -> Endpoint:
        settings = EndpointSettings(concurrency=1)
        return Endpoint(
            "Sales",
            database=self._dsn,
            settings=settings,
            recoverability=Recoverability(immediate=0, delayed=0),
        )

    async def handle(
        self,
        endpoint: Endpoint,
        message: object,
        *,
        type: str | None = None,
        headers: Mapping[str, str] | None = None,
        reply_to: str | None = "Client",
    ) -> Result:
        followed = asyncio.Event()

        async def follow(message: dict[str, object]) -> None:
            followed.set()

        endpoint.handler("Contract.Next")(follow)
        async with await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection:
            await self._create_queues(connection)
            async with endpoint:
                client = AsyncClient(connection, reply_to=reply_to)
                await client.send("Sales", message, type=type, headers=headers)
                await client.send("Sales", {}, type="Contract.Next")  # one slot, so the first is done by then
                await asyncio.wait_for(followed.wait(), 10)
            arrived = [one for queue in QUEUES for one in await self._read(connection, queue)]
            failed = await self._read(connection, "error")
        return Result(arrived, failed[0].headers[Header.EXCEPTION_TYPE] if failed else None)

    async def _create_queues(self, connection: psycopg.AsyncConnection) -> None:
        session = AsyncSession(connection)
        for queue in QUEUES:
            await session.run_all(QueueTable(QueueAddress("public", queue)).create())
        routing = SubscriptionRouting(QueueAddress("public", "SubscriptionRouting"))
        await session.run_all(routing.create())
        everything, address = ["System.Object"], QueueAddress("public", SUBSCRIBERS)
        await session.run(routing.subscribe(SUBSCRIBERS, everything, address))

    async def _read(self, connection: psycopg.AsyncConnection, queue: str) -> list[Arrived]:
        rows = await AsyncSession(connection).run(QueueTable(QueueAddress("public", queue)).peek(100))
        return [Arrived(queue, decode_headers(row.headers), row.body or b"") for row in rows]
