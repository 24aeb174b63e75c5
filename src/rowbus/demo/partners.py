"""A payment gateway that is not there: what it answers depends on the card, as with the test cards of real ones.

| token                    | what happens                                       |
| ------------------------ | -------------------------------------------------- |
| `tok_insufficient_funds` | refused                                            |
| `tok_expired_card`       | refused                                            |
| `tok_stolen_card`        | refused                                            |
| `tok_slow_bank`          | times out at the first attempt, then works         |
| `tok_sleepy_bank`        | is down until the first delayed retry              |
| `tok_broken_bank`        | is down until somebody mends it                    |
| anything else            | charged                                            |

Which bank is down is in the table `outages`, because every process must see the same, and one of them mends it.

Invariant: a refusal is an answer, never retried; an outage is an exception, which Rowbus retries.
"""

from __future__ import annotations

from collections import Counter

SLOW_BANK = "tok_slow_bank"
REFUSALS = {
    "tok_insufficient_funds": "insufficient funds",
    "tok_expired_card": "the card has expired",
    "tok_stolen_card": "the card was reported stolen",
}


class CardRefusedError(Exception):
    """The bank has answered: no."""


class GatewayTimeoutError(Exception):
    """The bank has not answered in time; it may at the next attempt."""


class GatewayDownError(Exception):
    """The bank's side is down."""


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
