"""An endpoint whose messages fail one after the other slows down, and goes on as before with the first success.

Source: docs/wire-format.md#circuit-breaker.

Invariant: nothing is retried, moved or forgotten here: what follows a failure only comes later, and one at a time.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from rowbus.endpoint.recovery import tell
from rowbus.running.turns import ending_on_loop
from rowbus.running.waiting import pause
from rowbus.transport.recoverability.policy import Throttling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rowbus.settings import EndpointSettings
    from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery, OnError, OnMessage
    from rowbus.transport.recoverability.policy import Observer

logger = logging.getLogger("rowbus.recoverability")


class Throttle:
    """The throttle of an endpoint, all its receivers together; one whose settings ask for none does nothing."""

    def __init__(
        self,
        settings: EndpointSettings,
        set_concurrency: Callable[[int], None],
        observers: Sequence[Observer],
    ) -> None:
        """Throttle as the settings say; `observers` are told when that begins, and when it ends."""
        self._after = settings.throttle_after_failures
        self._delay = settings.throttle_delay.total_seconds()
        self._concurrency = settings.effective_concurrency
        self._set_concurrency = set_concurrency
        self._observers = observers
        self._failures = 0  # in a row
        self._ending = asyncio.Event()

    @property
    def _is_active(self) -> bool:
        return self._after is not None and self._failures >= self._after

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step that takes note when a message succeeds; without a throttle, `proceed` itself."""
        if self._after is None:
            return proceed
        ended = ending_on_loop(proceed)

        async def noted(delivery: Delivery) -> None:
            await ended(delivery)
            self._succeeded()

        return noted

    def on_error(self, decide: OnError) -> OnError:
        """Return what takes note of a failure, pauses when throttled, and then does what follows from it."""
        if self._after is None:
            return decide

        async def noted(failed: FailedDelivery) -> ErrorResult:
            await self._failed()
            return await decide(failed)

        return noted

    def change_concurrency(self, concurrency: int) -> None:
        """Process this many messages at a time, once nothing throttles."""
        self._concurrency = concurrency
        if not self._is_active:
            self._set_concurrency(concurrency)

    def end(self) -> None:
        """Cut pauses short, for the endpoint is stopping."""
        self._ending.set()

    async def _failed(self) -> None:
        self._failures += 1
        if self._failures == self._after:
            logger.warning(
                "Message after message fails; from now on one at a time, with a pause of %g s after each failure, "
                "until one succeeds",
                self._delay,
            )
            self._set_concurrency(1)
            tell(self._observers, Throttling(is_active=True))
        if self._is_active:
            await pause(self._ending, self._delay)

    def _succeeded(self) -> None:
        was_active, self._failures = self._is_active, 0
        if was_active:
            logger.info("A message succeeded; %s are processed at a time again", self._concurrency)
            self._set_concurrency(self._concurrency)
            tell(self._observers, Throttling(is_active=False))
