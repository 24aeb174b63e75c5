"""Requests that wait, and their answers, received from the asker's own queue; queues of askers that died are removed.

Invariants: the queue is owned by the session that receives from it, before it exists; no answer is handed over that is
not deleted by the same transaction, and one whose commit fails is dropped when it comes again; a queue is removed only
under the lock of its owner, and only if it was without one at the look before, too. A request is answered once, or
given up; what answers none is consumed with one line of the log; an answer of another kind than was asked for is an
error that names both.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.database.sessions import connected
from rowbus.errors import (
    ConnectionLostError,
    MalformedHeadersError,
    MessageDeserializationError,
    StorageError,
)
from rowbus.errors.strangers import text_of
from rowbus.messages.headers import Header, decode_headers, parse_enclosed_types
from rowbus.messages.message_types import Deserializer, contract_of, with_parents
from rowbus.messages.mutators import take_off
from rowbus.messages.return_code import return_code_of
from rowbus.running.backoff import LookPauses
from rowbus.running.critical import ReportedBreaker
from rowbus.running.service import Periodic, Service
from rowbus.running.waiting import pause_unless_notified
from rowbus.transport.claims.claim_check import off_the_wire, takes_time
from rowbus.transport.queues.installer import create_queue
from rowbus.transport.queues.table import queue_table
from rowbus.transport.requests.decisions import MOST_LOOKED_AT, MOST_ON_SQL_SERVER, LeftBehind
from rowbus.transport.requests.table import answer_queue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.sessions import AsyncSession, Database, ReceiveSession, SessionPool
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.bodies.serializer import Serializers
    from rowbus.messages.message import MessageRow
    from rowbus.messages.mutators import Mutator
    from rowbus.running.critical import Alarm

logger = logging.getLogger("rowbus.requests")

REPLY: Final = "Reply"

BATCH: Final = 100  # answers of one transaction
FROM_THE_START: Final = -(2**31)
LONGEST_PAUSE: Final = 0.25  # seconds between two looks while an answer is waited for: .NET does not notify
IDLE_PAUSE: Final = 10.0  # seconds between two looks for late answers
PERIOD: Final = 60.0  # seconds between two looks for queues left behind


class Pending(NamedTuple):
    """A request that waits: how its answer is read, and who gets it."""

    read: AnswerReader
    answer: asyncio.Future[Any]

    def has(self, headers: dict[str, str | None], body: bytes) -> None:
        """Hand the answer over, unless it is given up; raises what reading it raises."""
        if not self.answer.done():
            self.answer.set_result(self.read(headers, body))

    def failed(self, error: Exception) -> None:
        """Raise an error where the answer is waited for."""
        if not self.answer.done():
            self.answer.set_exception(error)


class PendingRequests:
    """Those of one asker. For one event loop."""

    def __init__(self, mutators: Sequence[Mutator], pool: SessionPool) -> None:
        """Begin with none; answers come off the wire through these mutators, with what they ask on these sessions."""
        self._mutators = mutators
        self._pool = pool
        self._waiting: dict[str, Pending] = {}
        self._late = set[asyncio.Task[None]]()

    def __len__(self) -> int:
        return len(self._waiting)

    def expects(self, correlation_id: str) -> bool:
        """Say whether an answer that names this id is waited for."""
        return correlation_id in self._waiting

    def add(self, correlation_id: str, read: AnswerReader) -> asyncio.Future[Any]:
        """Expect the answer that names this id, and return what will have it; before the message is sent."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = Pending(read, answer)
        return answer

    def give_up(self, correlation_id: str) -> None:
        """Expect that answer no longer; harmless when it has come."""
        self._waiting.pop(correlation_id, None)

    async def end(self, error: Exception) -> None:
        """Raise an error where an answer is waited for; returns when nothing is read any more."""
        late = tuple(self._late)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for pending in self._waiting.values():
            if not pending.answer.done():
                pending.answer.set_exception(error)
        self._waiting.clear()

    def received(self, row: MessageRow) -> None:
        """Hand a message to who waits for it. Raises nothing: what cannot be read is the error of who asked."""
        try:
            headers = decode_headers(row.headers)
        except MalformedHeadersError as error:
            logger.warning("Row %s among the answers was dropped: %s", row.id, error)
            return
        correlation_id = headers.get(Header.CORRELATION_ID) or ""
        is_answer = headers.get(Header.MESSAGE_INTENT) == REPLY and not row.expired
        pending = self._waiting.get(correlation_id) if is_answer else None
        if pending is None or pending.answer.done():
            _log_late(row, headers)
            return
        body = row.body or b""
        if takes_time(headers, self._mutators):
            reading = asyncio.create_task(self._read_late(pending, headers, body))
            self._late.add(reading)
            reading.add_done_callback(self._late.discard)
            return
        try:
            pending.has(headers, take_off(headers, body, self._mutators))
        except Exception as error:  # noqa: BLE001 - of a mutator or a reader: the asker's to handle
            pending.failed(error)

    async def _read_late(self, pending: Pending, headers: dict[str, str | None], body: bytes) -> None:
        """Read an answer that has values elsewhere, while others are received."""
        try:
            async with self._pool.session() as session:
                whole = await off_the_wire(headers, body, self._mutators, session)
            pending.has(headers, whole)
        except Exception as error:  # noqa: BLE001 - as above
            pending.failed(error)


