"""A handler's context: send, reply, append to a log, and use the receive transaction.

Invariant: nothing sent or appended through a context leaves unless the handler succeeds, except with `immediate=True`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from rowbus.database.statements import run_now
from rowbus.errors import HandlerError, QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import Send, appended_event
from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.running.handling import awaited, note_calls_on
from rowbus.transport.requests.decisions import is_for_answers
from rowbus.transport.send_verbs import (
    AsyncSendVerbs,
    HandlerVerbs,
    ReplyOptions,
    SendOptions,
    SendVerbs,
    asked,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from rowbus.database.sessions import HandlerConnection, SyncHandlerConnection
    from rowbus.endpoint.sender import Sender
    from rowbus.messages.dispatch import AnySend, Multicast
    from rowbus.messages.outgoing import Options, UniqueMessageId
    from rowbus.transport.composition import Composer, Destination, Incoming
    from rowbus.transport.receiving.delivery import Delivery
    from rowbus.transport.uniqueness.table import UniqueSend

logger = logging.getLogger("rowbus.endpoint")

STOPPED: Final = "rowbus.stopped"
"""Key in a delivery's items: no further handler is called."""


class MessageContext(HandlerVerbs):
    """The facts of the message in hand; common to both kinds of context."""

    def __init__(self, delivery: Delivery, sender: Sender) -> None:
        """Stand between a handler and its delivery."""
        self._delivery = delivery
        self._sender = sender

    @property
    def message_id(self) -> str:
        """The message's id, the same at every attempt."""
        return self._delivery.message_id

    @property
    def body(self) -> bytes:
        """The message's body as it was received."""
        return self._delivery.body

    @property
    def reply_to(self) -> QueueAddress | None:
        """Where `reply` goes, None when the sender takes no replies."""
        address = self._delivery.headers.get(Header.REPLY_TO_ADDRESS)
        return self._delivery.receive_address.neighbour(address) if address else None

    @property
    def instance_address(self) -> QueueAddress:
        """This instance's own queue, which it has beside the one shared with other instances.

        Raises ConfigurationError when the endpoint has no `discriminator`.
        """
        return self._sender.instance_address

    def on_commit(self, call: Callable[[], object]) -> None:
        """Have a function called, in a thread, once the receive transaction is committed (mode NONE: at the end).

        It is not called when the attempt fails. What it raises is logged, and a process that ends between the commit
        and the call loses it: what must happen is a message. The message's slot waits for its end. Raises HandlerError
        for an `async def`, which nothing would await.
        """
        self._delivery.call_afterwards(call)

    def stop_handlers(self) -> None:
        """Have no further handler called for the message in hand; what was done so far commits."""
        self._delivery.items[STOPPED] = True

    def _forward(self, to: Destination) -> None:
        copied = {name: value for name, value in self._delivery.headers.items() if name != Header.EXPIRES}
        self._delivery.send(Send(self._sender.address(to), OutgoingMessage(copied, self._delivery.body)))

    def _reply_address(self) -> QueueAddress:
        address = self.reply_to
        if address is None:
            raise HandlerError(
                f"Message {self.message_id} cannot be replied to: it has no {Header.REPLY_TO_ADDRESS}."
            )
        return address

    def _composing(self) -> tuple[Composer, Incoming]:
        return self._sender, self._delivery.headers

    def _routed(self, message: object, type: str | None) -> Destination:
        return self._sender.routes.find(message, type)

    async def _leave(self, send: AnySend, *, immediate: bool) -> None:
        if immediate:
            await self._on_loop(self._delivery.send_now(send))
        else:
            self._delivery.send(send)

    async def _leave_once(self, unique: UniqueSend, *, immediate: bool) -> UniqueMessageId:
        return await self._on_loop(self._delivery.send_once(unique, immediate=immediate))

    async def _leave_to_all(self, event: Multicast, *, immediate: bool) -> None:
        sends = event.to(await self._on_loop(self._sender.subscribers(event.types, self._delivery.ask)))
        if immediate:
            await self._on_loop(self._delivery.send_now(*sends))
        else:
            self._delivery.send(*sends)

    async def _reply(self, message: object, to: Destination | None, options: Options) -> str:
        address = self._reply_address() if to is None else self._sender.address(to)
        incoming = self._delivery.headers
        reply = self._sender.compose(address, message, options, intent="Reply", incoming=incoming)
        self._delivery.note(reply)
        is_known = to is not None or self._delivery.is_known(address)
        if is_known or await self._on_loop(self._reaches(address)):
            self._delivery.send(reply)
        return reply.message.message_id

    async def _cancel(self, message_id: str) -> bool:
        if self._delivery.withdraw(message_id):
            return True
        return await self._on_loop(self._delivery.run(self._sender.cancelling(message_id))) > 0

    async def _reaches(self, address: QueueAddress) -> bool:
        """Look where a reply goes; say whether it goes: who asked and is gone took its queue with it.

        Raises DestinationRefusedError, QueueNotFoundError for any other queue, StorageError.
        """
        try:
            await self._delivery.require(address)
        except QueueNotFoundError:
            if not is_for_answers(address.table):
                raise
            logger.info("The answer of message %s is dropped: %s is gone", self.message_id, address)
            return False
        return True


