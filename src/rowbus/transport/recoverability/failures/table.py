"""A long error queue: the operations of those who page through it and search it, on every database.

Invariant: nothing here names a database.
"""

from __future__ import annotations

from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rowbus.database.backends import backend_class, bound_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.transport.recoverability.failed_message import FailedMessage


class Copy(NamedTuple):
    """A message of any queue, as its headers tell of it: `headers` is their text."""

    row_id: str
    seq: int
    headers: str


class FailuresTable(Protocol):
    """Statements on one error queue, or on an audit queue; none locks anything."""

    def positions(self, most: int) -> Statement[list[int]]:
        """Ask where messages are, the newest first, up to so many."""
        raise NotImplementedError

    def stories(self, positions: Sequence[int]) -> Statement[list[FailedMessage]]:
        """Read the stories of the messages at these positions, in any order, without those that are gone."""
        raise NotImplementedError

    def containing(self, positions: Sequence[int], text: str) -> Statement[list[int]]:
        """Find which of the messages at these positions hold a text: in their headers, or in bodies up to 1 MiB.

        The text is looked for as it is, and as JSON writes it with and without escapes of other letters than ASCII's.
        """
        raise NotImplementedError

    def newest_with(self, text: str, *, looked_at: int, most: int) -> Statement[list[Copy]]:
        """Find messages whose headers hold a text, among the newest, the oldest first."""
        raise NotImplementedError

    def bound_time(self, seconds: float) -> Statement[None]:
        """Have no statement of this transaction run longer."""
        raise NotImplementedError


def failures_table(address: QueueAddress) -> FailuresTable:
    """Return the statements on an error queue, for those who page through it. No I/O."""
    table: FailuresTable = bound_table("rowbus.transport.recoverability.failures", "FailuresTable", address)
    return table


def newest_holding(
    addresses: Sequence[QueueAddress], text: str, *, looked_at: int, most: int, bodies: bool
) -> Statement[dict[QueueAddress, list[int]]]:
    """Find which of the newest messages of some queues hold a text, as `containing` does; PostgreSQL's only.

    Gives positions, the newest first, up to `most` of each queue; `bodies`: whether these are looked into.
    """
    find = backend_class("rowbus.transport.recoverability.failures", addresses[0].backend, "newest_holding")
    found: Statement[dict[QueueAddress, list[int]]] = find(
        addresses, text, looked_at=looked_at, most=most, bodies=bodies
    )
    return found


def written(text: str) -> list[str]:
    """Return the ways in which headers and bodies write a text; none holds NUL, which no column of text does."""
    ways = (text, encode_basestring(text)[1:-1], encode_basestring_ascii(text)[1:-1])
    return [way for way in dict.fromkeys(ways) if "\0" not in way]
