"""The shop's products and currencies, and the orders that it takes.

Invariant: `problem_with` answers for every order; it never raises.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from rowbus.demo.messages import Item, PlaceOrder


class _Catalogue(msgspec.Struct):
    products: dict[str, tuple[str, Decimal]]
    currencies: dict[str, Decimal]


_catalogue = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_Catalogue)

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
