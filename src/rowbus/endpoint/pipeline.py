"""From a delivery to its handlers: what kind of message it is, its object, and each handler's call.

Invariant: a message that has no handler here raises (and so reaches the error queue with its reason); only control
messages and empty bodies pass without a handler, as in NServiceBus. An answer of a callback that no handler takes is
logged.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from time import time
from typing import TYPE_CHECKING, NamedTuple

from rowbus.endpoint.context import STOPPED, Context, SyncContext
from rowbus.endpoint.long_context import LongContext, SyncLongContext
from rowbus.errors import HandlerError, UnknownMessageTypeError
from rowbus.messages.headers import Header, is_control
from rowbus.messages.message_names import MessageSubject
from rowbus.messages.return_code import RETURN_CODE, return_code_of
from rowbus.messages.timestamps import format_timestamp
from rowbus.running.handling import begin_handling, end_handling, refuse_forgotten, refuse_unbegun
from rowbus.running.telemetry.instruments import tracing
from rowbus.running.threads import Threads
from rowbus.running.time_limit import within
from rowbus.running.turns import into_thread, onto_loop, without_turns
from rowbus.transport.limits.rate import limit_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rowbus.endpoint.handlers import Handler, Handlers
    from rowbus.endpoint.sender import Sender
    from rowbus.transport.receiving.delivery import Delivery, OnMessage

logger = logging.getLogger("rowbus.endpoint")

HANDLER_FAILURE = "rowbus.handler_failure"
"""Key in a delivery's items under which the pipeline leaves a `HandlerFailure`."""


class HandlerFailure(NamedTuple):
    """A handler that failed: when it began and failed, by the time of day, and whether it was cancelled."""

    handler: Handler
    started: float
    failed: float
    is_cancelled: bool

    def data(self) -> dict[str, str]:
        """Return what the failure headers say of it."""
        return {
            "Message type": self.handler.read.name,
            "Handler type": self.handler.name,
            "Handler start time": format_timestamp(datetime.fromtimestamp(self.started, UTC)),
            "Handler failure time": format_timestamp(datetime.fromtimestamp(self.failed, UTC)),
            "Handler canceled": str(self.is_cancelled),
        }


