"""Due messages as their mover has them in hand, and how far it has passed some over.

Invariant: values only, of every database.
"""

from __future__ import annotations

from typing import NamedTuple


class DueMessage(NamedTuple):
    """A message locked by this transaction, to be moved: the row's id, the raw header text.

    `moment` is when it became due, in microseconds since 1970, where that was asked for.
    """

    id: str
    headers: str
    moment: int = 0


class PassedOver(NamedTuple):
    """How far the messages go that are passed over: all that became due before a moment, and these at that moment."""

    moment: int
    ids: tuple[str, ...]
