"""A shop in one module: commands, an event with a parent, a reply, a saga with a timeout, a schedule, a route."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import IntEnum
from typing import TypedDict
from uuid import UUID

import msgspec
import pydantic

import rowbus


class Colour(IntEnum):
    RED = 0
    BLUE = 2


class Note(TypedDict):
    text: str


@dataclass
class Line:
    sku: str
    price: Decimal
    colour: Colour = Colour.RED


@rowbus.command("Shop.PlaceOrder", rename="pascal")
@dataclass
class PlaceOrder:
    """To Sales: a customer wants this."""

    order_id: UUID
    lines: list[Line]
    wait: timedelta = timedelta(days=1)
    photo: bytes | None = None
    notes: list[Note] = field(default_factory=list)


@rowbus.command("Shop.ChargeCard")
class ChargeCard(msgspec.Struct):
    order_id: UUID
    amount: Decimal


@rowbus.message("Shop.CardCharged")
class CardCharged(pydantic.BaseModel):
    order_id: UUID
    attempts: int = pydantic.Field(default=1, ge=1, alias="tries")


@rowbus.event("Shop.IOrderEvent")
@dataclass
class OrderEvent:
    order_id: UUID


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced(OrderEvent):
    pass


@rowbus.message("Shop.PaymentOverdue")
@dataclass
class PaymentOverdue:
    pass


@rowbus.command("Shop.Report")
@dataclass
class Report:
    pass


@dataclass
class OrderState:
    order_id: UUID


class OrderProcess(rowbus.Saga[OrderState], name="Shop.OrderProcess", correlation="order_id"):
    @rowbus.starts(PlaceOrder, by=lambda order: order.order_id)
    async def placed(self, order: PlaceOrder, context: rowbus.SagaContext) -> None:
        await self._charge(order, context)
        await context.request_timeout(PaymentOverdue(), after=timedelta(days=1))

    @rowbus.timeout(PaymentOverdue)
    async def overdue(self, due: PaymentOverdue) -> None:
        pass

    @rowbus.handles(CardCharged)
    async def charged(self, message: CardCharged, context: rowbus.SagaContext) -> None:
        await context.publish(OrderPlaced(message.order_id))

    async def _charge(self, order: PlaceOrder, context: rowbus.SagaContext) -> None:
        await context.send("Billing", ChargeCard(order.order_id, Decimal(1)))


sales = rowbus.Endpoint("Sales", database="postgresql://nowhere/shop")
sales.add(OrderProcess)
sales.route(ChargeCard, to="Billing")
sales.every("0 7 * * *", name="report", to="Billing")(Report)

billing = rowbus.Endpoint("Billing", database="postgresql://nowhere/shop")


@billing.handler
async def charge(message: ChargeCard, context: rowbus.Context) -> None:
    await _answer(message, context)


async def _answer(message: ChargeCard, context: rowbus.Context) -> None:
    await context.reply(CardCharged(order_id=message.order_id, tries=2))


@billing.handler
def note(event: OrderEvent) -> None:
    pass


@billing.handler("Shop.Report", "Shop.Raw")
def report(message: dict[str, object]) -> None:
    pass
