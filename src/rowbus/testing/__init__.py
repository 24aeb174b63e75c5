"""For users' tests: a temporary database, a clock to set, and handlers without a database.

```python
outcome = asyncio.run(run_handlers(sales, PlaceOrder("42", 9.5)))
assert outcome.error is None
assert outcome.sends[0].read(ChargeCard) == ChargeCard("42", 9.5)
```

Invariant: `run_handlers` takes a message along the endpoint's own way (headers as text and back, deserialisation,
handlers in their order, sends with all their headers); only the queues and the transaction are missing.
`tests/testing` runs one suite against it and against PostgreSQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TypeVar, cast

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql import temporary
from rowbus.endpoint.pipeline import Pipeline
from rowbus.endpoint.steps import with_own_steps
from rowbus.errors import HandlerError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import AppendedEvent, Send, deduplicate
from rowbus.messages.headers import Header, decode_headers, encode_headers, parse_enclosed_types
from rowbus.messages.identity import Identity
from rowbus.messages.message import MessageRow
from rowbus.messages.message_types import deserializer, serialize
from rowbus.messages.outgoing import Options, Origin, compose
from rowbus.testing.delayed_store.contract import DelayedMessageStoreContract
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import ReceiveSession
    from rowbus.endpoint.endpoint import Endpoint
    from rowbus.messages.dispatch import Leaving
    from rowbus.transport.receiving.dispatcher import Dispatcher

__all__ = [
    "AppendedEvent",
    "DelayedMessageStoreContract",
    "FakeClock",
    "Outcome",
    "SentMessage",
    "run_handlers",
    "temporary_database",
]

T = TypeVar("T")

CALLER: Final = "caller"
"""The queue that messages given to `run_handlers` want their replies in, unless another is named."""


SUBSCRIBERS: Final = "subscribers"
"""The queue that stands for all subscribers: what handlers publish in `run_handlers` goes there, once."""


@contextmanager
def temporary_database(server: str | None = None) -> Generator[str]:
    """Give the connection string of a fresh, empty database, which is dropped when the block ends.

    It is made on the server that `server` (a libpq connection string) points to; none given, on that of
    ROWBUS_DATABASE, else on the embedded server. The role must be allowed to create databases. Sessions still open in
    the end are cut off. Raises ConnectionLostError, PermissionDeniedError, EmbeddedServerError. Blocks.
    """
    with temporary.temporary_database(resolve_dsn(server)) as dsn:
        yield dsn


class FakeClock:
    """A clock that goes only when told to. Calling it gives seconds, `now` the time of day."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Stand at `start`, a datetime with a time zone, and at 0 seconds."""
        self._start = start
        self._seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds since the start, as `time.monotonic` would."""
        return self._seconds

    def now(self) -> datetime:
        """Return the time of day, aware."""
        return self._start + timedelta(seconds=self._seconds)

    def advance(self, seconds: float) -> None:
        """Let so many seconds go by; raises ValueError for less than none."""
        if seconds < 0:
            raise ValueError(f"A clock cannot go back {-seconds} s.")
        self._seconds += seconds


class SentMessage(NamedTuple):
    """A message that left a handler: where to, its headers and body, and whether it was sent with `immediate`.

    `due` is the delay, or the instant, that it was sent with; None: at once.
    """

    destination: QueueAddress
    headers: Mapping[str, str | None]
    body: bytes
    time_to_be_received: timedelta | None
    immediate: bool
    due: timedelta | datetime | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """Its wire names, most concrete first."""
        return parse_enclosed_types(self.headers.get(Header.ENCLOSED_MESSAGE_TYPES))

    def read(self, kind: type[T]) -> T:
        """Return the message as an object of this type, for comparing; raises MessageDeserializationError."""
        return cast("T", deserializer(kind, kind.__qualname__)(self.body))


class Outcome(NamedTuple):
    """What became of one attempt at a message.

    `sends` is what left, in order, replies included; after an `error` only what was sent with `immediate`. `events` is
    what was appended to logs, in order; nothing after an `error`.
    """

    sends: tuple[SentMessage, ...]
    error: BaseException | None
    events: tuple[AppendedEvent, ...] = ()

    @property
    def published(self) -> tuple[SentMessage, ...]:
        """Those of the sends that are events published, each once, however many subscribers there would be."""
        return tuple(sent for sent in self.sends if sent.headers.get(Header.MESSAGE_INTENT) == "Publish")

    @property
    def replies(self) -> tuple[SentMessage, ...]:
        """Those of the sends that are replies."""
        return tuple(sent for sent in self.sends if sent.headers.get(Header.MESSAGE_INTENT) == "Reply")


async def run_handlers(
    endpoint: Endpoint,
    message: object,
    *,
    type: str | None = None,
    headers: Mapping[str, str] | None = None,
    reply_to: str | QueueAddress | None = CALLER,
) -> Outcome:
    """Have an endpoint's own steps and handlers process a message once, with no database, and say what came of it.

    The endpoint need not be started. `type` names dicts and bytes; `headers` are added to those a sender would set,
    and win over them; replies go to `reply_to` (None: the sender takes no replies). What a handler raises, and what
    the endpoint would refuse to handle (UnknownMessageTypeError, MessageDeserializationError), is the outcome's
    `error`: nothing is retried, no error queue is involved. A handler that touches `context.connection` gets a
    HandlerError; test such handlers with `temporary_database`. Raises, for a message that cannot be sent at all,
    MessageSerializationError, InvalidHeaderError or InvalidAddressError.
    """
    outbox = _Outbox()
    delivery = _delivery(endpoint, _incoming(endpoint, message, type, headers, reply_to), outbox)
    sender = endpoint.sender(Identity(endpoint.name, "testing", "0" * 32), _subscribers)
    pipeline = Pipeline(endpoint._handlers, sender)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - runs them
    process = with_own_steps(pipeline, endpoint._steps, _no_failures)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    pipeline.stop()  # so that a test that cancels this call does not wait for a handler that never ends
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


class _Outbox:
    """Takes what is sent, in place of a dispatcher."""

    def __init__(self) -> None:
        self.sent: list[SentMessage] = []
        self.appended: list[AppendedEvent] = []

    async def dispatch(self, sends: Sequence[Leaving]) -> None:
        """Take what a handler sends with `immediate`."""
        await self.leave(sends, immediate=True)

    async def leave(self, leaving: Sequence[Leaving], *, immediate: bool) -> None:
        """Take what leaves in one dispatch, equal messages collapsed, headers as they would be read."""
        self.appended += [event for event in leaving if isinstance(event, AppendedEvent)]
        for send in deduplicate([send for send in leaving if not isinstance(send, AppendedEvent)]):
            message, due = send.message, None if isinstance(send, Send) else send.due
            headers = decode_headers(encode_headers(message.headers))
            self.sent.append(
                SentMessage(
                    send.destination, headers, message.body, message.time_to_be_received, immediate, due
                )
            )


class _NoTransaction:
    """Stands where the receive session would: everything but the connection works."""

    @property
    def handler_connection(self) -> NoReturn:
        """Refuse, saying what to use."""
        raise HandlerError(
            "There is no context.connection here: run_handlers works without a database. Test a handler that uses its "
            "connection with a started endpoint on rowbus.testing.temporary_database()."
        )

    sync_handler_connection = handler_connection

    async def protect(self) -> None:
        """Do nothing: there is nothing to undo."""

    async def abandon(self) -> None:
        """Do nothing: there is no connection."""

    def discard(self) -> None:
        """Do nothing: there is no connection."""


def _incoming(
    endpoint: Endpoint,
    message: object,
    type: str | None,
    headers: Mapping[str, str] | None,
    reply_to: str | QueueAddress | None,
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
    return MessageRow(
        str(uuid.uuid4()), expired=False, headers=encode_headers(composed.headers), body=composed.body, seq=1
    )


def _delivery(endpoint: Endpoint, row: MessageRow, outbox: _Outbox) -> Delivery:
    session = cast("ReceiveSession", _NoTransaction())  # it has what a delivery uses of one
    return Delivery(
        row, decode_headers(row.headers), endpoint.address, session, cast("Dispatcher", outbox), items={}
    )
