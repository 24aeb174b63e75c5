"""A carrier that is not there, and the one country it does not deliver to.

Invariant: the same order always gets the same tracking number, as from a carrier whose booking is idempotent.
"""

from __future__ import annotations

import zlib

import rowbus

NO_ROUTE_TO = frozenset({"AQ"})  # Antarctica


class NoRouteError(rowbus.Unrecoverable):
    """Nobody delivers there, however often we ask: no retries, straight to the error queue."""


def book_parcel(order_id: str, country: str) -> str:
    """Book a parcel and return its tracking number; raises NoRouteError."""
    if country in NO_ROUTE_TO:
        raise NoRouteError(f"no carrier delivers to {country}", country=country)
    return f"RB{zlib.crc32(order_id.encode()):010d}{country[:2].upper()}"
