"""The shop: its messages, its tables, and the endpoint that handles orders.

Serve it with `rowbus run shop:sales`, beside the web application of `web.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ForeignKey, String, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

import rowbus
import rowbus.sqlalchemy

# ---------------------------------------------------------------------------------------------------------- messages


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    """Sent by the web application with the order's row."""

    order_id: str


@rowbus.command("Shop.SendInvoice")
@dataclass
class SendInvoice:
    """Sent when an order was placed."""

    order_id: str


# ------------------------------------------------------------------------------------------------------------ tables


class Base(DeclarativeBase):
    """All tables of the shop."""


class Order(Base):
    """An order, and how far it is."""

    __tablename__ = "shop_orders"

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    state: Mapped[str] = mapped_column(String(40), default="received")
    lines: Mapped[list[Line]] = relationship(back_populates="order")


class Line(Base):
    """One of an order's items."""

    __tablename__ = "shop_lines"

    order_id: Mapped[str] = mapped_column(ForeignKey("shop_orders.id"), primary_key=True)
    item: Mapped[str] = mapped_column(String(40), primary_key=True)
    quantity: Mapped[int]
    order: Mapped[Order] = relationship(back_populates="lines")


class Stock(Base):
    """Number of this item."""

    __tablename__ = "shop_stock"

    item: Mapped[str] = mapped_column(String(40), primary_key=True)
    left: Mapped[int]


# ---------------------------------------------------------------------------------------------------------- handlers


@dataclass(frozen=True)
class Currency:
    """A setting that a handler asks for by its type."""

    code: str


sales = rowbus.Endpoint("Sales", recoverability=rowbus.Recoverability(immediate=1, delayed=0))
sales.provide(Currency, Currency("EUR"))
sales.provide(AsyncSession, factory=rowbus.sqlalchemy.async_session)
sales.provide(Session, factory=rowbus.sqlalchemy.session)


@sales.handler
async def place_order(message: PlaceOrder, context: rowbus.Context, session: AsyncSession) -> None:
    """Take every line from the stock; what was taken before one that is missing is put back by the failure."""
    order = await session.get_one(Order, message.order_id)
    order.state = "placed"
    for line in await session.scalars(select(Line).where(Line.order_id == order.id).order_by(Line.item)):
        stock = await session.get_one(Stock, line.item, with_for_update=True)
        stock.left -= line.quantity
        await session.flush()
        if stock.left < 0:
            raise LookupError(f"too few of {line.item} for order {order.id}")
    await context.send_local(SendInvoice(order.id))


@sales.handler
def send_invoice(message: SendInvoice, session: Session, currency: Currency) -> None:
    """Run in a thread, with relationships that load when they are touched."""
    order = session.get_one(Order, message.order_id)
    order.state = f"invoiced {sum(line.quantity for line in order.lines)} items in {currency.code}"