class AnswerReader:
    """Reads the answers of one kind: a message class, `dict`, `bytes`, `int`, or an enum whose values are numbers."""

    def __init__(self, kind: Any, serializers: Serializers) -> None:  # noqa: ANN401 - what the user asks for
        """Read as `kind`. Raises ConfigurationError for a class without a reader."""
        self.kind = kind
        self.is_number = isinstance(kind, type) and issubclass(kind, (int, Enum))
        self.name = _name_of(kind)
        self._read = None if self.is_number else Deserializer(kind, self.name, serializers)

    def __call__(self, headers: Mapping[str, str | None], body: bytes) -> Any:  # noqa: ANN401 - of the kind
        """Return the answer; raises MessageDeserializationError."""
        code = return_code_of(headers)
        if self._read is None:
            return self._number(None if code is None else code.code, headers)
        if code is not None:
            raise self._other(f"the number {code.code}")
        types = parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))
        if self.kind not in {dict, bytes, object} and types and self.name not in with_parents(types):
            raise self._other(" or ".join(types))
        return self._read(body, headers.get(Header.CONTENT_TYPE))

    def _number(self, code: int | None, headers: Mapping[str, str | None]) -> Any:  # noqa: ANN401 - of the kind
        if code is None:
            raise self._other(headers.get(Header.ENCLOSED_MESSAGE_TYPES) or "a message without a type")
        try:
            return self.kind(code)
        except ValueError as error:
            raise MessageDeserializationError(
                f"The answer is the number {code}, which is no {self.name}: {text_of(error)}",
                type_name=self.name,
            ) from error

    def _other(self, came: str) -> MessageDeserializationError:
        return MessageDeserializationError(
            f"The answer is {came}, not {self.name}: ask for what the handler replies.", type_name=self.name
        )


