"""Messages whose handler fails: undone, retried, and kept in the error queue with their story.

One order works at its third attempt; one never works; one is refused for good. Nothing of a failed attempt remains.
The log, which Python writes to the standard error unless it is configured, has the tracebacks.

Prints:

    order flaky: attempt 1 fails
    order flaky: attempt 2 fails
    order flaky: attempt 3 works
    order hopeless: attempt 1 fails
    order hopeless: attempt 2 fails
    order hopeless: attempt 3 fails
    orders: flaky
    in the error queue: {"order_id":"hopeless"} ConnectionError: the warehouse does not answer
    in the error queue: {"order_id":"refused"} rowbus.errors.Unrecoverable: nobody delivers there
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import psycopg

import rowbus
from rowbus.testing import temporary_database


@rowbus.command("Shop.ShipOrder")
@dataclass
class ShipOrder:
    """Sent to Shipping."""

    order_id: str


shipping = rowbus.Endpoint(
    "Shipping",
    settings=rowbus.EndpointSettings(concurrency=1),  # one at a time, so that what is printed stays in order
    recoverability=rowbus.Recoverability(immediate=2, delayed=0),
)
attempts = Counter[str]()
last_one_handled = asyncio.Event()


@shipping.handler
async def ship_order(order: ShipOrder, context: rowbus.Context) -> None:
    """Record the shipment, then ask a warehouse that sometimes does not answer."""
    await context.connection.execute("insert into shipments values (%s)", (order.order_id,))
    if order.order_id == "refused":
        last_one_handled.set()
        raise rowbus.Unrecoverable("nobody delivers there")
    attempts[order.order_id] += 1
    attempt = attempts[order.order_id]
    works = order.order_id == "flaky" and attempt > 2  # noqa: PLR2004 - the third attempt
    print(f"order {order.order_id}: attempt {attempt} {'works' if works else 'fails'}")
    if not works:
        raise ConnectionError("the warehouse does not answer")


async def main(dsn: str) -> None:
    """Serve until the last order has been handled, then look at what is where."""
    shipping.database = dsn
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("create table shipments (order_id text primary key)")
        async with shipping:
            for order_id in ("flaky", "hopeless", "refused"):
                await shipping.send("Shipping", ShipOrder(order_id))
            await last_one_handled.wait()
        async for row in await connection.execute("select order_id from shipments"):
            print("orders:", *row)
        failed = await connection.execute("select body, headers::jsonb from error order by seq")
        async for body, headers in failed:
            story = (headers[rowbus.Header.EXCEPTION_TYPE], headers[rowbus.Header.EXCEPTION_MESSAGE])
            print("in the error queue:", body.decode(), ": ".join(story))


if __name__ == "__main__":
    with temporary_database() as temporary:
        asyncio.run(main(temporary))
