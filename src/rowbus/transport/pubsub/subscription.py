"""Subscriptions: topics, and the limits of the table they are written in (docs/wire-format.md#subscriptions).

A topic is a type's name on the wire. A publisher looks for the subscribers of an event's own type and of all its
parents; a subscriber is written down under exactly the types it asked for.

Invariant: what does not fit the table NServiceBus made is refused before any I/O, never cut.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rowbus.messages.address import QueueAddress

LONGEST: Final = 200
"""Characters that fit into each column of the table: varchar(200)."""

EVERY_EVENT: Final = ("NServiceBus.IEvent", "NServiceBus.IMessage", "System.Object")
"""What every .NET event is too, so that .NET subscribers may be written down under these names."""


class TopicSubscription(NamedTuple):
    """One endpoint's subscription to one topic; its copies go to `queue`, a canonical address as it was written."""

    endpoint: str
    topic: str
    queue: str


@lru_cache(maxsize=1000)
def topics_of(types: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics under which subscribers of an event of these types, its own and its parents', may be found."""
    return tuple(dict.fromkeys((*types, *EVERY_EVENT)))


def check_subscription(endpoint: str, topics: Iterable[str], address: QueueAddress) -> None:
    """Raise ConfigurationError if a subscription cannot be written down."""
    _check("The endpoint's name", endpoint)
    _check("The queue's address", address.canonical)
    for topic in topics:
        _check("The type's name", topic)


def _check(what: str, text: str) -> None:
    if not text or "\0" in text:
        raise ConfigurationError(f"{what} {text!r} cannot be part of a subscription.")
    if len(text) > LONGEST:
        raise ConfigurationError(
            f"{what} {text[:LONGEST]!r}… has {len(text)} characters; the table of subscriptions, which is shared with "
            f"NServiceBus, holds {LONGEST}."
        )
