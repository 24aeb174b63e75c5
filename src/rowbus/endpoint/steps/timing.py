"""Times the handling of each message for the history: the outermost step.

Invariant: changes nothing of a message, nor of what its handling raises.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rowbus.transport.history.teller import HandlingTimes
    from rowbus.transport.receiving.delivery import Delivery, OnMessage


def timed(proceed: OnMessage, times: HandlingTimes) -> OnMessage:
    """Return the step; an attempt that is cancelled has neither succeeded nor failed."""

    async def time(delivery: Delivery) -> None:
        started = perf_counter()
        try:
            await proceed(delivery)
        except Exception:
            times.failed()
            raise
        times.took(perf_counter() - started)

    return time
