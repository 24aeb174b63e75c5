"""A payment gateway and a carrier that exist in this module only.

The gateway's answer depends on the card, as with the test cards of real ones:

| token                    | what happens                                       |
| ------------------------ | -------------------------------------------------- |
| `tok_insufficient_funds` | refused                                            |
| `tok_expired_card`       | refused                                            |
| `tok_stolen_card`        | refused                                            |
| `tok_slow_bank`          | times out at the first attempt, then works         |
| `tok_sleepy_bank`        | is down until the first delayed retry              |
| `tok_broken_bank`        | is down until it is mended                         |
| anything else            | charged                                            |

The table `outages` says which bank is down, because all processes must see the same, and one of them mends it.

Invariant: a refusal is an answer, never retried; an outage is an exception, which Rowbus retries. The same order always
gets the same tracking number, as from a carrier whose booking is idempotent.
"""

from __future__ import annotations

import zlib
from collections import Counter

import rowbus

SLOW_BANK = "tok_slow_bank"
REFUSALS = {
    "tok_insufficient_funds": "insufficient funds",
    "tok_expired_card": "the card has expired",
    "tok_stolen_card": "the card was reported stolen",
}
NO_ROUTE_TO = frozenset({"AQ"})  # Antarctica


class CardRefusedError(Exception):
    """The bank has answered: no."""


class GatewayTimeoutError(Exception):
    """The bank has not answered in time; it may at the next attempt."""


class GatewayDownError(Exception):
    """The bank's side is down."""


class NoRouteError(rowbus.Unrecoverable):
    """No carrier delivers there, however often it is asked: no retries, straight to the error queue."""


class Gateway:
    """The gateway, as one process sees it."""

    def __init__(self) -> None:
        """Begin with no attempts."""
        self._attempts = Counter[str]()

    async def charge(self, order_id: str, token: str, *, is_down: bool) -> int:
        """Charge a card and return the number of attempts that took, of those that reached the bank.

        Raises CardRefusedError, GatewayTimeoutError, GatewayDownError.
        """
        if is_down:
            raise GatewayDownError("502 Bad Gateway")
        self._attempts[order_id] += 1
        if token in REFUSALS:
            raise CardRefusedError(REFUSALS[token])
        if token == SLOW_BANK and self._attempts[order_id] == 1:
            raise GatewayTimeoutError("no answer within 10 s")
        return self._attempts.pop(order_id)


def book_parcel(order_id: str, country: str) -> str:
    """Book a parcel and return its tracking number; raises NoRouteError."""
    if country in NO_ROUTE_TO:
        raise NoRouteError(f"no carrier delivers to {country}", country=country)
    return f"RB{zlib.crc32(order_id.encode()):010d}{country[:2].upper()}"
