"""From a delivery to its handlers: what kind of message it is, its object, and each handler's call.

Invariant: a message that nobody here can handle raises (and so reaches the error queue with its reason); only control
messages and empty bodies pass without a handler, as in NServiceBus.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowbus.endpoint.context import Context, SyncContext
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import format_timestamp

if TYPE_CHECKING:
    from rowbus.endpoint.handlers import Handler, Handlers
    from rowbus.endpoint.sender import Sender
    from rowbus.transport.receiving.delivery import Delivery

logger = logging.getLogger("rowbus.endpoint")

FAILURE_DATA = "rowbus.failure_data"
"""Key in a delivery's items under which the pipeline leaves facts for the failure headers."""


class Pipeline:
    """What an endpoint does with a message it received."""

    def __init__(self, handlers: Handlers, sender: Sender, threads: int) -> None:
        """Call these handlers; `def` ones in up to `threads` threads."""
        self._handlers = handlers
        self._sender = sender
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="rowbus-handler")

    async def process(self, delivery: Delivery) -> None:
        """Have every handler of the message handle it, one after the other, in the delivery's transaction.

        Raises UnknownMessageTypeError, MessageDeserializationError, and whatever a handler raises.
        """
        headers = delivery.headers
        if not headers.get(Header.MESSAGE_ID):
            headers[Header.MESSAGE_ID] = delivery.id
        if not delivery.body or headers.get(Header.CONTROL_MESSAGE) == "True":
            logger.debug("Message %s has no body to handle", headers[Header.MESSAGE_ID])
            return
        for handler in self._handlers.plan(headers.get(Header.ENCLOSED_MESSAGE_TYPES)):
            message = handler.read(delivery.body)
            try:
                await self._call(handler, message, delivery)
            except BaseException:
                _note_failure(delivery, handler)
                raise

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False)

    async def _call(self, handler: Handler, message: object, delivery: Delivery) -> None:
        if not handler.is_async:
            await self._call_in_thread(handler, message, delivery)
        elif handler.takes_context:
            await handler.function(message, Context(delivery, self._sender))
        else:
            await handler.function(message)

    async def _call_in_thread(self, handler: Handler, message: object, delivery: Delivery) -> None:
        """Run a `def` handler in a thread, and wait for its end also when cancelled: its connection is in use."""
        await delivery.protect()
        loop = asyncio.get_running_loop()
        arguments = (
            (message, SyncContext(delivery, self._sender, loop)) if handler.takes_context else (message,)
        )
        running = loop.run_in_executor(self._threads, handler.function, *arguments)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


def _note_failure(delivery: Delivery, handler: Handler) -> None:
    delivery.items[FAILURE_DATA] = {
        "Message type": handler.read.name,
        "Handler type": handler.name,
        "Handler failure time": format_timestamp(datetime.now(UTC)),
    }
