"""For users' tests: endpoints that run in a test, a temporary database, and handlers without a database.

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
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql import temporary
from rowbus.endpoint.pipeline import Pipeline
from rowbus.endpoint.steps.chain import with_own_steps
from rowbus.endpoint.steps.mutation import with_mutators
from rowbus.errors import HandlerError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import AnySend, AppendedEvent, Send, deduplicate
from rowbus.messages.headers import decode_headers, encode_headers
from rowbus.messages.identity import Identity
from rowbus.messages.message import MessageRow
from rowbus.messages.message_types import serialize
from rowbus.messages.mutators import put_on
from rowbus.messages.outgoing import Options, Origin, compose
from rowbus.testing.delayed_store.contract import DelayedMessageStoreContract
from rowbus.testing.outcome import Outcome, SentMessage
from rowbus.testing.running import Running, SyncRunning, running
from rowbus.testing.sagas import Scenario
from rowbus.transport.receiving.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.sessions import ReceiveSession
    from rowbus.endpoint.endpoint import Endpoint
    from rowbus.messages.dispatch import Leaving
    from rowbus.sagas.saga import Saga
    from rowbus.transport.receiving.dispatcher import Dispatcher

__all__ = [
    "AppendedEvent",
    "DelayedMessageStoreContract",
    "FakeClock",
    "Outcome",
    "Running",
    "SagaScenario",
    "SentMessage",
    "SyncRunning",
    "run_handlers",
    "running",
    "temporary_database",
]

S = TypeVar("S")

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
    outbox = _Outbox()
    delivery = _delivery(endpoint, _incoming(endpoint, message, type, headers, reply_to), outbox, connection)
    sender = endpoint.sender(Identity(endpoint.name, "testing", "0" * 32), _subscribers)
    pipeline = Pipeline(endpoint._handlers, sender)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - runs them
    process = with_own_steps(pipeline, endpoint._steps, _no_failures)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
    process = with_mutators(process, endpoint._mutators)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
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


class SagaScenario(Scenario[S]):
    """One saga class in a test without a database: messages come, time passes, states and sends are looked at.

    It is `run_handlers` with the saga's rows in memory and a clock of the test's; timeouts come when their time has.
    """

    def __init__(
        self, saga: type[Saga[S]], *, state: S | None = None, clock: FakeClock | None = None
    ) -> None:
        """Begin with no saga, or with one that has this state; the clock is a `FakeClock` of its own, or yours."""
        super().__init__(saga, run_handlers, clock or FakeClock(), state)


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
        for send in deduplicate([send for send in leaving if isinstance(send, AnySend)]):
            message, due = send.message, None if isinstance(send, Send) else send.due
            headers = decode_headers(encode_headers(message.headers))
            self.sent.append(
                SentMessage(
                    send.destination, headers, message.body, message.time_to_be_received, immediate, due
                )
            )


class _NoTransaction:
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

    async def run_in_attempt(self, _statement: object) -> NoReturn:
        """Refuse what works on Rowbus's own tables."""
        raise HandlerError(
            "run_handlers works without a database: run the endpoint with rowbus.testing.running() to test this."
        )

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
    composed = put_on(composed, endpoint._mutators)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as its senders would
    return MessageRow(
        str(uuid.uuid4()), time_left=None, headers=encode_headers(composed.headers), body=composed.body, seq=1
    )


def _delivery(endpoint: Endpoint, row: MessageRow, outbox: _Outbox, connection: object) -> Delivery:
    session = cast("ReceiveSession", _NoTransaction(connection))  # it has what a delivery uses of one
    return Delivery(
        row, decode_headers(row.headers), endpoint.address, session, cast("Dispatcher", outbox), items={}
    )
