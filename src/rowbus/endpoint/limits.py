"""The limits of an endpoint and of its handlers: given, found for a message, and checked.

Invariant: a message whose key cannot be found has no limit here; its handler fails it with the reason.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header, decode_headers, is_control
from rowbus.messages.message import ReadMessage
from rowbus.running.scope import contained
from rowbus.settings import TransactionMode
from rowbus.transport.claims.claim_check import off_the_wire
from rowbus.transport.limits.concurrency import MOST, Concurrency, CrowdedMessage, Limit, Places
from rowbus.transport.limits.decisions import LimitedMessage
from rowbus.transport.limits.gate import Gate
from rowbus.transport.limits.places import Guess, PlaceKeeper
from rowbus.transport.limits.rate import RateLimit, bucket_key
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rowbus.database.statements import Runs
    from rowbus.endpoint.handlers import Handler
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.message import MessageRow
    from rowbus.messages.message_types import Deserializer
    from rowbus.transport.pauses.scale import TypeLimits

logger = logging.getLogger("rowbus.limits")

L = TypeVar("L", RateLimit, Concurrency)
B = TypeVar("B")


class Finder:
    """Finds the limits of a message: those of its handlers, each with the key that the message has there."""

    def __init__(self, parts: Parts, said: TypeLimits | None = None) -> None:
        """Read messages as the endpoint does; `said` is what operators say of their types. No I/O."""
        self._said = said
        self._handlers = parts.handlers
        self._mutators = parts.mutators
        self._here = ("", *(address.canonical for address in parts.inputs))

    async def find_buckets(
        self, rows: Sequence[MessageRow], session: Runs
    ) -> list[LimitedMessage[MessageRow]]:
        """Return messages that need tokens, with their buckets, but for those whose handling will fail.

        Claimed values that are in a table are read on the session.
        """
        found = [await self._find(row, session, RateLimit, RateLimit.bucket) for row in rows]
        return [
            LimitedMessage(read.row, buckets, Header.RATE_LIMITED in read.headers)
            for read, buckets in found
            if buckets
        ]

    async def find_places(self, rows: Sequence[MessageRow], session: Runs) -> list[CrowdedMessage]:
        """Return messages that need places; as `find_buckets`."""
        said: Mapping[str, int] = {} if self._said is None else self._said.said
        found = [await self._find(row, session, Concurrency, Concurrency.places) for row in rows]
        if said:
            found = [(read, (*own, *self._find_said(read.headers, said))) for read, own in found]
        return [CrowdedMessage(read, places) for read, places in found if places]

    def _find_said(self, headers: Mapping[str, str | None], said: Mapping[str, int]) -> list[Places]:
        """Return the places by what operators say of a message's types."""
        plan = self._plan(headers)
        mosts = {one.read.name: said.get(one.read.name, MOST) for one in plan}
        for one in plan:
            if one.is_long and mosts[one.read.name]:  # no transaction would hold its place; it can be paused
                mosts[one.read.name] = MOST
        return [Places(bucket_key(f"{name} in hand"), most) for name, most in mosts.items() if most < MOST]

    async def _find(
        self, row: MessageRow, session: Runs, kind: type[L], find: Callable[[L, str, object], B]
    ) -> tuple[ReadMessage, tuple[B, ...]]:
        """Return a message as far as it can be read, and what is found by each of its limits of a kind."""
        headers: dict[str, str | None] = {}
        objects: dict[object, object] = {}
        found: tuple[B, ...] = ()
        try:
            headers = decode_headers(row.headers)
            if limits := self._limits(headers, kind):
                body, made = row.body or b"", objects
                if self._mutators:  # its handlers get what these return
                    body, made = await off_the_wire(headers, body, self._mutators, session), {}
                content_type = headers.get(Header.CONTENT_TYPE)
                found = contained(partial(_find_each, limits, find, body, content_type, made))
        except Exception as error:  # noqa: BLE001 - a key function may raise anything; the handler will, too
            logger.debug("The limits of row %s could not be found: %s", row.id, error)
        return ReadMessage(row, headers, objects), found

    def _limits(self, headers: Mapping[str, str | None], kind: type[L]) -> list[tuple[L, Deserializer]]:
        plan = self._plan(headers)
        return [(handler.limit, handler.read) for handler in plan if isinstance(handler.limit, kind)]

    def _plan(self, headers: Mapping[str, str | None]) -> Sequence[Handler]:
        elsewhere = (headers.get(Header.FORWARD_DESTINATION) or "") not in self._here
        if elsewhere or is_control(headers):
            return ()
        return self._handlers.plans[headers.get(Header.ENCLOSED_MESSAGE_TYPES)]


