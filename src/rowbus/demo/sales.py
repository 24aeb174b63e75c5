"""The endpoint Sales: takes orders, and sees each of them through payment and shipment.

That is a process of some messages and some time, so it is a saga: it begins when an order is placed, waits in a row of
its own, and ends when the order is shipped, declined or rejected. Every method changes its order and sends messages in
the transaction that received its own message. So no order waits for a payment that was not asked for, and no payment is
asked for twice.

Invariant: Sales alone writes `orders`; an order ends as shipped, declined or rejected, once, and its process with it.
`problem_with` answers for every order; it never raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import rowbus
from rowbus.demo.messages import (
    PAYMENT_IS_DUE_AFTER,
    SCHEMA,
    CardCharged,
    CardDeclined,
    ChargeCard,
    EstimateDelivery,
    OrderShipped,
    PaymentOverdue,
    PlaceOrder,
    ShipOrder,
)
from rowbus.demo.statements import sql

if TYPE_CHECKING:
    from rowbus.demo.messages import Item


class _Catalogue(msgspec.Struct):
    products: dict[str, tuple[str, Decimal]]
    currencies: dict[str, Decimal]


_catalogue = msgspec.json.decode(Path(__file__).with_name("catalogue.json").read_bytes(), type=_Catalogue)

PRODUCTS = _catalogue.products
"""Name and price in euro by product number."""

CURRENCIES = _catalogue.currencies
"""The currencies the shop takes, each with what one euro costs in it."""

_NEIGHBOURS = frozenset({"AT", "BE", "CH", "CZ", "DE", "DK", "FR", "LU", "NL", "PL"})


def problem_with(order: PlaceOrder) -> str | None:
    """Say why the shop does not take an order; None if it does."""
    if not order.items:
        return "nothing was ordered"
    if order.currency not in CURRENCIES:
        return f"currency {order.currency} is not accepted"
    return next(filter(None, map(_problem_with_item, order.items)), None)


def _problem_with_item(item: Item) -> str | None:
    if item.product not in PRODUCTS:
        return f"unknown product {item.product}"
    if item.quantity < 1:
        return "a quantity below 1"
    if item.unit_price <= 0:
        return "a unit price that is no price"
    return None


def days_to_deliver(country: str) -> int:
    """Estimate how long a parcel travels."""
    return 2 if country in _NEIGHBOURS else 6


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


@dataclass
class OrderState:
    """The memory of the process of an order from message to message."""

    order_id: str
    customer: str = ""
    country: str = ""
    paid: bool = False


class OrderProcess(rowbus.Saga[OrderState], name="Shop.OrderProcess", correlation="order_id"):
    """Placed, then paid or overdue, then shipped. Replies come back to it by themselves, an event by its order's id."""

    @rowbus.starts(PlaceOrder, by=lambda order: order.order_id)
    async def placed(self, order: PlaceOrder, context: rowbus.SagaContext) -> None:
        """Record an order, have its card charged, and look at the payment later; or reject the order."""
        if problem := problem_with(order):
            await context.connection.execute(REJECT, {**_head(order), "reason": problem})
            context.complete()
            return
        self.state.customer, self.state.country = order.customer, order.country
        await context.connection.execute(PLACE, {**_head(order), "amount": order.amount, **_items(order)})
        await context.send("Billing", ChargeCard(order.order_id, order.amount, order.currency, order.payment))
        await context.request_timeout(PaymentOverdue(order.order_id), after=PAYMENT_IS_DUE_AFTER)

    @rowbus.timeout(PaymentOverdue)
    async def overdue(self, due: PaymentOverdue, context: rowbus.SagaContext) -> None:
        """Remind a customer whose payment is not in; for one who has paid, record that no reminder was needed."""
        reminder = {"order_id": due.order_id, "sent": not self.state.paid}
        await context.connection.execute(REMIND, reminder)

    @rowbus.handles(CardCharged)
    async def charged(self, message: CardCharged, context: rowbus.SagaContext) -> None:
        """Have a paid order shipped."""
        self.state.paid = True
        await context.connection.execute(MARK_PAID, {"order_id": message.order_id})
        await context.send("Shipping", ShipOrder(message.order_id, self.state.customer, self.state.country))

    @rowbus.handles(CardDeclined)
    async def declined(self, message: CardDeclined, context: rowbus.SagaContext) -> None:
        """Close an order that cannot be paid."""
        await self._finish(context, "declined", message.reason)

    @rowbus.handles(OrderShipped, by=lambda event: event.order_id)
    async def shipped(self, event: OrderShipped, context: rowbus.SagaContext) -> None:
        """Close an order that is on its way. Having a method for an event is what subscribes Sales to it."""
        await self._finish(context, "shipped", event.tracking)

    @rowbus.not_found
    async def unknown(self, message: object) -> None:
        """Refuse what no order waits for: a shipment announced twice must be seen, in the error queue."""
        raise rowbus.Unrecoverable(f"No order waits for {message}.")

    async def _finish(self, context: rowbus.SagaContext, state: str, reason: str) -> None:
        """Close the order and end its process, which takes a timeout that still waits away with it."""
        ended = {"order_id": self.state.order_id, "state": state, "reason": reason}
        await context.connection.execute(FINISH, ended)
        context.complete()


endpoint.add(OrderProcess)


@endpoint.handler
def estimate_delivery(question: EstimateDelivery, context: rowbus.SyncContext) -> None:
    """Estimate when an order would arrive. Questions that have expired do not reach this handler.

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
