"""Handlers without a database: one message, along the endpoint's own way.

Invariants: headers as text and back, deserialisation, handlers in their order, sends with all their headers; only the
queues and the transaction are missing. `tests/testing` runs one suite against it and against PostgreSQL. What is sent
has the headers that its receiver would read.
"""

from __future__ import annotations

import uuid
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from rowbus import ClaimNotFoundError, HandlerError, LeaseLostError
from rowbus.endpoint.long_context import BLOCK_ENDED, FINISHED, LongDelivery, Outside, Step
from rowbus.endpoint.pipeline import Pipeline
from rowbus.endpoint.running import make_sender
from rowbus.endpoint.steps.chain import with_mutators, with_own_steps
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import AnySend, AppendedEvent, Send, deduplicate
from rowbus.messages.headers import Identity, decode_headers, encode_headers
from rowbus.messages.message import MessageRow
from rowbus.messages.message_types import serialize
from rowbus.messages.mutators import put_on
from rowbus.messages.outgoing import Options, Origin, UniqueMessageId, compose
from rowbus.testing.outcome import Outcome, SentMessage
from rowbus.transport.claims.claim_check import ClaimCheck
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from rowbus.database.sessions import ReceiveSession, SessionPool
    from rowbus.endpoint.endpoint import Endpoint
    from rowbus.messages.dispatch import Leaving
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.receiving.dispatcher import Dispatcher
    from rowbus.transport.uniqueness.table import UniqueSend


class Memory:
    """Keeps claimed values in memory, in place of a table."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}

    def put(self, value: bytes) -> str:
        """Keep a value."""
        key = str(len(self._values))
        self._values[key] = value
        return key

    def get(self, key: str) -> bytes:
        """Return a value; raises ClaimNotFoundError."""
        if key not in self._values:
            raise ClaimNotFoundError(
                f"There is no value {key}: run_handlers works without a database, and knows the message's own.",
                key=key,
            )
        return self._values[key]


def without_tables(mutators: Sequence[Mutator]) -> tuple[Mutator, ...]:
    """Return mutators that keep in memory what they would keep in tables."""
    memory = Memory()
    return tuple(
        mutator.over(memory) if isinstance(mutator, ClaimCheck) and mutator.asks else mutator
        for mutator in mutators
    )


class Outbox:
    """Takes what is sent, in place of a dispatcher."""

    def __init__(self) -> None:
        self.sent: list[SentMessage] = []
        self.appended: list[AppendedEvent] = []
        self.progress: list[tuple[float, str]] = []

    def note(self, sends: Sequence[AnySend]) -> None:
        """Note nothing: there is no queue to be missing."""

    async def dispatch(self, sends: Sequence[Leaving]) -> None:
        """Take what a handler sends with `immediate`."""
        await self.leave(sends, immediate=True)

    async def send_once(self, unique: UniqueSend) -> UniqueMessageId:
        """Take a unique message, as if no other had its value."""
        await self.leave([unique.send], immediate=False)
        return UniqueMessageId(unique.send.message.message_id, "sent")

    def outcome(self, error: BaseException | None) -> Outcome:
        """Return what became of the attempt."""
        return Outcome(tuple(self.sent), error, tuple(self.appended), tuple(self.progress))

    async def leave(self, leaving: Sequence[Leaving], *, immediate: bool) -> None:
        """Take what leaves in one dispatch, equal messages collapsed, headers as they would be read."""
        self.appended += [event for event in leaving if isinstance(event, AppendedEvent)]
        for send in deduplicate([send for send in leaving if isinstance(send, AnySend)]):
            message, due = send.message, None if isinstance(send, Send) else send.due
            headers = decode_headers(encode_headers(message.headers))
            self.sent.append(
                SentMessage(
                    send.destination, headers, message.body, message.time_to_be_received, immediate, due
                )
            )


class NoTransaction:
    """Stands where the receive session would: everything works but the connection, if the test gave none."""

    def __init__(self, connection: object) -> None:
        """Give handlers the test's connection; None: refuse."""
        self._connection = connection

    @property
    def handler_connection(self) -> object:
        """The test's connection; refuses, saying what to use, if there is none."""
        if self._connection is None:
            raise HandlerError(
                "There is no context.connection here: run_handlers works without a database. Give it a connection of "
                "the test's (connection=…), or run the endpoint with rowbus.testing.running()."
            )
        return self._connection

    sync_handler_connection = handler_connection
    ended = True
    is_occupied = False

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[NoTransaction]:
        """Stand for a pool's session, too: for a handler that takes long, outside of its transactions."""
        yield self

    async def run(self, _statement: object, *, undoable: bool = False) -> NoReturn:  # noqa: ARG002 - as sessions do
        """Refuse what works on Rowbus's own tables."""
        raise HandlerError(
            "run_handlers works without a database: run the endpoint with rowbus.testing.running() to test this."
        )

    async def abandon(self) -> None:
        """Do nothing: there is no connection."""

    def discard(self) -> None:
        """Do nothing: there is no connection."""


