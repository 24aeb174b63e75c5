"""Trying again where a connection is lost.

Invariant: nothing else than a lost connection is tried again.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from rowbus.errors import ConnectionLostError
from rowbus.running.backoff import doubling

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LONGEST = 60.0  # seconds between two tries


def retrying(attempt: Callable[[], T], *, retries: int, first: float) -> T:
    """Return what an attempt returns; if the connection is lost try again, so many times.

    Waits `first` seconds before the first retry, and twice as long before each that follows. Raises what the last
    attempt raised.
    """
    for failures in range(1, retries + 1):
        try:
            return attempt()
        except ConnectionLostError:
            time.sleep(doubling(failures, first=first, most=LONGEST))
    return attempt()
