"""The rate limits of an endpoint and of its handlers: given, found for a message, and checked.

Invariant: a message whose key cannot be found has no limit here; its handler fails it with the reason.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from rowbus.endpoint.decisions import is_control
from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header, decode_headers
from rowbus.running.scope import contained
from rowbus.settings import TransactionMode
from rowbus.transport.claims.claim_check import off_the_wire
from rowbus.transport.limits.decisions import LimitedMessage
from rowbus.transport.limits.gate import Gate
from rowbus.transport.limits.rate import RateLimit
from rowbus.transport.queues.catalog.table import catalog_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.steps import Runs
    from rowbus.endpoint.handlers import Handler
    from rowbus.endpoint.parts import Parts
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow
    from rowbus.transport.limits.rate import Bucket

logger = logging.getLogger("rowbus.limits")


class Finder:
    """Finds the limits of a message: those of its handlers, each with the key that the message has there."""

    def __init__(self, parts: Parts) -> None:
        """Read messages as the endpoint does. No I/O."""
        self._handlers = parts.handlers
        self._mutators = parts.mutators
        self._here = ("", *(address.canonical for address in parts.inputs))

    async def find(self, row: MessageRow, session: Runs) -> LimitedMessage[MessageRow] | None:
        """Return the limits of a message; None for one that has none, or whose handling will fail.

        Claimed values that are in a table are read on the session.
        """
        try:
            headers = decode_headers(row.headers)
            handlers = self._limited_handlers(headers)
            if not handlers:
                return None
            body = await off_the_wire(headers, row.body or b"", self._mutators, session)
            buckets = contained(partial(_buckets, handlers, headers, body))
        except Exception as error:  # noqa: BLE001 - a key function may raise anything; the handler will, too
            logger.debug("The limits of row %s could not be found: %s", row.id, error)
            return None
        return LimitedMessage(row, buckets, waited=Header.RATE_LIMITED in headers)

    def _limited_handlers(self, headers: Mapping[str, str | None]) -> list[Handler]:
        elsewhere = (headers.get(Header.FORWARD_DESTINATION) or "") not in self._here
        if elsewhere or is_control(headers):
            return []
        plan = self._handlers.plan(headers.get(Header.ENCLOSED_MESSAGE_TYPES))
        return [handler for handler in plan if handler.limit is not None]


def _buckets(
    handlers: Sequence[Handler], headers: Mapping[str, str | None], body: bytes
) -> tuple[Bucket, ...]:
    return tuple(_bucket(handler, headers, body) for handler in handlers)


def _bucket(handler: Handler, headers: Mapping[str, str | None], body: bytes) -> Bucket:
    limit = handler.limit
    assert limit is not None  # noqa: S101 - it was chosen for that
    message = handler.read(body, headers.get(Header.CONTENT_TYPE))
    return limit.bucket(handler.read.name, message)


class RateLimits:
    """The part of an endpoint that limits what it receives."""

    name: str
    _limit: RateLimit | None
    _running: Any

    def _parts(self) -> Parts:
        raise NotImplementedError

    @property
    def limits_table(self) -> QueueAddress | None:
        """The table of the endpoint's rate limits, None unless it has some."""
        return self._parts().limits

    def limit(self, rate: str, *, burst: int | None = None) -> None:
        """Receive so many messages in a span of time, in all instances together: `endpoint.limit("100/minute")`.

        The others wait in the queue; nothing else is done with them. `burst` is how many may come at once after a rest;
        see `RateLimit`, with which a handler limits its messages, or those of each key. Raises ConfigurationError, also
        when the endpoint is started.
        """
        if self._running is not None:
            raise ConfigurationError(f"Endpoint {self.name} is started: limit it before.")
        self._limit = RateLimit(rate, burst=burst)


def check_limits(parts: Parts) -> None:
    """Raise ConfigurationError for limits of handlers that the endpoint cannot keep."""
    if not parts.handlers.limits():
        return
    if parts.settings.transaction_mode is TransactionMode.NONE:
        raise ConfigurationError(
            "In mode NONE a message is gone once it is received, so it cannot wait for a handler's rate limit: use "
            "another mode, or endpoint.limit(…)."
        )
    if parts.delayed_delivery is None:
        raise ConfigurationError(
            f"Endpoint {parts.name} has a handler with a rate limit, and nowhere to keep its messages until then: "
            "leave delayed delivery switched on, or use endpoint.limit(…)."
        )


def make_gate(parts: Parts) -> Gate | None:
    """Return the gate of an endpoint with limits. Raises ConfigurationError."""
    check_limits(parts)
    if parts.limits is None:
        return None
    whole = None if parts.limit is None else parts.limit.bucket("", None)
    find = Finder(parts).find if parts.handlers.limits() else None
    return Gate(parts.limits, whole, find, catalog_of(parts.addresses).clock)