class AsyncMessageContext(MessageContext, AsyncSendVerbs):
    """The verbs of `async def` code for the message in hand."""

    def __init__(self, delivery: Delivery, sender: Sender) -> None:
        """Stand between a handler and its delivery."""
        super().__init__(delivery, sender)
        self._calls = []

    @property
    def connection(self) -> HandlerConnection:
        """Psycopg's connection of the receive transaction.

        What is executed here commits together with the message (mode NONE: at once), and is undone when the handler
        raises. It cannot be committed or rolled back by the handler.
        """
        return note_calls_on(self._delivery.connection, self)

    @awaited
    @options_of(SendOptions)
    async def send_local(self, message: object, **options: Unpack[SendOptions]) -> str:
        """Send a message to the endpoint's own queue, which its instances share; otherwise as `send`."""
        return await self._send(self._sender.local, message, asked(SendOptions, options))

    @awaited
    @options_of(ReplyOptions)
    async def reply(
        self,
        message: object,
        *,
        to: str | QueueAddress | None = None,
        to_this_instance: bool = False,
        **options: Unpack[ReplyOptions],
    ) -> str:
        """Send a message to where the one in hand wants its replies, and return its message id.

        A number, or an enum whose value is one, goes as .NET's callbacks take it; see `ReturnCode`.
        With `to` it goes there instead, with `correlation_id` it answers the message of that id instead (then without
        the ids of a saga). With `to_this_instance` what answers the reply comes to this instance's own queue. A
        request's answer is dropped, with a line in the log, when who asked is gone. Raises HandlerError when the sender
        takes none, DestinationRefusedError when it names a queue that is not among `allowed_destinations`, or no queue,
        and QueueNotFoundError. Otherwise as `send`.
        """
        given = asked(ReplyOptions, options)
        return await self._reply(message, to, given._replace(reply_to_this_instance=to_this_instance))

    @awaited
    async def forward(self, to: str | QueueAddress) -> None:
        """Send the message in hand to another queue as it is: with its id, its headers as they are now, and its body.

        It leaves as what `send` sends; the copy does not expire. Raises InvalidAddressError.
        """
        self._forward(to)

    @awaited
    async def cancel(self, message_id: str) -> bool:
        """Cancel a message that this endpoint delayed, by the id that `send` returned; say whether it still waited.

        In the receive transaction: if the handler fails, the message waits as before; in mode NONE at once. One that
        this handler sent is not sent at all. A message that has become due and was moved is not cancelled, nor one
        that waits for a delayed retry. To change a message, cancel it and, if it still waited, send another. Reads the
        whole table of delayed messages; waits for a mover that is moving the message. Raises StorageError, and
        ConfigurationError when the endpoint has no table of its own.
        """
        return await self._cancel(message_id)

    @awaited
    async def append(
        self,
        log: str,
        data: object = None,
        *,
        type: str | None = None,
        extra1: str | None = None,
        extra2: str | None = None,
        extra3: str | None = None,
        extra4: str | None = None,
    ) -> None:
        """Append an event to a log of the endpoint's database.

        It is written when the handler has succeeded, under the transaction mode, as sends are: with the message and the
        handler's SQL in `SENDS_ATOMIC_WITH_RECEIVE`. `data` is text, bytes that are UTF-8, or any object that has JSON;
        one whose class is declared with `rowbus.event` gives the type. Raises MessageSerializationError; a log that is
        missing fails the attempt.
        """
        self._delivery.append(appended_event(log, data, type, extra1, extra2, extra3, extra4))


class Context(AsyncMessageContext):
    """The context of an `async def` handler."""

    @property
    def headers(self) -> dict[str, str | None]:
        """The message's headers; a copy of this attempt, free to change."""
        return self._delivery.headers


class SyncContext(MessageContext, SendVerbs):
    """The context of a `def` handler, which runs in a thread."""

    def __init__(self, delivery: Delivery, sender: Sender, loop: asyncio.AbstractEventLoop) -> None:
        """Stand between a handler in a thread and its delivery on the loop."""
        super().__init__(delivery, sender)
        self._loop = loop

    @property
    def headers(self) -> dict[str, str | None]:
        """The message's headers; a copy of this attempt, free to change."""
        return self._delivery.headers

    @property
    def connection(self) -> SyncHandlerConnection:
        """Psycopg's connection of the receive transaction; see `Context.connection`. For this handler's thread only."""
        return self._delivery.sync_connection

    @options_of(SendOptions)
    def send_local(self, message: object, **options: Unpack[SendOptions]) -> str:
        """Send a message to the endpoint's own queue; see `Context.send_local`."""
        return run_now(self._send(self._sender.local, message, asked(SendOptions, options)))

    @options_of(ReplyOptions)
    def reply(
        self,
        message: object,
        *,
        to: str | QueueAddress | None = None,
        to_this_instance: bool = False,
        **options: Unpack[ReplyOptions],
    ) -> str:
        """Send a message to where the one in hand wants its replies; see `Context.reply`."""
        given = asked(ReplyOptions, options)
        return run_now(self._reply(message, to, given._replace(reply_to_this_instance=to_this_instance)))

    def forward(self, to: str | QueueAddress) -> None:
        """Send the message in hand to another queue as it is; see `Context.forward`."""
        self._forward(to)

    def cancel(self, message_id: str) -> bool:
        """Cancel a message that this endpoint delayed; say whether it still waited. See `Context.cancel`."""
        return run_now(self._cancel(message_id))

    def append(
        self,
        log: str,
        data: object = None,
        *,
        type: str | None = None,
        extra1: str | None = None,
        extra2: str | None = None,
        extra3: str | None = None,
        extra4: str | None = None,
    ) -> None:
        """Append an event to a log of the endpoint's database; see `Context.append`."""
        self._delivery.append(appended_event(log, data, type, extra1, extra2, extra3, extra4))
