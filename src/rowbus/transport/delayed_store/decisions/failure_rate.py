"""The rate at which failures of the error handling become critical: the breaker of NServiceBus's MSMQ transport.

Source: `MaximumRecoveryFailuresPerSecond` (docs/wire-format.md#store-poller): critical are more failures than so many
per second, over 30 s. Two messages are in hand at a time, and each failure is followed by a wait, which bounds the rate
at which they can fail at all: so the wait is chosen so short that twice the permitted rate can be reached.

Invariant: pure; the clock is injected. At every permitted rate: when nothing but failures comes, they become critical
within the window, once; and from then on they are waited out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW: Final = 30.0
"""Seconds over which failures are counted."""

LONGEST_WAIT: Final = 1.0
"""Seconds of the wait after a failure, unless the permitted rate asks for less."""

MARGIN: Final = 2
"""How many times the permitted rate is reached when nothing but failures comes."""


class RecoveryFailure(NamedTuple):
    """What follows from a failure: whether it is the one that makes them critical, and for how many seconds to wait."""

    critical: bool
    wait: float


class FailureRate:
    """Counts failures; `hands` is how many messages can fail at a time."""

    def __init__(self, most_per_second: float, clock: Callable[[], float], *, hands: int) -> None:
        """Begin without failures."""
        self._most = most_per_second * WINDOW
        self._wait = min(LONGEST_WAIT, hands / (MARGIN * most_per_second))
        self._clock = clock
        self._failures: deque[float] = deque()
        self._excessive = False

    def failed(self) -> RecoveryFailure:
        """Note a failure; it is critical when there are now too many: once, until 30 s have passed without any."""
        self._forget_old()
        was_excessive = self._excessive and bool(self._failures)
        self._failures.append(self._clock())
        self._excessive = was_excessive or len(self._failures) > self._most
        if len(self._failures) > self._most + 1:
            self._failures.popleft()  # bounded: one more than the most already says it all
        critical = self._excessive and not was_excessive
        return RecoveryFailure(critical, LONGEST_WAIT if self._excessive else self._wait)

    def _forget_old(self) -> None:
        now = self._clock()
        while self._failures and now - self._failures[0] > WINDOW:
            self._failures.popleft()
