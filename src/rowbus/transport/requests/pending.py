"""The requests of this process that wait for an answer, by the ids of their messages.

Invariants: a request is answered once, or given up; what answers none is consumed with one line of the log; an answer
of another kind than was asked for is an error that names both.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import MalformedHeadersError, MessageDeserializationError
from rowbus.errors.exception_facts import text_of
from rowbus.messages.headers import Header, decode_headers, parse_enclosed_types
from rowbus.messages.message_types import Deserializer, contract_of, with_parents
from rowbus.messages.mutators import take_off
from rowbus.messages.return_code import return_code_of
from rowbus.transport.claims.claim_check import off_the_wire, takes_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rowbus.database.sessions import SessionPool
    from rowbus.messages.bodies.serializer import Serializers
    from rowbus.messages.message import MessageRow
    from rowbus.messages.mutators import Mutator

logger = logging.getLogger("rowbus.requests")

REPLY: Final = "Reply"


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


def _log_late(row: MessageRow, headers: dict[str, str | None]) -> None:
    logger.info(
        "Message %s answers request %s, for which nothing waits any more: dropped",
        headers.get(Header.MESSAGE_ID) or row.id,
        headers.get(Header.CORRELATION_ID),
    )


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


def _name_of(kind: Any) -> str:  # noqa: ANN401 - what the user asks for
    if isinstance(kind, type) and kind not in {dict, bytes, object, int}:
        return contract_of(kind).name
    return getattr(kind, "__name__", str(kind))
