"""A shop's database to look at: delayed messages, subscriptions of which one is dead, a log, and dead letters.

Invariant: what is in it is written by the transports' own statements, as endpoints and consumers write it.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import httpx
import psycopg
from psycopg.conninfo import make_conninfo

from rowbus.database.backends import open_database
from rowbus.database.sessions import AsyncSession
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.delayed.installer import create_delayed
from rowbus.transport.delayed.table import delayed_table
from rowbus.transport.pubsub.table import create_subscriptions, subscription_routing
from rowbus.transport.queues.installer import create_queue

SALES, BILLING, SHIPPING = (QueueAddress("public", name) for name in ("Sales", "Billing", "Shipping"))
DELAYED = QueueAddress("public", "Sales.Delayed")
ROUTING = QueueAddress("public", "SubscriptionRouting")
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
LOG = "orders"


def assert_is_text(page: httpx.Response) -> None:
    """Require that nothing hostile is markup, or can be seen as what it is not; what a form sends back is as it was."""
    assert "<script>alert" not in page.text
    seen = re.sub(r'value="[^"]*"', "", page.text)
    raw = re.search(".{0,200}[\u202e\x1b]", seen, re.DOTALL)
    assert raw is None, (page.url, raw)


@dataclass(frozen=True)
class Shop:
    """The database, by its connection string."""

    dsn: str

    def ask(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        """Run SQL and return the rows, if there are any."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def delay(
        self,
        due: timedelta | datetime,
        number: str,
        *,
        kind: str = "Shop.RemindToPay",
        body: bytes | None = None,
        to: QueueAddress = BILLING,
        headers: dict[str, str] | None = None,
    ) -> None:
        """Have a message wait."""
        given: dict[str, str | None] = {
            Header.MESSAGE_ID: f"reminder-{number}",
            Header.ENCLOSED_MESSAGE_TYPES: kind,
            Header.CONTENT_TYPE: "application/json",
            **(headers or {}),
        }
        content = json.dumps({"order_id": number, "total": 99.5}).encode() if body is None else body
        message = OutgoingMessage(given, content, None).bound_for(to)
        with open_database(self.dsn).session() as session:
            session.run(delayed_table(DELAYED).store(message, due, notify=False))

    @contextmanager
    def viewing(self, *tables: QueueAddress) -> Generator[str]:
        """Give a connection string of a role that may look at these tables, and do nothing else."""
        role = f"viewer_{secrets.token_hex(4)}"
        self.ask(f"create role {role} login")
        for table in tables:
            self.ask(f"grant select on {table} to {role}")
        try:
            yield make_conninfo(self.dsn, user=role)
        finally:
            self.ask(f"drop owned by {role}")
            self.ask(f"drop role {role}")

    def subscribe(self, endpoint: str, queue: QueueAddress, *topics: str) -> None:
        """Have an endpoint subscribe."""
        with open_database(self.dsn).session() as session:
            session.run(subscription_routing(ROUTING).subscribe(endpoint, topics, queue))

    def append(self, *events: tuple[str, str]) -> None:
        """Write events, types and data, and a tick behind them."""
        for kind, data in events:
            self.ask("select pgq.insert_event(%s, %s, %s)", LOG, kind, data)
        self.tick()

    def tick(self) -> None:
        """Make a tick."""
        self.ask("select pgq.force_tick(%s)", LOG)
        self.ask("select pgq.ticker(%s)", LOG)

    def give_up(self, consumer: str, reason: str) -> None:
        """Have a consumer take a batch and give up on the first of its events."""
        batch = first = None
        while first is None:
            ((batch,),) = self.ask("select pgq.next_batch(%s, %s)", LOG, consumer)
            ((first,),) = self.ask("select min(ev_id) from pgq.get_batch_events(%s)", batch)
            if first is None:  # nothing was written between two ticks
                self.ask("select pgq.finish_batch(%s)", batch)
        self.ask("select pgq.events_dead(%s, array[%s::bigint], array[%s])", batch, first, reason)
        self.ask("select pgq.finish_batch(%s)", batch)


def make_shop(dsn: str) -> Shop:
    """Make the tables, and in the log's schema a log, with a consumer `revenue`; nothing is in them."""
    with ThreadPoolExecutor() as thread:  # Playwright's loop runs in this one
        thread.submit(asyncio.run, _create(dsn)).result()
    shop = Shop(dsn)
    shop.ask("select pgq.create_queue(%s)", LOG)
    shop.ask("select pgq.register_consumer(%s, 'revenue')", LOG)
    return shop


async def _create(dsn: str) -> None:
    session: AsyncSession = await open_database(dsn).connect()
    try:
        for address in (SALES, BILLING, SHIPPING):
            await create_queue(session, address)
        await create_delayed(session, DELAYED)
        await create_subscriptions(session, ROUTING)
    finally:
        await session.close()


def stock(shop: Shop) -> None:
    """Fill a shop with what an ordinary day has."""
    dues = (30, 300, 600, 1800, 1900, 2500, 5400, 9000, 30_000, 90_000, 200_000, 400_000, 900_000, 5_000_000)
    for number, seconds in enumerate(dues):
        shop.delay(timedelta(seconds=seconds), f"R{4100 + number}")
    shop.delay(
        timedelta(seconds=-40), "R4099", kind="Shop.ChargeCard", to=SALES, headers={Header.RETRIES: "2"}
    )
    shop.subscribe("Billing", BILLING, "Shop.OrderPlaced", "Shop.OrderShipped")
    shop.subscribe("Shipping", SHIPPING, "Shop.OrderPlaced")
    shop.subscribe("Loyalty", QueueAddress("public", "Loyalty"), "Shop.OrderShipped")
    shop.append(*(("order_placed", json.dumps({"order": f"R{n}", "total": 12.5 * n})) for n in range(1, 9)))
    shop.give_up("revenue", "decimal.InvalidOperation: R1 has no total\n  in revenue.py, line 12")
    shop.append(("I:id", "id=7&name=Ann+B%C3%A9la&note"))