class LongAttempt(LongDelivery):
    """One attempt at a message whose handler takes long: its lease is never lost.

    What a block of `LongContext.transaction()` sends leaves at the block's end; its `connection` is the test's. What it
    did on that is not undone when it raises: the transaction is the test's.
    """

    def __init__(
        self,
        row: MessageRow,
        headers: dict[str, str | None],
        address: QueueAddress,
        session: NoTransaction,
        outbox: Outbox,
    ) -> None:
        dispatcher = cast("Dispatcher", outbox)
        outside = cast("ReceiveSession", Outside(cast("SessionPool", session), set()))
        super().__init__(row, headers, address, outside, dispatcher, items={})
        inside = cast("ReceiveSession", session)
        self._begun = partial(Step, row, headers, address, inside, dispatcher, items={})
        self._outbox = outbox
        self.step = self._open
        self.note_progress = self._note

    async def leave(self) -> None:
        """Send what the handler sent outside of its blocks, at its end; nothing after a block that finished it."""
        if not self.over:
            await self._outbox.leave(self.sends, immediate=False)

    @asynccontextmanager
    async def _open(self, is_end: bool) -> AsyncGenerator[Step]:  # noqa: FBT001 - as `step`
        self._ensure_unfinished()
        step = self._begun()
        try:
            yield step
        finally:
            step.over = BLOCK_ENDED
        await self._outbox.leave([*step.sends, *(self.sends if is_end else ())], immediate=False)
        self.over = FINISHED if is_end else ""

    async def _note(self, fraction: float, note: str) -> None:
        self._ensure_unfinished()
        self._outbox.progress.append((fraction, note))

    def _ensure_unfinished(self) -> None:
        if self.over:
            text = f"The work of message {self.id} is over: nothing of this is committed."
            raise LeaseLostError(text, queue=self.receive_address.canonical, claim=1)


CALLER: Final = "caller"
"""The queue that messages given to `run_handlers` want their replies in, unless another is named."""

SUBSCRIBERS: Final = "subscribers"
"""The queue that stands for all subscribers: what handlers publish in `run_handlers` goes there, once."""


async def run_handlers(
    endpoint: Endpoint,
    message: object,
    *,
    type: str | None = None,
    headers: Mapping[str, str] | None = None,
    reply_to: str | QueueAddress | None = CALLER,
    connection: object = None,
    provide: Mapping[Any, object] | None = None,
) -> Outcome:
    """Have an endpoint's own steps and handlers process a message once, with no database, and say what came of it.

    The endpoint need not be started. Its mutators change the message on its way in, as a sender's and its own, and what
    it sends. `provide` gives handlers other values, by their types, than `Endpoint.provide` did; what is not replaced
    is made, and ends with the call. `type` names dicts and bytes; `headers` are added to those a sender would set, and
    win over them; replies go to `reply_to` (None: the sender takes no replies). What a handler raises, and what
    the endpoint would refuse to handle (UnknownMessageTypeError, MessageDeserializationError), is the outcome's
    `error`: nothing is retried, no error queue is involved. A handler's `context.connection` is the `connection` given,
    with its transaction, which stays yours to commit or roll back: asynchronous for `async def` handlers, synchronous
    for `def` ones. Without one, a handler that touches it gets a HandlerError. A handler that takes long has it in the
    blocks of its `LongContext.transaction()`, none of which is undone; its progress is the outcome's `progress`.
    Raises, for a message that cannot be sent at all, MessageSerializationError, InvalidHeaderError or
    InvalidAddressError.
    """
    outbox, parts = Outbox(), endpoint.parts
    mutators = without_tables(parts.mutators)
    row = _incoming(endpoint, message, type, headers, reply_to, mutators=mutators)
    session = NoTransaction(connection)
    sender = make_sender(parts, Identity(endpoint.name, "testing", "0" * 32), _subscribers)
    pipeline = Pipeline(parts.handlers, sender)
    process = with_mutators(with_own_steps(pipeline, parts.steps), mutators)
    pipeline.stop()  # so that a test that cancels this call does not wait for a handler that never ends
    async with parts.handlers.dependencies.replaced(provide or {}):
        try:
            delivery = _delivery(endpoint, row, outbox, session)
            if pipeline.takes_long(delivery):
                delivery = LongAttempt(row, delivery.headers, delivery.receive_address, session, outbox)
            await process(delivery)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; the test looks at it
            return outbox.outcome(error)
        finally:
            pipeline.close()
    if isinstance(delivery, LongAttempt):
        if delivery.misuse is not None:
            return outbox.outcome(delivery.misuse)
        await delivery.leave()
    else:
        await outbox.leave(delivery.sends, immediate=False)
    return outbox.outcome(None)


async def _subscribers(_types: tuple[str, ...], _ask: object = None) -> tuple[QueueAddress, ...]:
    return (QueueAddress("public", SUBSCRIBERS),)


def _incoming(
    endpoint: Endpoint,
    message: object,
    type: str | None,
    headers: Mapping[str, str] | None,
    reply_to: str | QueueAddress | None,
    *,
    mutators: Sequence[Mutator],
) -> MessageRow:
    """Return the row in which a sender's message would arrive."""
    if isinstance(reply_to, str):
        reply_to = endpoint.addresses.from_user(reply_to)
    composed = compose(
        serialize(
            message,
            types=(type,) if type else (),
            serializer=endpoint.parts.handlers.serializers.main,  # as its senders would
        ),
        intent="Send",
        message_id=str(uuid.uuid4()),
        now=datetime.now(UTC),
        origin=Origin(None, reply_to.canonical if reply_to else None),
        options=Options(headers),
    )
    composed = put_on(composed, mutators)
    return MessageRow(
        str(uuid.uuid4()), time_left=None, headers=encode_headers(composed.headers), body=composed.body, seq=1
    )


def _delivery(endpoint: Endpoint, row: MessageRow, outbox: Outbox, session: NoTransaction) -> Delivery:
    has_its_uses = cast("ReceiveSession", session)  # it has what a delivery uses of one
    return Delivery(
        row, decode_headers(row.headers), endpoint.address, has_its_uses, cast("Dispatcher", outbox), items={}
    )
