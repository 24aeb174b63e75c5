"""Bookkeeping: keeps books of its own from the log of changes, and knows nothing of the endpoints.

The tables `orders` and `payments` are captured by triggers: each change is an event with the row as it is now and, for
an update, with the row as it was. So a change is booked by taking off the old row and adding the new one.

Invariant: the books and the position in the log change in one transaction, so every change is booked once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import rowbus
from rowbus.demo.messages import SCHEMA
from rowbus.demo.statements import sql

LOG = SCHEMA
CONSUMER = "bookkeeping"
CAPTURED = ("orders", "payments")
BOOK_REVENUE = sql("book_revenue")
BOOK_ORDERS = sql("book_orders")
CLOSE = sql("close_books")

log = rowbus.Log(None, LOG)


class Change(NamedTuple):
    """A row of a table that is there now (+1) or no longer is (-1)."""

    table: str
    sign: int
    row: Mapping[str, str]


@log.consumer(CONSUMER, batch=True)
async def book(events: Sequence[rowbus.Event], context: rowbus.LogContext) -> None:
    """Book what lies between two ticks."""
    orders: defaultdict[str, int] = defaultdict(int)
    payments: defaultdict[str, int] = defaultdict(int)
    amounts: defaultdict[str, Decimal] = defaultdict(Decimal)
    for change in changes(events):
        if change.table == "orders":
            orders[change.row["state"]] += change.sign
        elif change.row["state"] == "charged":
            payments[change.row["currency"]] += change.sign
            amounts[change.row["currency"]] += change.sign * Decimal(change.row["amount"])
    for state, number in orders.items():
        await context.connection.execute(BOOK_ORDERS, {"state": state, "orders": number})
    for currency, amount in amounts.items():
        revenue = {"currency": currency, "payments": payments[currency], "amount": amount}
        await context.connection.execute(BOOK_REVENUE, revenue)
    closing = {
        "batch": context.batch.id,
        "events": len(events),
        "oldest": min(event.time for event in events),
    }
    await context.connection.execute(CLOSE, closing)


def changes(events: Sequence[rowbus.Event]) -> Iterator[Change]:
    """Take events apart: what an insert or an update leaves is added, what an update or a delete found is taken off."""
    for event in events:
        about = json.loads(event.type or "{}")
        table = about["table"][1]
        yield Change(table, -1 if about["op"] == "DELETE" else 1, json.loads(event.data or "{}"))
        if event.extra2 is not None:  # the row as it was before an update
            yield Change(table, -1, json.loads(event.extra2))
