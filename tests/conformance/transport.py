"""A receiver on a queue of its own, driven as an endpoint would drive it: what the transport tests start and stop.

Invariant: an error, a critical error or a task that a test did not expect fails the test.
"""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest

from rowbus import Endpoint
from rowbus.endpoint.recovery import Recovery
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import Send
from rowbus.messages.headers import Identity
from rowbus.messages.message import OutgoingMessage
from rowbus.settings import EndpointSettings, FailureHandling, TransactionMode
from rowbus.transport.queues.table import queue_table
from rowbus.transport.receiving.delivery import Callbacks, Delivery, ErrorResult, FailedDelivery
from rowbus.transport.receiving.dispatcher import Dispatcher
from rowbus.transport.receiving.preparation import prepare
from rowbus.transport.receiving.receiver import Receiver
from tests.fixtures.processes import pause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Unpack

    from rowbus.transport.receiving.delivery import OnError, OnMessage
    from tests.conformance.backend import Backend
    from tests.conformance.settings import Settings

T = TypeVar("T")

LIMIT = 90.0  # seconds: the machine may be busy, and a server far away
A_WHILE = 0.05  # seconds in which what must not happen would have happened
CONCURRENCY = 8
IDENTITY = Identity("Conformance", "machine", "0" * 32)


class Case(NamedTuple):
    """A transaction mode, and what a failure does to its transaction."""

    mode: TransactionMode
    handling: FailureHandling = FailureHandling.SAVEPOINT

    def __str__(self) -> str:
        return f"{self.mode.value}-{self.handling.value}"


NONE = Case(TransactionMode.NONE)
RECEIVE_ONLY = Case(TransactionMode.RECEIVE_ONLY)
SENDS_ATOMIC = Case(TransactionMode.SENDS_ATOMIC_WITH_RECEIVE)
RECEIVE_ONLY_ROLLBACK = Case(TransactionMode.RECEIVE_ONLY, FailureHandling.ROLLBACK)
SENDS_ATOMIC_ROLLBACK = Case(TransactionMode.SENDS_ATOMIC_WITH_RECEIVE, FailureHandling.ROLLBACK)


def _cases(*cases: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=str)


in_all_modes = _cases(NONE, RECEIVE_ONLY, SENDS_ATOMIC)
in_all_modes_failing = _cases(NONE, RECEIVE_ONLY, RECEIVE_ONLY_ROLLBACK, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK)
in_transaction_modes_failing = _cases(
    RECEIVE_ONLY, RECEIVE_ONLY_ROLLBACK, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK
)
in_transaction_modes = _cases(RECEIVE_ONLY, SENDS_ATOMIC)
in_default_mode = _cases(SENDS_ATOMIC)


