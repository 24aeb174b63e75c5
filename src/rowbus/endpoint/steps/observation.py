"""Measures and traces each message of an endpoint, where that is turned on: steps around all others but the timing.

Invariants: neither is a step without a wish, or fails a message, or changes anything of it.
"""

from __future__ import annotations

from functools import lru_cache, partial
from time import perf_counter, time
from typing import TYPE_CHECKING, Final

from rowbus.errors import InvalidTimestampError
from rowbus.errors.strangers import type_name
from rowbus.messages.headers import Header
from rowbus.messages.message_names import first_type
from rowbus.messages.outgoing import is_wished
from rowbus.messages.timestamps import parse_timestamp
from rowbus.running.bounded import MOST
from rowbus.running.telemetry.instruments import instruments, tracing
from rowbus.transport.recoverability.policy import Decision, DelayedRetry, ImmediateRetry

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.running.telemetry.instruments import Instruments
    from rowbus.running.telemetry.spans import Attributes, Spans
    from rowbus.transport.receiving.delivery import Delivery, OnMessage
    from rowbus.transport.recoverability.policy import Observer, Throttling


_TYPES: Final = Header.ENCLOSED_MESSAGE_TYPES
_DELIVER_AT: Final = Header.DELIVER_AT
_TIME_SENT: Final = Header.TIME_SENT

_Series = tuple[tuple[str, ...], "Callable[[float], None]", "Callable[[float], None]"]
"""Of one type: the key of what is counted, and what takes the processing and the critical time."""


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

    @property
    def observers(self) -> tuple[Observer, ...]:
        """The observer that counts what is decided about failed messages, where that is turned on."""
        return () if self._measured is None else (partial(self._decided, self._measured),)

    def _decided(self, measured: Instruments, event: Decision | Throttling) -> None:
        if not isinstance(event, Decision) or not event.attempt.failures:
            return
        labels = (self._endpoint, first_type(event.attempt.headers.get(_TYPES)))
        if isinstance(event.verdict, ImmediateRetry | DelayedRetry):
            kind = "immediate" if isinstance(event.verdict, ImmediateRetry) else "delayed"
            measured.retried.add((*labels, kind))
        else:
            measured.given_up.add(labels)

    def _counted(self, proceed: OnMessage, measured: Instruments) -> OnMessage:
        in_hand, handled, failed = measured.in_hand.values, measured.handled.values, measured.failed.add
        endpoint, of_type = measured.in_hand.begun((self._endpoint,)), self._series(measured)

        async def counted(delivery: Delivery) -> None:
            in_hand[endpoint] += 1
            started = perf_counter()
            try:
                await proceed(delivery)
            except BaseException as error:
                kind = first_type(delivery.headers.get(_TYPES))
                failed((self._endpoint, kind))
                measured.failing.observer((self._endpoint, kind, type_name(error)))(perf_counter() - started)
                raise
            finally:
                in_hand[endpoint] -= 1
            took, headers = perf_counter() - started, delivery.headers
            labels, processing, critical = of_type(headers.get(_TYPES))
            processing(
                took
            )  # in a thread perhaps: the interpreter does not switch within an addition like these
            handled[labels] += 1
            due = headers.get(_DELIVER_AT) or headers.get(_TIME_SENT)
            if due and (age := _age(due)) is not None:
                critical(age)

        return counted

    def _series(self, measured: Instruments) -> Callable[[str | None], _Series]:
        """Return what finds the series of a type, which are looked for once, by the text of its header."""

        @lru_cache(MOST)
        def of_type(header: str | None) -> _Series:
            labels = (self._endpoint, first_type(header))
            return (
                measured.handled.begun(labels),
                measured.processing.observer(labels),
                measured.critical.observer(labels),
            )

        return of_type

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
            "messaging.message.id": delivery.message_id,
            "messaging.message.conversation_id": headers.get(Header.CONVERSATION_ID) or "",
            "rowbus.message.type": first_type(headers.get(_TYPES)),
            "rowbus.endpoint": self._endpoint,
        }


def _age(moment: str) -> float | None:
    """Return how many seconds ago a message was to be there; None for one that does not say when."""
    try:
        return max(time() - parse_timestamp(moment).timestamp(), 0)
    except InvalidTimestampError:
        return None
