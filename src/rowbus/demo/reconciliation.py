"""Proves from the database that no order was lost, doubled or half done.

Each check is a file in `sql/checks/` that counts what it looked at and what is wrong with it, so that anyone can run it
in psql and see for themselves.

Invariant: a check that looked at nothing proves nothing, and says so: it shows how much it has checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from rowbus.demo.messages import (
    BANK_IS_ASKED_AGAIN_AFTER,
    ESTIMATE_IS_WANTED_FOR,
    PAYMENT_IS_DUE_AFTER,
)
from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

CHECKS: Mapping[str, str] = {
    "all_read": "Every line of the file was read",
    "one_final_state": "Every line is in exactly one final state",
    "from_the_file": "Every business row belongs to one line",
    "one_payment": "Every order has the one payment its state asks for, or none",
    "one_shipment": "Every shipped order has one shipment, no other has any",
    "amounts": "Items, order and payment agree on the amount",
    "revenue": "Sales and Billing agree on the revenue in each currency",
    "failures_undone": "A failed message left nothing behind but itself",
    "delayed_retries": "A charge whose bank slept has worked at the delayed retry",
    "put_back": "A charge put back from the error queue has worked, once",
    "both_subscribers": "Each shipment was announced to Sales and Billing, once each",
    "reminders": "Each order unpaid when due has one reminder, no other has any",
    "estimates_in_time": "Questions were answered once and in time, or not at all",
    "books_revenue": "The books kept from the log have the revenue of the payments",
    "books_orders": "The books kept from the log have every order in its state",
    "queues_empty": "No message is left in a queue",
}

SPARK_CHECKS: Mapping[str, str] = {
    "replica_orders": "Spark's replica of the orders equals them, row by row",
    "replica_payments": "Spark's replica of the payments equals them, row by row",
    "archive": "Spark's archive equals the log, event by event",
}
"""What is checked besides, if Spark was at work."""


class Check(NamedTuple):
    """The result of one check: how much was looked at, how much of it is wrong, and an example of that."""

    name: str
    title: str
    checked: int
    wrong: int
    example: str | None

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.wrong == 0


def reconcile(session: Session, *, lines: int, with_spark: bool = False) -> list[Check]:
    """Run all checks, for a file of so many lines; to be called when nobody changes anything any more."""
    checks = {**CHECKS, **(SPARK_CHECKS if with_spark else {})}
    parameters = {
        "lines": lines,
        "wanted_for": ESTIMATE_IS_WANTED_FOR,
        "due_after": PAYMENT_IS_DUE_AFTER,
        "again_after": BANK_IS_ASKED_AGAIN_AFTER,
    }
    return [
        Check(name, title, *found)
        for name, title in checks.items()
        for found in ask(session, f"checks/{name}", tuple[int, int, str | None], **parameters)
    ]