class Pipeline:
    """The way of a received message through an endpoint."""

    def __init__(self, handlers: Handlers, sender: Sender) -> None:
        """Call these handlers, `def` ones in threads; to be made where the event loop runs."""
        self._handlers = handlers
        self.sender = sender
        self.threads = Threads("rowbus-handler")
        """Where `def` handlers are called."""
        self._takes_turns = handlers.has_functions
        self._loop = asyncio.get_running_loop()
        self._spans = tracing()

    async def process(self, delivery: Delivery, sender: Sender | None = None) -> None:
        """Have every handler of the message handle it, one after the other, in the delivery's transaction.

        They send through `sender`, None for the pipeline's own. Raises UnknownMessageTypeError,
        MessageDeserializationError, and what a handler raises.
        """
        identify(delivery)
        handlers = self.plan(delivery)
        subject = subject_of(delivery)
        handling = begin_handling(subject)
        try:
            for handler in handlers:
                if STOPPED in delivery.items:
                    break
                if subject.handler:
                    await delivery.ensure_finished()  # the one before
                subject.handler = handler.name
                if self._spans is not None:
                    self._spans.tell({"rowbus.handler": handler.name})
                await self._handle(handler, delivery, sender or self.sender)
        finally:
            end_handling(handling)

    def plan(self, delivery: Delivery) -> tuple[Handler, ...]:
        """Return the handlers of a message in their order, none for one that has no body to handle.

        Raises UnknownMessageTypeError.
        """
        headers = delivery.headers
        is_empty = is_control(headers)
        if is_empty and return_code_of(headers) is not None:
            return self._takers_of_answers(headers)
        if is_empty or not delivery.body:
            logger.debug("Message %s has no body to handle", headers[Header.MESSAGE_ID])
            return ()
        return self._handlers.plans[headers.get(Header.ENCLOSED_MESSAGE_TYPES)]

    def takes_long(self, delivery: Delivery) -> bool:
        """Return whether a message's handler takes long. Raises HandlerError if others take it, too."""
        identify(delivery)
        try:
            handlers = self.plan(delivery)
        except UnknownMessageTypeError:  # which its processing raises too
            return False
        long = [handler.name for handler in handlers if handler.is_long]
        if long and len(long) < len(handlers):
            raise HandlerError(f"{long[0]} takes long, so it must be the only handler of its messages.")
        return bool(long)

    def _takers_of_answers(self, headers: Mapping[str, str | None]) -> tuple[Handler, ...]:
        if RETURN_CODE in self._handlers.names():
            return self._handlers.plans[RETURN_CODE]
        logger.warning(
            "Message %s answers %s with the number %s, which no handler of a rowbus.ReturnCode takes here",
            headers[Header.MESSAGE_ID],
            headers.get(Header.CORRELATION_ID),
            headers[Header.RETURN_MESSAGE_ERROR_CODE],
        )
        return ()

    def stop(self) -> None:
        """From now on wait only for a moment for a `def` handler that is cancelled; see `Threads.run`."""
        self.threads.stop()

    def close(self) -> None:
        """Let the threads end."""
        self.threads.close()

    async def _handle(self, handler: Handler, delivery: Delivery, sender: Sender) -> None:
        message = delivery.objects.pop(handler.read, None)
        if message is None:
            message = read(handler, delivery)
            if handler.limit is not None:
                limit_key(handler.read.name, handler.limit.by, message)  # a message without a key fails
        started = time()
        try:
            await (self._call if handler.is_async else self._call_in_thread)(
                handler, message, delivery, sender
            )
        except (Exception, asyncio.CancelledError):
            await onto_loop()
            delivery.items[HANDLER_FAILURE] = HandlerFailure(handler, started, time(), is_being_cancelled())
            raise

    async def _call(self, handler: Handler, message: object, delivery: Delivery, sender: Sender) -> None:
        if self._takes_turns:
            await onto_loop()
        kind = LongContext if handler.is_long else Context
        context = kind(delivery, sender) if handler.takes_context else None
        call = handler.function(message) if context is None else handler.function(message, context)
        limit = handler.time_limit
        returned = await call if limit is None else await within(limit, call, handler.name)
        if returned is not None:
            refuse_unbegun(handler.function, returned)
        if context is not None:
            refuse_forgotten(context)

    async def _call_in_thread(
        self, handler: Handler, message: object, delivery: Delivery, sender: Sender
    ) -> None:
        """Run a `def` handler in a thread, and wait for its end also when cancelled: see `Threads.run`.

        It sees the context variables that the steps around it have set. A batch stays in the thread for the next one.
        """
        arguments = (
            (message, (SyncLongContext if handler.is_long else SyncContext)(delivery, sender, self._loop))
            if handler.takes_context
            else (message,)
        )
        call = partial(handler.function, *arguments)
        limit = handler.time_limit
        if limit is None and not handler.is_long and await into_thread():
            returned = without_turns(call)
        else:
            await onto_loop()
            in_context = partial(copy_context().run, call)
            returned = await self.threads.run(in_context, delivery, limit=limit, name=handler.name)
        if returned is not None:
            refuse_unbegun(handler.function, returned)


def where_marked(header: str, step: OnMessage, proceed: OnMessage) -> OnMessage:
    """Return what processes a message that has a header by a step, and all others without it."""
    return lambda delivery: (step if header in delivery.headers else proceed)(delivery)


def read(handler: Handler, delivery: Delivery) -> object:
    """Return a message as a handler's object; raises MessageDeserializationError."""
    if is_control(delivery.headers):
        return return_code_of(delivery.headers)
    return handler.read(delivery.body, delivery.headers.get(Header.CONTENT_TYPE))


def identify(delivery: Delivery) -> None:
    """Give a message that has no id its row's."""
    if not delivery.headers.get(Header.MESSAGE_ID):
        delivery.headers[Header.MESSAGE_ID] = delivery.id


def subject_of(delivery: Delivery, handler: str = "") -> MessageSubject:
    """Return what log lines say of a message."""
    headers = delivery.headers
    message_id = headers.get(Header.MESSAGE_ID) or delivery.id
    return MessageSubject(message_id, headers, delivery.receive_address.table, handler)


def is_being_cancelled() -> bool:
    """Say whether the task that runs was asked to end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
