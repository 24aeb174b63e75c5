"""Handlers without a database: one message, along the endpoint's own way.

Invariant: headers as text and back, deserialisation, handlers in their order, sends with all their headers; only the
queues and the transaction are missing. `tests/testing` runs one suite against it and against PostgreSQL.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from rowbus.endpoint.pipeline import Pipeline
from rowbus.endpoint.steps.chain import with_own_steps
from rowbus.endpoint.steps.mutation import with_mutators
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import decode_headers, encode_headers
from rowbus.messages.identity import Identity
from rowbus.messages.message import MessageRow
from rowbus.messages.message_types import serialize
from rowbus.messages.mutators import put_on
from rowbus.messages.outgoing import Options, Origin, compose
from rowbus.testing.outcome import Outcome
from rowbus.testing.stand_ins import NoTransaction, Outbox, without_tables
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.sessions import ReceiveSession
    from rowbus.endpoint.endpoint import Endpoint
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.receiving.dispatcher import Dispatcher

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
    for `def` ones. Without one, a handler that touches it gets a HandlerError. Raises, for a message that cannot be
    sent at all, MessageSerializationError, InvalidHeaderError or InvalidAddressError.
    """
    outbox, mutators = Outbox(), without_tables(endpoint.mutators)
    row = _incoming(endpoint, message, type, headers, reply_to, mutators=mutators)
    delivery = _delivery(endpoint, row, outbox, connection)
    sender = endpoint.sender(Identity(endpoint.name, "testing", "0" * 32), _subscribers)
    pipeline = Pipeline(endpoint._handlers, sender)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - runs them
    process = with_own_steps(pipeline, endpoint._steps, _no_failures)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    process = with_mutators(process, mutators)
    pipeline.stop()  # so that a test that cancels this call does not wait for a handler that never ends
    dependencies = endpoint._handlers.dependencies  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    async with dependencies.replaced(provide or {}):
        try:
            await process(delivery)
        except Exception as error:  # noqa: BLE001 - a handler may raise anything; the test looks at it
            return Outcome(tuple(outbox.sent), error)
        finally:
            pipeline.close()
    await outbox.leave(delivery.sends, immediate=False)
    return Outcome(tuple(outbox.sent), None, tuple(outbox.appended))


def _no_failures(_delivery: Delivery) -> int:
    return 0


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
            serializer=endpoint._handlers.serializers.main,  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as its senders would
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


def _delivery(endpoint: Endpoint, row: MessageRow, outbox: Outbox, connection: object) -> Delivery:
    session = cast("ReceiveSession", NoTransaction(connection))  # it has what a delivery uses of one
    return Delivery(
        row, decode_headers(row.headers), endpoint.address, session, cast("Dispatcher", outbox), items={}
    )