def _find_each(
    limits: Sequence[tuple[L, Deserializer]],
    find: Callable[[L, str, object], B],
    body: bytes,
    content_type: str | None,
    objects: dict[object, object],
) -> tuple[B, ...]:
    """Read a message for each of its limits, and return what is found by it."""
    for _limit, read in limits:
        objects[read] = read(body, content_type)
    return tuple([find(limit, read.name, objects[read]) for limit, read in limits])


def check_limits(parts: Parts) -> None:
    """Raise ConfigurationError for limits of handlers that the endpoint cannot keep."""
    limited = parts.handlers.limited(Limit)
    if not limited:
        return
    if parts.settings.transaction_mode is TransactionMode.NONE:
        raise ConfigurationError(
            "In mode NONE a message is gone once it is received, so it cannot wait for a handler's limit: use another "
            "mode, or endpoint.limit(…)."
        )
    if not parts.can_delay:
        raise ConfigurationError(
            f"Endpoint {parts.name} has a handler with a limit, and nowhere to keep its messages until then: leave "
            "delayed delivery switched on, or use endpoint.limit(…)."
        )
    _check_places(parts)


def _check_places(parts: Parts) -> None:
    limited = parts.handlers.limited(Concurrency)
    if limited and parts.address.backend != "postgresql":
        raise ConfigurationError(
            f"Endpoint {parts.name} has a handler with rowbus.Concurrency: it works on PostgreSQL alone. On SQL Server "
            "bound what is processed at a time: EndpointSettings(concurrency=…)."
        )
    for handler in limited:
        if handler.is_long:
            raise ConfigurationError(
                f"{handler.name} takes long, so no transaction holds its place under rowbus.Concurrency: bound what "
                "runs at a time by EndpointSettings(long_concurrency=…), or give it a rowbus.RateLimit."
            )


def make_gate(parts: Parts) -> Gate | None:
    """Return the gate of an endpoint with rate limits. Raises ConfigurationError."""
    check_limits(parts)
    if parts.limits is None:
        return None
    whole = None if parts.limit is None else parts.limit.bucket("", None)
    find = Finder(parts).find_buckets if parts.handlers.limited(RateLimit) else None
    return Gate(parts.limits, whole, find, catalog_of(parts.addresses).clock)


def can_wait(parts: Parts) -> bool:
    """Say whether messages of an endpoint can wait for a place."""
    return (
        parts.address.backend == "postgresql"
        and parts.can_delay
        and parts.settings.transaction_mode is not TransactionMode.NONE
    )


def make_places(parts: Parts, said: TypeLimits) -> PlaceKeeper | None:
    """Return the places of an endpoint whose messages can wait: by its handlers' limits, and by what is said."""
    if not can_wait(parts):
        return None
    limited = parts.handlers.limited(Concurrency)
    guesses = [
        Guess.of(each.read.name, each.limit) for each in limited if isinstance(each.limit, Concurrency)
    ]
    return PlaceKeeper(
        parts.address,
        Finder(parts, said).find_places,
        catalog_of(parts.addresses).clock,
        [each for each in guesses if each is not None],
        has_keys=bool(limited),
        said=said.said,
    )
