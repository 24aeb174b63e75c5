"""A process for tests: an order is placed, paid or overdue, and shipped."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

import rowbus


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str
    amount: Decimal = Decimal("19.90")


@rowbus.event("Shop.PaymentReceived")
@dataclass
class PaymentReceived:
    order_id: str
    amount: Decimal = Decimal("19.90")


@rowbus.command("Shop.CancelOrder")
@dataclass
class CancelOrder:
    order_id: str


@rowbus.message("Shop.PaymentOverdue")
@dataclass
class PaymentOverdue:
    days: int = 3


@rowbus.command("Shop.ShipOrder")
@dataclass
class ShipOrder:
    order_id: str


@rowbus.message("Shop.OrderShipped")
@dataclass
class OrderShipped:
    order_id: str


@rowbus.message("Shop.OrderDone")
@dataclass
class OrderDone:
    order_id: str
    steps: list[str]


@dataclass
class OrderState:
    order_id: str
    open: Decimal = Decimal(0)
    steps: list[str] = field(default_factory=list)


class OrderSaga(rowbus.Saga[OrderState], name="Shop.Sagas.OrderSaga", correlation="order_id"):
    """Waits for the payment, then for the shipment."""

    overdue_after = timedelta(days=3)

    @rowbus.starts(PlaceOrder, by=lambda message: message.order_id)
    async def placed(self, message: PlaceOrder, context: rowbus.SagaContext) -> None:
        self.state.open += message.amount
        self.state.steps.append("placed")
        await context.request_timeout(PaymentOverdue(), after=self.overdue_after)

    @rowbus.handles(PaymentReceived, by=lambda message: message.order_id)
    async def paid(self, message: PaymentReceived, context: rowbus.SagaContext) -> None:
        self.state.open -= message.amount
        self.state.steps.append("paid")
        if self.state.open <= 0:
            await context.send("Shipping", ShipOrder(self.state.order_id))

    @rowbus.handles(OrderShipped)
    async def shipped(self, message: OrderShipped, context: rowbus.SagaContext) -> None:
        self.state.steps.append("shipped")
        await context.reply_to_originator(
            OrderDone(message.order_id, self.state.steps), headers={"Shop.Note": message.order_id}
        )
        context.complete()

    @rowbus.handles(CancelOrder, by=lambda message: message.order_id)
    async def cancelled(self, message: CancelOrder, context: rowbus.SagaContext) -> None:
        raise rowbus.Unrecoverable(f"{message.order_id} cannot be cancelled")

    @rowbus.timeout(PaymentOverdue)
    async def overdue(self, message: PaymentOverdue, context: rowbus.SagaContext) -> None:
        self.state.steps.append(f"overdue after {message.days}")
        await context.publish(OrderDone(self.state.order_id, self.state.steps))
        context.complete()
