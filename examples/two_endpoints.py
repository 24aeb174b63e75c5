"""Two endpoints, a command and its reply, and business data in the same transaction.

Sales records an order and has Billing charge the card; Billing replies; Sales marks the order as paid. Each step is one
transaction: the message that is consumed, the row that is written, the message that is sent.

Prints:

    Billing charges 9.50 for order 42
    Sales: order 42 is paid
    orders: ('42', 'paid')
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import psycopg

import rowbus
from rowbus.testing import temporary_database


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """Sent to Sales."""

    order_id: str
    total: float


@rowbus.command("Shop.ChargeCard")
@dataclass
class ChargeCard:
    """Sent to Billing."""

    order_id: str
    amount: float


@rowbus.message("Shop.CardCharged")
@dataclass
class CardCharged:
    """Billing's reply."""

    order_id: str


sales = rowbus.Endpoint("Sales")
billing = rowbus.Endpoint("Billing")
paid = asyncio.Event()


@sales.handler
async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
    """Record the order and have it charged."""
    await context.connection.execute("insert into orders values (%s, 'placed')", (order.order_id,))
    await context.send("Billing", ChargeCard(order.order_id, order.total))


@billing.handler
def charge_card(command: ChargeCard, context: rowbus.SyncContext) -> None:
    """Charge the card; a `def` handler runs in a thread, and may block."""
    print(f"Billing charges {command.amount:.2f} for order {command.order_id}")
    context.reply(CardCharged(command.order_id))


@sales.handler
async def card_charged(message: CardCharged, context: rowbus.Context) -> None:
    """Mark the order as paid."""
    await context.connection.execute("update orders set state = 'paid' where id = %s", (message.order_id,))
    print(f"Sales: order {message.order_id} is paid")
    paid.set()


async def main(dsn: str) -> None:
    """Serve both until the order is paid; leaving the block finishes what is in hand."""
    sales.database = billing.database = dsn
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("create table orders (id text primary key, state text not null)")
        async with sales, billing:
            await rowbus.AsyncClient(connection).send("Sales", PlaceOrder("42", 9.5))
            await paid.wait()
        async for row in await connection.execute("select id, state from orders"):
            print("orders:", row)


if __name__ == "__main__":
    with temporary_database() as temporary:  # your program names its own, or leaves that to ROWBUS_DATABASE
        asyncio.run(main(temporary))