class Transport:
    """One queue with its receiver; `another` gives a second receiver on the same queue."""

    def __init__(self, backend: Backend, case: Case, name: str = "input") -> None:
        self.backend = backend
        self.case = case
        self.address = backend.queue(name)
        self.error_queue = backend.queue("error")
        self.critical: list[tuple[str, BaseException]] = []
        self.expects_critical = False
        self.failures: list[FailedDelivery] = []
        self._unexpected: list[FailedDelivery] = []
        self._pool = backend.pool()
        self._receiver: Receiver | None = None
        self._others: list[Transport] = []
        self.dispatcher = Dispatcher(self._pool, notify=True)

    @property
    def receiver(self) -> Receiver:
        assert self._receiver is not None
        return self._receiver

    async def create(self) -> None:
        for address in (self.address, self.error_queue):
            await self.backend.create_queue(address)

    async def open(self) -> None:
        await self._pool.open()

    async def another(self) -> Transport:
        """Give a second instance on the same queue, which ends with this one."""
        other = Transport(self.backend, self.case, self.address.table)
        self._others.append(other)
        await other.open()
        return other

    async def start(
        self, on_message: OnMessage, on_error: OnError | None = None, **settings: Unpack[Settings]
    ) -> None:
        """Initialise a receiver and let it receive."""
        chosen: Settings = {
            "concurrency": CONCURRENCY,
            "transaction_mode": self.case.mode,
            "failure_handling": self.case.handling,
            "peek_delay": timedelta(milliseconds=100),
        }
        chosen.update(settings)
        callbacks = Callbacks(
            on_message, self._noting(on_error or self._not_expected), self._on_poison, self._on_critical
        )
        receiving = EndpointSettings(**chosen)
        dispatcher = Dispatcher(self._pool, notify=receiving.notifications)
        self._receiver = Receiver(self.backend.database, self.address, receiving, callbacks, dispatcher)
        await prepare(self.backend.database, [queue_table(self.address)], receiving)
        await self._receiver.start()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the receiver's own grace period
        if self._receiver is not None:
            await self._receiver.stop(timeout)

    async def close(self) -> None:
        """End everything, and complain of what was not expected."""
        await self._end()
        left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("rowbus")]
        assert not left, f"left running: {left}"
        for transport in (self, *self._others):
            assert not transport._unexpected, f"failed unexpectedly: {transport._unexpected[0].error!r}"
            assert transport.expects_critical or not transport.critical, transport.critical

    async def _end(self) -> None:
        for other in self._others:
            await other._end()
        await self.stop(5)
        await self._pool.close()

    async def send(
        self,
        body: bytes = b"{}",
        headers: Mapping[str, str] | None = None,
        *,
        to: QueueAddress | None = None,
        time_to_be_received: timedelta | None = None,
    ) -> None:
        message = OutgoingMessage(dict(headers or {}), body, time_to_be_received)
        await self.dispatcher.dispatch([Send(to or self.address, message)])

    async def send_numbered(self, count: int) -> None:
        await self.dispatcher.dispatch(
            [Send(self.address, OutgoingMessage({"Number": str(number)}, b"{}")) for number in range(count)]
        )

    def to(self, queue: str, *, message_id: str = "", body: bytes = b"sent") -> Send:
        """Return what sends to another queue."""
        headers = {"NServiceBus.MessageId": message_id} if message_id else {}
        return Send(self.backend.queue(queue), OutgoingMessage(headers, body))

    @property
    def alone(self) -> Settings:
        """Settings for what loses its transaction: where that happens at once, others could have the message."""
        return {} if self.backend.finds_out_at_commit else {"concurrency": 1}

    async def fail_at_commit(self, delivery: Delivery) -> None:
        """Be a handler whose transaction cannot be committed."""
        await self.backend.fail_at_commit(delivery.connection)

    async def wait_until_empty(self, address: QueueAddress | str | None = None) -> None:
        await self.wait_for_rows(0, address)

    async def wait_for_rows(self, count: int, address: QueueAddress | str | None = None) -> None:
        async def reached() -> bool:
            return await self.backend.count(address or self.address) == count

        await eventually(reached)

    # --- callbacks

    def _noting(self, on_error: OnError) -> OnError:
        async def noted(failed: FailedDelivery) -> ErrorResult:
            self.failures.append(failed)
            return await on_error(failed)

        return noted

    async def _not_expected(self, failed: FailedDelivery) -> ErrorResult:
        self._unexpected.append(failed)
        return ErrorResult.HANDLED

    def _on_poison(self, *row_and_error: object) -> Send:
        parts = Endpoint("Sales").parts._replace(error_queue=self.error_queue)
        return Recovery(parts, self.address, IDENTITY).on_poison(*row_and_error)  # type: ignore[arg-type]  # passed through

    def _on_critical(self, text: str, error: BaseException) -> None:
        self.critical.append((text, error))


async def handled(failed: FailedDelivery) -> ErrorResult:
    """Be an error policy that deals with everything."""
    return ErrorResult.HANDLED


async def retried(failed: FailedDelivery) -> ErrorResult:
    """Be an error policy that has everything tried again."""
    return ErrorResult.RETRY_REQUIRED


async def ignored(delivery: Delivery) -> None:
    """Be a handler that does nothing."""


async def failing(delivery: Delivery) -> None:
    """Be a handler that always fails."""
    raise SimulatedError


class SimulatedError(Exception):
    """Error that the handlers of these tests raise."""


async def within(awaitable: Awaitable[T], seconds: float = LIMIT) -> T:
    """Await something that must happen soon."""
    async with asyncio.timeout(seconds):
        return await awaitable


async def eventually(
    condition: Callable[[], Awaitable[bool]] | Callable[[], bool], seconds: float = LIMIT
) -> None:
    """Wait until a condition holds."""
    began = time.monotonic()
    while True:
        holds = condition()
        if holds if isinstance(holds, bool) else await holds:
            return
        waited = time.monotonic() - began
        assert waited < seconds, f"still not so after {seconds} s"
        await asyncio.sleep(pause(waited))


async def never(condition: Callable[[], bool], seconds: float = A_WHILE) -> None:
    """Fail if a condition comes to hold within a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert not condition()
        await asyncio.sleep(0.005)


def skip(seconds: float) -> None:
    """Set the clock of this test's event loop forward: who waits there has waited that much longer."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def headers_text(**headers: str | None) -> str:
    """Write header text with the standard library, `__` standing for a dot."""
    return json.dumps(
        {name.replace("__", "."): value for name, value in headers.items()}, separators=(",", ":")
    )
