"""Measures and traces each message of an endpoint, where that is turned on: the outermost step.

Invariant: without a wish there is no step; measuring and tracing never fail a message, and change nothing of it.
"""

from __future__ import annotations

from time import perf_counter, time
from typing import TYPE_CHECKING

from rowbus.errors import InvalidTimestampError
from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header
from rowbus.messages.subject import first_type
from rowbus.messages.timestamps import parse_timestamp
from rowbus.messages.tracing import is_wished
from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.tracing import tracing
from rowbus.transport.receiving.delivery import ErrorResult

if TYPE_CHECKING:
    from rowbus.running.telemetry.instruments import Instruments
    from rowbus.running.telemetry.spans import Attributes, Spans
    from rowbus.transport.receiving.delivery import Delivery, FailedDelivery, OnError, OnMessage

_TYPES = Header.ENCLOSED_MESSAGE_TYPES


class Observation:
    """Observes the messages of one endpoint, all of its queues."""

    def __init__(self, endpoint: str) -> None:
        """Find out what is wanted, now: for as long as the endpoint is started."""
        self._endpoint = endpoint
        self._measured = instruments()
        self._spans = tracing()

    def around(self, proceed: OnMessage) -> OnMessage:
        """Return the step; `proceed` itself where neither is turned on."""
        if self._spans is not None:
            proceed = self._traced(proceed, self._spans)
        return proceed if self._measured is None else self._counted(proceed, self._measured)

    def on_error(self, decide: OnError) -> OnError:
        """Return an error policy whose verdicts are counted."""
        if self._measured is None:
            return decide
        measured = self._measured

        async def counted(failed: FailedDelivery) -> ErrorResult:
            result = await decide(failed)
            labels = (self._endpoint, first_type(failed.delivery.headers.get(_TYPES)))
            if result is ErrorResult.RETRY_REQUIRED:
                measured.retried.add((*labels, "immediate"))
            elif any(isinstance(one, DelayedSend) for one in failed.delivery.sends):
                measured.retried.add((*labels, "delayed"))
            else:
                measured.given_up.add(labels)
            return result

        return counted

    def _counted(self, proceed: OnMessage, measured: Instruments) -> OnMessage:
        endpoint = (self._endpoint,)
        in_hand, handled, failed = measured.in_hand.add, measured.handled.add, measured.failed.add
        processing, critical = measured.processing.observe, measured.critical.observe

        async def counted(delivery: Delivery) -> None:
            labels = (*endpoint, first_type(delivery.headers.get(_TYPES)))
            due = delivery.headers.get(Header.DELIVER_AT) or delivery.headers.get(Header.TIME_SENT)
            in_hand(endpoint)
            started = perf_counter()
            try:
                await proceed(delivery)
            except BaseException:
                failed(labels)
                raise
            finally:
                in_hand(endpoint, -1)
            processing(perf_counter() - started, labels)
            handled(labels)
            if (age := _age(due)) is not None:
                critical(age, labels)

        return counted

    def _traced(self, proceed: OnMessage, spans: Spans) -> OnMessage:
        async def traced(delivery: Delivery) -> None:
            headers, destination = delivery.headers, delivery.receive_address.table
            with spans.process(
                headers, destination, lambda: self._attributes(delivery), anew=is_wished(headers)
            ):
                await proceed(delivery)

        return traced

    def _attributes(self, delivery: Delivery) -> Attributes:
        headers = delivery.headers
        return {
            "messaging.message.id": headers.get(Header.MESSAGE_ID) or delivery.id,
            "messaging.message.conversation_id": headers.get(Header.CONVERSATION_ID) or "",
            "rowbus.message.type": first_type(headers.get(_TYPES)),
            "rowbus.endpoint": self._endpoint,
        }


def _age(moment: str | None) -> float | None:
    """Return how many seconds ago a message was to be there; None for one that does not say when."""
    if not moment:
        return None
    try:
        return max(time() - parse_timestamp(moment).timestamp(), 0)
    except InvalidTimestampError:
        return None
