"""The shop's products and currencies, and the orders that it takes.

Invariant: `problem_with` answers for every order; it never raises.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowbus.demo.messages import Item, PlaceOrder

PRODUCTS: dict[str, tuple[str, Decimal]] = {
    "BAG-20": ("Rucksack, 20 l", Decimal("79.00")),
    "BAG-45": ("Rucksack, 45 l", Decimal("149.00")),
    "BOT-07": ("Water bottle, 0.7 l", Decimal("19.50")),
    "BOO-42": ("Walking boots", Decimal("189.00")),
    "CMP-01": ("Compass", Decimal("24.90")),
    "HAT-02": ("Sun hat", Decimal("29.00")),
    "JKT-11": ("Rain jacket", Decimal("129.00")),
    "LMP-03": ("Head lamp", Decimal("39.90")),
    "MAP-17": ("Hiking map", Decimal("12.90")),
    "MAT-05": ("Sleeping mat", Decimal("64.50")),
    "POL-12": ("Trekking poles, a pair", Decimal("89.00")),
    "SLP-08": ("Sleeping bag", Decimal("219.00")),
    "SOC-04": ("Wool socks, two pairs", Decimal("22.00")),
    "STV-06": ("Gas stove", Decimal("54.90")),
    "TNT-02": ("Tent for two", Decimal("349.00")),
}
"""Name and price in euro by product number."""

CURRENCIES: dict[str, Decimal] = {
    "EUR": Decimal(1),
    "CHF": Decimal("0.95"),
    "DKK": Decimal("7.46"),
    "GBP": Decimal("0.85"),
    "JPY": Decimal(162),
    "NOK": Decimal("11.70"),
    "PLN": Decimal("4.30"),
    "SEK": Decimal("11.40"),
    "USD": Decimal("1.08"),
}
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
    if not item.unit_price.is_finite() or item.unit_price <= 0:
        return "a unit price that is no price"
    return None


def days_to_deliver(country: str) -> int:
    """Estimate how long a parcel travels."""
    return 2 if country in _NEIGHBOURS else 6
