"""A rate limit as a value: so many messages in a span of time, some of them at once, for each key.

Invariant: pure; a key that the table could not hold is replaced by a digest, and different keys stay different.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import ConfigurationError, HandlerError
from rowbus.running.functions import check_function, described, is_unawaited
from rowbus.transport.queues.records.keys import digest_of, key_of

if TYPE_CHECKING:
    from rowbus.messages.address import Addresses, QueueAddress

LIMITS: Final = "Limits"
"""The qualifier of the table: `Billing.Limits`."""

By = str | Callable[[Any], object]
"""A field of messages, or a function of a message: either gives its key, whose text counts."""

LARGEST_BURST: Final = 1_000_000
SLOWEST: Final = 7 * 24 * 3600.0  # seconds between two messages
_AT_ONCE: Final = 0.1  # seconds whose messages may come at once, if nothing else is said
_SECONDS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_RATE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(second|minute|hour|day)\s*")


@dataclass(frozen=True)
class RateLimit:
    """So many messages in a span of time, in all instances together: `RateLimit("10/second", by=…, burst=20)`.

    `rate` is a number and `second`, `minute`, `hour` or `day`; messages are spread over it evenly. `by` names
    a field of the message, or takes it and returns the key that has this limit for itself, such as a customer's id;
    None: all messages together.
    `burst` is how many may come at once after a rest: in any span of that length come at most the rate's number and
    `burst - 1` more. By default as many as come in a tenth of a second, at least 1. Raises ConfigurationError.
    """

    rate: str
    by: By | None = None
    burst: int | None = None

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        found = _RATE.fullmatch(str(self.rate))
        if found is None or float(found[1]) <= 0 or _SECONDS[found[2]] / float(found[1]) > SLOWEST:
            raise ConfigurationError(
                f'{self.rate!r} is no rate: write a number and a span, as in "10/second", "100/minute", "5000/hour" '
                'or "1/day"; at least one in a week.'
            )
        if self.burst is not None and not 1 <= self.burst <= LARGEST_BURST:
            raise ConfigurationError(f"burst is {self.burst}; it must be from 1 to {LARGEST_BURST}.")
        check_by(self.by)

    @property
    def interval(self) -> float:
        """The seconds between two messages."""
        found = _RATE.fullmatch(self.rate)
        assert found is not None  # noqa: S101 - as it was when this was made
        return _SECONDS[found[2]] / float(found[1])

    @property
    def at_once(self) -> int:
        """The number of messages that may come at once."""
        default = math.floor(_AT_ONCE / self.interval + 1e-9)
        return max(1, min(default, LARGEST_BURST)) if self.burst is None else self.burst

    def bucket(self, name: str, message: object) -> Bucket:
        """Return where a message's tokens are; `name` tells limits of one endpoint apart. Raises what `by` raises."""
        return Bucket(limit_key(name, self.by, message), self.interval, self.at_once)


class Bucket(NamedTuple):
    """Tokens of one key: one more every `interval` seconds, until there are `burst`."""

    key: str
    interval: float
    burst: int


def check_by(by: By | None) -> None:
    """Raise ConfigurationError for what gives no key."""
    if by == "":
        raise ConfigurationError("by is ''; give the name of a field, a function of the message, or nothing.")
    if by is not None and not isinstance(by, str):
        check_function(by, "by, which gives the key of a limit,", "message")


def limit_key(name: str, by: By | None, message: object) -> str:
    """Return the key of a message's limit; `name` tells limits of one endpoint apart.

    Raises HandlerError for a message without the field and for a key that has to be awaited, which is another each
    time, and what `by` raises.
    """
    return bucket_key(name if by is None else f"{name}/{_key(name, by, message)}")


def bucket_key(text: str) -> str:
    """Return the key under which tokens are kept: a text that people can read, or a digest."""
    return key_of(text) if text.isprintable() else digest_of(text)


def _key(name: str, by: By, message: object) -> object:
    if isinstance(by, str):
        return _field(name, by, message)
    key = by(message)
    if is_unawaited(key):
        raise HandlerError(f"The key of a limit has to be awaited, and nothing awaits it: {described(by)}.")
    return key


def _field(name: str, field: str, message: object) -> object:
    try:
        return message[field] if isinstance(message, Mapping) else getattr(message, field)
    except (KeyError, AttributeError) as error:
        raise HandlerError(
            f"The limit of {name} is by {field}, and this message has no such field: send it with one."
        ) from error


def limits_address(endpoint: str, addresses: Addresses) -> QueueAddress:
    """Return the table of an endpoint's limits. Raises ConfigurationError where there can be none."""
    address: QueueAddress = addresses.for_endpoint(endpoint, qualifier=LIMITS)
    if address.backend != "postgresql":
        raise ConfigurationError(
            f"Endpoint {endpoint} has a rate limit: these work on PostgreSQL alone. On SQL Server bound what is "
            "processed at a time: EndpointSettings(concurrency=…)."
        )
    return address
