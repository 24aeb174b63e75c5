"""The way into a store: delayed messages of an endpoint go through its queue `<endpoint>.Timeouts`.

The dispatch of a handler or of another sender puts them there, in its own transaction; from there they are stored.
Source: docs/wire-format.md#timeouts-queue.

Invariant: a message is in the queue or in the store, or, when they share no transaction, in both for a moment: never
in neither. Storing one twice stores it once, as its row in the queue gives it its id.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from rowbus.errors.strangers import exc_info_of
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Header, encode_copied_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.running.waiting import pause
from rowbus.transport.delayed_store.decisions import (
    AfterFailure,
    after_failure,
    is_outage,
)
from rowbus.transport.delayed_store.protocol import DelayedMessage
from rowbus.transport.delayed_store.table import unwrap, wrap
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.delivery import ErrorResult
from rowbus.transport.recoverability.failure_headers import failed_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import DelayedSend
    from rowbus.running.critical import ReportedBreaker
    from rowbus.transport.delayed_store.forwarder import Rules, Scopes
    from rowbus.transport.receiving.delivery import Delivery, FailedDelivery

logger = logging.getLogger("rowbus.delaying")


class StoreDelays:
    """Sends what is to be delayed to the Timeouts queue; when it is due, is decided by the clock given."""

    def __init__(self, queue: QueueAddress, now: Callable[[], datetime], *, notify: bool) -> None:
        """Send to this queue. No I/O."""
        self._table = queue_table(queue)
        self._now = now
        self._notify = notify

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Return what sends them."""
        now = self._now()
        messages = [
            wrap(
                send.message,
                send.destination,
                now + send.due if isinstance(send.due, timedelta) else send.due,
            )
            for send in sends
        ]
        return [*self._table.send_all(messages, notify=self._notify)]


class StoreReceiver:
    """Stores what comes through the Timeouts queue: what a receiver calls back."""

    def __init__(
        self,
        scopes: Scopes,
        rules: Rules,
        storing: ReportedBreaker,
        expect: Callable[[datetime], None],
        *,
        now: Callable[[], datetime],
        stopping: asyncio.Event,
    ) -> None:
        """Say where to store and by which rules; `expect` is told when what was stored is due. No I/O."""
        self._scopes = scopes
        self._rules = rules
        self._storing = storing
        self._expect = expect
        self._now = now
        self._stopping = stopping

    async def on_message(self, delivery: Delivery) -> None:
        """Store a message, or send it on when it is due already."""
        wrapped = unwrap(delivery.headers, delivery.receive_address)
        self._rules.destinations.require_allowed(wrapped.destination)
        if wrapped.due <= self._now():
            delivery.send(Send(wrapped.destination, OutgoingMessage(wrapped.headers, delivery.body)))
            return
        message = DelayedMessage(
            message_id=delivery.id,
            destination=wrapped.destination.canonical,
            time=wrapped.due,
            headers=encode_copied_headers(wrapped.headers).encode(),
            body=delivery.body,
        )
        await self._scopes.storing(delivery.connection).store(message)
        self._storing.succeeded()
        self._expect(wrapped.due)

    async def on_error(self, failed: FailedDelivery) -> ErrorResult:
        """Try again as often as the rules say, then give the message up."""
        verdict = after_failure(failed.error, failures=failed.failures - 1, retries=self._rules.retries)
        if verdict is not AfterFailure.GIVE_UP:
            await pause(self._stopping, self._storing.failed(failed.error))
            return ErrorResult.RETRY_REQUIRED
        self._give_up(failed)
        return ErrorResult.HANDLED

    def decide_outage(self, error: BaseException) -> float | None:
        """Say for how many seconds to wait when a store is away: the message goes back and nothing is counted."""
        return self._storing.failed(error) if is_outage(error) else None

    def _give_up(self, failed: FailedDelivery) -> None:
        delivery, rules = failed.delivery, self._rules
        logger.error(
            "Moving delayed message '%s' to the error queue '%s' because storing it failed:",
            delivery.id,
            rules.error_queue,
            exc_info=exc_info_of(failed.error),
        )
        copy = failed_message(
            headers={Header.MESSAGE_ID: delivery.id, **delivery.headers},
            body=delivery.body,
            error=failed.error,
            failed_queue=rules.queue,
            identity=rules.identity,
            now=self._now(),
        )
        delivery.send(Send(rules.error_queue, copy))
