"""A limit of concurrency as a value: so many messages of a key in hand at a time.

Invariant: pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header
from rowbus.transport.limits.rate import RateLimit, check_by, limit_key

if TYPE_CHECKING:
    from rowbus.messages.message import ReadMessage
    from rowbus.transport.limits.rate import By

MOST: Final = 1000
"""Slots of a key, at most: a message may try them all."""


@dataclass(frozen=True)
class Concurrency:
    """At most so many messages in hand at a time, in all instances together: `Concurrency(2, by="customer")`.

    `by` names a field of the message, or takes it and returns the key that has this limit for itself; None: all
    messages of the type together. A message is in hand as long as its transaction is open; what a slot receives
    together it handles one after the other, and that counts as one. Raises ConfigurationError.
    """

    most: int
    by: By | None = None

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        _check_most(self.most)
        check_by(self.by)

    def places(self, name: str, message: object) -> Places:
        """Return where a message has a place; `name` tells limits of one endpoint apart. Raises what `by` raises."""
        return Places(limit_key(name, self.by, message), self.most)


def _check_most(most: object) -> None:
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= MOST:
        raise ConfigurationError(f"most is {most!r}; give a number from 1 to {MOST}.")


Limit = RateLimit | Concurrency
"""The limits that a handler may have."""


class Places(NamedTuple):
    """The places of one key: so many messages of it may be in hand; none while an operator pauses it."""

    key: str
    most: int


class CrowdedMessage(NamedTuple):
    """A message that needs places, as it was read to find them."""

    read: ReadMessage
    places: tuple[Places, ...]

    @property
    def waited(self) -> bool:
        """Whether it was deferred before."""
        return Header.RATE_LIMITED in self.read.headers
