"""The web shop: sends the orders of the file to Sales, first at a quiet hour's pace, then all that is left at once.

The quiet hour shows how long an order takes when nobody is in its way, the rush how many go through in a second.

Invariant: a line is recorded in the transaction that sends its order, so what was read and what was sent are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import rowbus
from rowbus.demo.messages import ESTIMATE_IS_WANTED_FOR, SCHEMA, EstimateDelivery, PlaceOrder
from rowbus.demo.statements import execute

if TYPE_CHECKING:
    from rowbus.database.sessions import Session
    from rowbus.demo.orders import Line

QUIET_LINES = 200
QUIET_RATE = 100.0  # lines a second
CHUNK = 500  # lines a transaction in the rush


class WebShop:
    """Sends orders on its own connection, as any program does that has business data to write as well."""

    def __init__(self, session: Session) -> None:
        """Use a session in autocommit mode; each batch of lines is one transaction on it."""
        self._session = session
        self._client = rowbus.Client(session.connection, schema=SCHEMA)
        self.sent = 0

    def quiet_hour(self, lines: Iterator[Line]) -> Iterator[None]:
        """Send the first lines one by one, and sleep in between; come up for air after each."""
        began = time.monotonic()
        for position, line in enumerate(islice(lines, QUIET_LINES)):
            time.sleep(max(0.0, began + position / QUIET_RATE - time.monotonic()))
            self._send([line], rush=False)
            yield

    def rush(self, lines: Iterator[Line]) -> Iterator[None]:
        """Send all other lines as fast as they go; come up for air after each transaction."""
        while chunk := list(islice(lines, CHUNK)):
            self._send(chunk, rush=True)
            yield

    def _send(self, lines: Sequence[Line], *, rush: bool) -> None:
        orders = [line.order for line in lines if line.order is not None]
        with self._session.transaction():
            self._record(lines, rush=rush)
            self._client.send_many("Sales", orders)
            self._client.send_many("Sales", _questions(orders), time_to_be_received=ESTIMATE_IS_WANTED_FOR)
        self.sent += len(lines)

    def _record(self, lines: Sequence[Line], *, rush: bool) -> None:
        execute(
            self._session,
            "record_lines",
            rush=rush,
            numbers=[line.number for line in lines],
            order_ids=[line.order_id for line in lines],
            problems=[line.problem for line in lines],
            tokens=[None if line.order is None else line.order.payment.token for line in lines],
            express=[line.order is not None and line.order.express for line in lines],
        )


def _questions(orders: Iterable[PlaceOrder]) -> Iterator[EstimateDelivery]:
    return (EstimateDelivery(order.order_id, order.country) for order in orders if order.express)
