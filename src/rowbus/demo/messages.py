"""The messages that the shop's endpoints send each other.

Plain dataclasses; the name in the decorator is the one on the wire, so that classes may be renamed and moved, and an
endpoint in another language can take part. Money is Decimal, which travels as a JSON string.

Invariant: a message holds all that its receiver needs. No endpoint reads another endpoint's tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import rowbus

SCHEMA = "rowbus_demo"
"""Where queues and business tables live; also written out in `sql/`."""

ENDPOINTS = ("Sales", "Billing", "Shipping")

ESTIMATE_IS_WANTED_FOR = timedelta(seconds=1)
"""The time that a customer waits for an estimate: its time to be received. Later it is not read, so it is not made."""


PAYMENT_IS_DUE_AFTER = timedelta(seconds=2)
"""The time from an order to its customer's reminder, unless it is paid: a timeout. Real shops wait longer."""

BANK_IS_ASKED_AGAIN_AFTER = timedelta(seconds=1)
"""When the bank is down and retries at once have not helped, how long a charge waits for a retry: a delay."""


@dataclass(frozen=True)
class Item:
    """Some pieces of one product."""

    product: str
    quantity: int
    unit_price: Decimal


@dataclass(frozen=True)
class Payment:
    """The customer's way to pay; `token` stands for the card at the payment gateway."""

    method: str
    token: str


@rowbus.command("Shop.PlaceOrder")
@dataclass(frozen=True)
class PlaceOrder:
    """To Sales: a customer wants this. Each line of the file of orders is one of these."""

    order_id: str
    customer: str
    country: str
    currency: str
    items: list[Item]
    payment: Payment
    express: bool = False

    @property
    def amount(self) -> Decimal:
        """The price."""
        return sum((item.quantity * item.unit_price for item in self.items), Decimal(0))


@rowbus.command("Shop.EstimateDelivery")
@dataclass(frozen=True)
class EstimateDelivery:
    """To Sales: the customer, still at the checkout, asks when it would arrive."""

    order_id: str
    country: str


@rowbus.message("Shop.PaymentOverdue")
@dataclass(frozen=True)
class PaymentOverdue:
    """To the process of an order, from itself, later: a timeout. The payment is due by now."""

    order_id: str


@rowbus.command("Shop.ChargeCard")
@dataclass(frozen=True)
class ChargeCard:
    """To Billing: collect the money for an order."""

    order_id: str
    amount: Decimal
    currency: str
    payment: Payment


@rowbus.message("Shop.CardCharged")
@dataclass(frozen=True)
class CardCharged:
    """Billing's reply: we have the money."""

    order_id: str


@rowbus.message("Shop.CardDeclined")
@dataclass(frozen=True)
class CardDeclined:
    """Billing's reply: the bank says no."""

    order_id: str
    reason: str


@rowbus.command("Shop.ShipOrder")
@dataclass(frozen=True)
class ShipOrder:
    """To Shipping: bring this to the customer."""

    order_id: str
    customer: str
    country: str


@rowbus.event("Shop.OrderShipped")
@dataclass(frozen=True)
class OrderShipped:
    """An event, published by Shipping: the order is on its way. Sales and Billing subscribe."""

    order_id: str
    tracking: str
