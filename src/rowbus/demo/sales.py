"""The endpoint Sales: takes orders, and sees each of them through payment and shipment.

Every handler changes an order and sends what follows from it in one transaction, the one that also holds the message:
there is no order that waits for a payment nobody was asked for, and no payment asked for twice.

Invariant: Sales alone writes `orders`; an order ends as shipped, declined or rejected, once.
"""

from __future__ import annotations

import rowbus
from rowbus.demo.catalogue import days_to_deliver, problem_with
from rowbus.demo.messages import (
    SCHEMA,
    CardCharged,
    CardDeclined,
    ChargeCard,
    EstimateDelivery,
    OrderShipped,
    PlaceOrder,
    ShipOrder,
)
from rowbus.demo.statements import sql

PLACE = sql("place_order")
REJECT = sql("reject_order")
MARK_PAID = sql("mark_paid")
FINISH = sql("finish_order")
RECORD_ESTIMATE = sql("record_estimate")

endpoint = rowbus.Endpoint(
    "Sales",
    settings=rowbus.EndpointSettings(schema=SCHEMA),
    recoverability=rowbus.Recoverability(delayed=0),  # a demonstration does not wait for a minute
)


@endpoint.handler
async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
    """Record an order and have its card charged, or reject it."""
    if problem := problem_with(order):
        await context.connection.execute(REJECT, {**_head(order), "reason": problem})
        return
    await context.connection.execute(PLACE, {**_head(order), "amount": order.amount, **_items(order)})
    await context.send("Billing", ChargeCard(order.order_id, order.amount, order.currency, order.payment))


@endpoint.handler
async def card_charged(message: CardCharged, context: rowbus.Context) -> None:
    """Have a paid order shipped."""
    cursor = await context.connection.execute(MARK_PAID, {"order_id": message.order_id})
    order = await cursor.fetchone()
    if order is None:
        raise rowbus.Unrecoverable(f"Order {message.order_id} does not wait for a payment.")
    customer, country = order
    await context.send("Shipping", ShipOrder(message.order_id, customer, country))


@endpoint.handler
async def card_declined(message: CardDeclined, context: rowbus.Context) -> None:
    """Close an order that cannot be paid."""
    end = {"order_id": message.order_id, "state": "declined", "reason": message.reason}
    await context.connection.execute(FINISH, end)


@endpoint.handler
async def order_shipped(message: OrderShipped, context: rowbus.Context) -> None:
    """Close an order that is on its way."""
    end = {"order_id": message.order_id, "state": "shipped", "reason": message.tracking}
    await context.connection.execute(FINISH, end)


@endpoint.handler
def estimate_delivery(question: EstimateDelivery, context: rowbus.SyncContext) -> None:
    """Tell a customer who is still waiting when an order would arrive; those who have left are never asked for.

    A plain function, run in a thread: for code that blocks.
    """
    answer = {"order_id": question.order_id, "days": days_to_deliver(question.country)}
    context.connection.execute(RECORD_ESTIMATE, answer)


def _head(order: PlaceOrder) -> dict[str, object]:
    return {
        "order_id": order.order_id,
        "customer": order.customer,
        "country": order.country,
        "currency": order.currency,
    }


def _items(order: PlaceOrder) -> dict[str, object]:
    return {
        "products": [item.product for item in order.items],
        "quantities": [item.quantity for item in order.items],
        "unit_prices": [item.unit_price for item in order.items],
    }