class AnswerReceiver(Service):
    """Receives answers from `start` to `stop`, which drops the queue. For one event loop."""

    def __init__(
        self,
        database: Database,
        address: QueueAddress,
        pending: PendingRequests,
        alarm: Alarm,
        *,
        is_kept: bool = False,
    ) -> None:
        """Say which queue is to be owned, and who gets what comes there; `is_kept`: it is never dropped. No I/O."""
        failure = f"Failed to receive answers from {address}"
        super().__init__(
            f"rowbus {address} answers", ReportedBreaker("Receiving answers", failure, logger, alarm)
        )
        self.address = address
        self._is_kept = is_kept
        self._database = database
        self._table = queue_table(address)
        self._pending = pending
        self._pauses = LookPauses(LONGEST_PAUSE)
        self._wake = asyncio.Event()
        self._session: ReceiveSession | None = None

    async def prepare(self) -> None:
        """Own the queue, create it, and listen. Raises StorageError, ConfigurationError (the schema is missing)."""
        self._session = await self._open()

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Receive no more, and drop the queue unless it is kept, if the database is there. Harmless when stopped."""
        if self._task is None:
            return
        self._wake.set()
        await super().stop(timeout)
        if not self._is_kept:
            await self._drop()

    def asked(self) -> None:
        """Look soon, and often: a request leaves."""
        if self._pauses.worked():
            self._wake.set()

    async def work(self) -> None:
        """Receive what is there, then wait for more."""
        if self._session is None:
            self._session = await self._open()
        found = await self._receive(self._session)
        self._outages.succeeded()
        if not found:
            await self._wait(self._session)

    async def _wait(self, session: AsyncSession) -> None:
        """Wait for a notification, or for the time of the next look, which a request brings nearer."""
        while not self._stopping.is_set():
            self._wake.clear()
            seconds = self._pauses.following() if len(self._pending) else IDLE_PAUSE
            await pause_unless_notified(session, self._wake, seconds)
            if not self._wake.is_set():
                return

    async def release(self) -> None:
        """Close the session, and so own the queue no longer."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _receive(self, session: ReceiveSession) -> int:
        rows = await session.begin(self._table.receive(BATCH, FROM_THE_START))
        for row in rows:
            self._pending.received(row)
        await session.commit()
        return len(rows)

    async def _open(self) -> ReceiveSession:
        session = await self._database.connect_receiver()
        try:
            await self._own(session)
            await create_queue(session, self.address)
            await session.run_all(self._table.listen())
        except BaseException:
            await session.close()
            raise
        return session

    async def _own(self, session: AsyncSession) -> None:
        """Own the queue, which for a moment a session that broke may own still, or one that looks for owners."""
        if not await session.run(answer_queue(self.address).own()):
            raise ConnectionLostError(
                f"The queue of answers {self.address} is owned by another session still.",
                sqlstate=None,
                transient=True,
            )

    async def _drop(self) -> None:
        try:
            async with connected(self._database) as session:
                await session.run(self._table.drop())
        except StorageError as error:
            logger.warning("The queue %s stays until another asker removes it: %s", self.address, error)


class Sweeper(Periodic):
    """Looks for queues left behind in the schema of an asker's own. For one event loop."""

    def __init__(
        self, database: Database, address: QueueAddress, alarm: Alarm, *, period: float = PERIOD
    ) -> None:
        """Look beside this queue, every `period` seconds, give or take a fifth, and first at the start. No I/O."""
        failure = "Could not remove the queues of askers that are gone"
        outages = ReportedBreaker("Removing the queues of askers that are gone", failure, logger, alarm)
        super().__init__(f"rowbus {address} sweeper", outages, period, at_once=True)
        self._database = database
        self._address = address
        self._left = LeftBehind(MOST_ON_SQL_SERVER if address.backend == "sqlserver" else MOST_LOOKED_AT)

    async def do(self) -> None:
        """Remove what was left behind. Raises ConnectionLostError."""
        async with connected(self._database) as session:
            await self._sweep(session)

    async def _sweep(self, session: AsyncSession) -> None:
        names = await session.run(answer_queue(self._address).beside())
        beside = {name: replace(self._address, table=name) for name in names if name != self._address.table}
        chosen = self._left.next(beside)
        unowned = [name for name in chosen if await session.run(answer_queue(beside[name]).own())]
        for name in sorted(self._left.looked(unowned)):
            await self._remove(session, beside[name])

    async def _remove(self, session: AsyncSession, address: QueueAddress) -> None:
        try:
            await session.run(queue_table(address).drop())
        except ConnectionLostError:
            raise
        except StorageError as error:
            logger.debug("The queue %s of an asker that is gone cannot be removed: %s", address, error)
        else:
            logger.info("Removed %s, the queue of an asker that is gone", address)


def _log_late(row: MessageRow, headers: dict[str, str | None]) -> None:
    logger.info(
        "Message %s answers request %s, for which nothing waits any more: dropped",
        headers.get(Header.MESSAGE_ID) or row.id,
        headers.get(Header.CORRELATION_ID),
    )


def _name_of(kind: Any) -> str:  # noqa: ANN401 - what the user asks for
    if isinstance(kind, type) and kind not in {dict, bytes, object, int}:
        return contract_of(kind).name
    return getattr(kind, "__name__", str(kind))
