"""The web shop: reads a file of orders and sends them to Sales, first at a quiet hour's pace, then the rest at once.

A line of the file is a JSON object, the shape of `PlaceOrder`. The quiet hour shows how long an order takes in an idle
system, the rush how many go through in a second.

Invariant: each line that is not blank becomes exactly one `Line`: an order, or the reason why it is none. It is
recorded in the transaction that sends its order, so what was read and what was sent are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

import rowbus
from rowbus.demo.messages import ESTIMATE_IS_WANTED_FOR, SCHEMA, EstimateDelivery, PlaceOrder
from rowbus.demo.statements import ask

if TYPE_CHECKING:
    from rowbus.database.sessions import Session

QUIET_LINES = 200
QUIET_RATE = 100.0  # lines a second
CHUNK = 500  # lines a transaction in the rush
LONGEST_ORDER_ID = 100
_BOM = b"\xef\xbb\xbf"
_NUL = b"\\u0000"
_decoder = msgspec.json.Decoder(PlaceOrder)


class Line(NamedTuple):
    """One line of the file: an order, or the problem with it."""

    number: int
    order: PlaceOrder | None
    problem: str | None


def default_file() -> Path:
    """Return the file of orders that comes with Rowbus."""
    return Path(__file__).with_name("orders.ndjson")


def count_lines(path: Path) -> int:
    """Count the lines that are not blank; raises ConfigurationError for a file that is missing, unreadable or empty."""
    if path.exists() and not path.is_file():
        raise rowbus.ConfigurationError(f"{path} is not a file; give a file with one JSON order a line.")
    try:
        with path.open("rb") as file:
            count = sum(1 for text in file if text.strip())
    except OSError as error:
        raise rowbus.ConfigurationError(
            f"The orders cannot be read: {error}. Give a file with one JSON order a line."
        ) from error
    if count == 0:
        raise rowbus.ConfigurationError(f"{path} holds no orders; give a file with one JSON order a line.")
    return count


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines that are not blank, in order."""
    first_line_of: dict[str, int] = {}
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if text.strip():
                yield _once(_read(number, text), first_line_of)


def _read(number: int, text: bytes) -> Line:
    try:
        order = _decoder.decode(text.removeprefix(_BOM) if number == 1 else text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return Line(number, None, f"not an order: {error}")
    return Line(number, order, _unstorable(order, text))


def _unstorable(order: PlaceOrder, text: bytes) -> str | None:
    if _NUL in text:
        return "not an order: it holds a NUL character, which PostgreSQL does not store"
    if not all(item.unit_price.is_finite() for item in order.items):
        return "not an order: a unit price that is no number"
    if not order.order_id.isprintable() or not 0 < len(order.order_id) <= LONGEST_ORDER_ID:
        return (
            f"not an order: its order_id is empty, unprintable or longer than {LONGEST_ORDER_ID} characters"
        )
    return None


def _once(line: Line, first_line_of: dict[str, int]) -> Line:
    """Let an order id pass once; what comes after is a duplicate of it."""
    if line.order is None or line.problem is not None:
        return Line(line.number, None, line.problem)
    first = first_line_of.setdefault(line.order.order_id, line.number)
    if first != line.number:
        return Line(line.number, None, f"duplicate of line {first}")
    return line


class WebShop:
    """Sends orders on its own connection, as any program does that has business data to write as well."""

    def __init__(self, session: Session) -> None:
        """Use a session in autocommit mode; each batch of lines is one transaction on it."""
        self._session = session
        self._client = rowbus.Client(session.connection, schema=SCHEMA)
        self.sent = 0

    def quiet_hour(self, lines: Iterator[Line]) -> Iterator[None]:
        """Send the first lines one by one, with sleeps between them; yield after each."""
        began = time.monotonic()
        for position, line in enumerate(islice(lines, QUIET_LINES)):
            time.sleep(max(0.0, began + position / QUIET_RATE - time.monotonic()))
            self._send([line], rush=False)
            yield

    def rush(self, lines: Iterator[Line]) -> Iterator[None]:
        """Send all other lines as fast as they go; yield after each transaction."""
        while chunk := list(islice(lines, CHUNK)):
            self._send(chunk, rush=True)
            yield

    def _send(self, lines: Sequence[Line], *, rush: bool) -> None:
        orders = [line.order for line in lines if line.order is not None]
        with self._session.transaction():
            ask(
                self._session,
                "record_lines",
                rush=rush,
                numbers=[line.number for line in lines],
                order_ids=[line.order and line.order.order_id for line in lines],
                problems=[line.problem for line in lines],
                tokens=[line.order and line.order.payment.token for line in lines],
                express=[line.order is not None and line.order.express for line in lines],
            )
            self._client.send_many("Sales", orders)
            self._client.send_many("Sales", _questions(orders), time_to_be_received=ESTIMATE_IS_WANTED_FOR)
        self.sent += len(lines)


def _questions(orders: Iterable[PlaceOrder]) -> Iterator[EstimateDelivery]:
    return (EstimateDelivery(order.order_id, order.country) for order in orders if order.express)
