"""The endpoint Sales: takes orders, and sees each of them through payment and shipment.

Every handler changes an order and sends messages in the transaction that received its own message. So no order waits
for a payment that was not asked for, and no payment is asked for twice. Delayed messages are sent in it, too: each
order that was placed is looked at when its payment is due.

Invariant: Sales alone writes `orders`; an order ends as shipped, declined or rejected, once.
"""

from __future__ import annotations

import rowbus
from rowbus.demo.catalogue import days_to_deliver, problem_with
from rowbus.demo.messages import (
    PAYMENT_IS_DUE_AFTER,
    SCHEMA,
    CardCharged,
    CardDeclined,
    ChargeCard,
    EstimateDelivery,
    OrderShipped,
    PlaceOrder,
    RemindOfPayment,
    ShipOrder,
)
from rowbus.demo.statements import sql

PLACE = sql("place_order")
REJECT = sql("reject_order")
MARK_PAID = sql("mark_paid")
FINISH = sql("finish_order")
REMIND = sql("remind_of_payment")
RECORD_ESTIMATE = sql("record_estimate")

endpoint = rowbus.Endpoint(
    "Sales",
    settings=rowbus.EndpointSettings(schema=SCHEMA),
    recoverability=rowbus.Recoverability(delayed=0),  # a demonstration does not wait for a minute
)


@endpoint.handler
async def place_order(order: PlaceOrder, context: rowbus.Context) -> None:
    """Record an order, have its card charged, and check the payment later; or reject the order."""
    if problem := problem_with(order):
        await context.connection.execute(REJECT, {**_head(order), "reason": problem})
        return
    await context.connection.execute(PLACE, {**_head(order), "amount": order.amount, **_items(order)})
    await context.send("Billing", ChargeCard(order.order_id, order.amount, order.currency, order.payment))
    await context.send("Sales", RemindOfPayment(order.order_id), delay=PAYMENT_IS_DUE_AFTER)


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
    await _finish(context, message.order_id, "declined", message.reason)


@endpoint.handler
async def order_shipped(event: OrderShipped, context: rowbus.Context) -> None:
    """Close an order that is on its way. Having a handler for an event is what subscribes Sales to it."""
    await _finish(context, event.order_id, "shipped", event.tracking)


@endpoint.handler
async def remind_of_payment(due: RemindOfPayment, context: rowbus.Context) -> None:
    """Remind a customer whose payment is not in; for the others, record that no reminder was needed."""
    await context.connection.execute(REMIND, {"order_id": due.order_id})


@endpoint.handler
def estimate_delivery(question: EstimateDelivery, context: rowbus.SyncContext) -> None:
    """Estimate when an order would arrive. Questions that have expired do not reach this handler.

    A plain function, run in a thread: for code that blocks.
    """
    answer = {"order_id": question.order_id, "days": days_to_deliver(question.country)}
    context.connection.execute(RECORD_ESTIMATE, answer)


async def _finish(context: rowbus.Context, order_id: str, state: str, reason: str) -> None:
    cursor = await context.connection.execute(
        FINISH, {"order_id": order_id, "state": state, "reason": reason}
    )
    if cursor.rowcount == 0:
        raise rowbus.Unrecoverable(f"Order {order_id} has been finished before.")


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
