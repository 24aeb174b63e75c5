"""Reads a file of orders: one JSON object a line, the shape of `PlaceOrder`.

Invariant: every line that is not blank becomes exactly one `Line`, whatever is in it: an order, or the reason why it is
none. Nothing in a file raises; only a file that cannot be read at all does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rowbus.demo.messages import PlaceOrder
from rowbus.errors import ConfigurationError

LONGEST_ORDER_ID = 100
_BOM = b"\xef\xbb\xbf"
_NUL = b"\\u0000"
_decoder = msgspec.json.Decoder(PlaceOrder)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file: an order, or the problem with it."""

    number: int
    order: PlaceOrder | None
    problem: str | None

    @property
    def order_id(self) -> str | None:
        """The order's id; none if there is no order."""
        return None if self.order is None else self.order.order_id


def default_file() -> Path:
    """Return the file of orders that comes with Rowbus."""
    return Path(__file__).with_name("orders.ndjson")


def count_lines(path: Path) -> int:
    """Count the lines that are not blank; raises ConfigurationError for a file that is missing, unreadable or empty."""
    if path.exists() and not path.is_file():
        raise ConfigurationError(f"{path} is not a file; give a file with one JSON order a line.")
    try:
        with path.open("rb") as file:
            count = sum(1 for text in file if text.strip())
    except OSError as error:
        raise ConfigurationError(
            f"The orders cannot be read: {error}. Give a file with one JSON order a line."
        ) from error
    if count == 0:
        raise ConfigurationError(f"{path} holds no orders; give a file with one JSON order a line.")
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
