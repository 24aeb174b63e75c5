"""A store as a test has it: in the queues' database or in another, with faults, and seen with SQL of the tests' own.

Invariant: what lies in the store is read without any code of Rowbus.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Self

import psycopg

import rowbus
from rowbus.testing import temporary_database
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.on_postgresql import queue
from tests.conformance.transport import eventually
from tests.transport.delayed_store.stores import Faults, FaultyStore

if TYPE_CHECKING:
    from typing import Any, Unpack

    from tests.conformance.backend import Backend
    from tests.conformance.settings import Settings

SHARED, FOREIGN = "shared", "foreign"
TIMEOUTS = queue("Sales.Timeouts")
ERROR = queue("error")
BILLING = queue("Billing")
SOON = timedelta(milliseconds=150)
LATER = timedelta(hours=1)


class Kept(NamedTuple):
    """A row of the store."""

    id: str
    destination: str
    headers: dict[str, str]
    body: bytes
    time: datetime
    retries: int


@dataclass
class Place:
    """The store of the endpoint Sales."""

    kind: str
    backend: Backend
    endpoints: Endpoints
    dsn: str
    connection: psycopg.AsyncConnection[tuple[Any, ...]]
    faults: Faults
    critical: list[str]

    @classmethod
    @asynccontextmanager
    async def open(cls, kind: str, backend: Backend, endpoints: Endpoints) -> AsyncGenerator[Self]:
        """Have the store in the queues' database, or in another one on their server."""
        with nullcontext(backend.dsn) if kind == SHARED else temporary_database(backend.dsn) as dsn:
            async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
                yield cls(kind, backend, endpoints, dsn, connection, Faults(), [])
                await endpoints.stop_all()

    def store(self) -> rowbus.DelayedMessageStore:
        """Make the store, as another process would have it."""
        if self.kind == SHARED:
            return rowbus.PostgresDelayedMessageStore()
        return FaultyStore(rowbus.PostgresDelayedMessageStore(self.dsn), self.faults)

    def sales(
        self, delayed_delivery: rowbus.DelayedDeliverySettings | None = None, **settings: Unpack[Settings]
    ) -> rowbus.Endpoint:
        """Make an instance of Sales."""
        return self.endpoints.make(
            "Sales",
            delayed_delivery=delayed_delivery or rowbus.DelayedDeliverySettings(self.store()),
            on_critical_error=lambda text, _error: self.critical.append(text),
            **settings,
        )

    def retrying(self, times: int) -> rowbus.DelayedDeliverySettings:
        """Make the settings with so many retries."""
        return rowbus.DelayedDeliverySettings(self.store(), number_of_retries=times)

    async def kept(self) -> list[Kept]:
        """Return what lies in the store."""
        cursor = await self.connection.execute(
            'select id, destination, headers, state, time, retry_count from "Sales.delayed" order by time'
        )
        return [
            Kept(row_id, destination, json.loads(headers), body, time, retries)
            for row_id, destination, headers, body, time, retries in await cursor.fetchall()
        ]

    async def wait_until_kept(self, count: int) -> None:
        """Wait until so many messages lie in the store, and none on the way to it."""

        async def reached() -> bool:
            return len(await self.kept()) == count and await self.backend.count(TIMEOUTS) == 0

        await eventually(reached)

    async def keep_due(
        self, destination: str, delayed_delivery: rowbus.DelayedDeliverySettings | None = None
    ) -> None:
        """Have one message in the store, due now, and no endpoint running."""
        async with self.sales(delayed_delivery) as sales:
            await sales.send(destination, order(1), delay=LATER)
            await self.wait_until_kept(1)
        await self.bring_forward(LATER)

    async def bring_forward(self, by: timedelta) -> None:
        """Have every message in the store due so much earlier, as if time had passed."""
        await self.connection.execute('update "Sales.delayed" set time = time - %s', [by])

    async def wait_for_rows(self, count: int, table: rowbus.QueueAddress = BILLING) -> None:
        """Wait until so many messages lie in a queue that nobody serves."""

        async def reached() -> bool:
            return await self.backend.count(table) == count

        await eventually(reached)

    async def wait_until_nothing_is_left(self) -> None:
        """Wait until nothing lies in the store or on the way to it."""
        await self.wait_until_kept(0)

    async def orders(self, table: rowbus.QueueAddress = BILLING) -> list[str]:
        """Return what lies in a queue: order ids, in order."""
        return sorted(json.loads(row.body or b"")["order_id"] for row in await self.backend.rows(table))

    async def refuse_messages(self) -> None:
        """Have Billing's queue refuse messages, and count how often that was tried (which no rollback undoes)."""
        for command in (
            "create sequence attempts",
            (
                "create function refuse() returns trigger language plpgsql as $$ begin"
                " perform nextval('attempts'); raise exception 'refused'; end $$"
            ),
            'create trigger refuse before insert on "Billing" for each row execute function refuse()',
        ):
            await self.backend.execute(command)

    async def accept_messages(self) -> None:
        await self.backend.execute('drop trigger refuse on "Billing"')

    async def attempts(self) -> int:
        (called, last) = (
            await self.backend.values("select is_called from attempts"),
            await self.backend.values("select last_value from attempts"),
        )
        return int(last[0]) if called[0] else 0


def order(number: int) -> PlaceOrder:
    return PlaceOrder(f"{number:03}")
