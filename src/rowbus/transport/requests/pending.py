"""The requests of this process that wait for an answer, by the ids of their messages.

Invariant: a request is answered once, or given up; what answers none is consumed with one line of the log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rowbus.errors import MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.mutators import take_off

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.messages.message import MessageRow
    from rowbus.messages.mutators import Mutator
    from rowbus.transport.requests.answer import AnswerReader

logger = logging.getLogger("rowbus.requests")

REPLY: Final = "Reply"


class Pending(NamedTuple):
    """A request that waits: how its answer is read, and who gets it."""

    read: AnswerReader
    answer: asyncio.Future[Any]


class PendingRequests:
    """Those of one asker. For one event loop."""

    def __init__(self, mutators: Sequence[Mutator] = ()) -> None:
        """Begin with none; answers come off the wire through these mutators."""
        self._mutators = mutators
        self._waiting: dict[str, Pending] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, message_id: str, read: AnswerReader) -> asyncio.Future[Any]:
        """Expect the answer of a message, and return what will have it; before the message is sent."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[message_id] = Pending(read, answer)
        return answer

    def give_up(self, message_id: str) -> None:
        """Expect the answer of a message no longer; harmless when it has come."""
        self._waiting.pop(message_id, None)

    def end(self, error: Exception) -> None:
        """Raise an error where an answer is waited for."""
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
        pending = self._waiting.pop(correlation_id, None) if is_answer else None
        if pending is None or pending.answer.done():
            _log_late(row, headers)
            return
        try:
            body = take_off(headers, row.body or b"", self._mutators)
            pending.answer.set_result(pending.read(headers, body))
        except Exception as error:  # noqa: BLE001 - of a mutator or a reader: the asker's to handle
            pending.answer.set_exception(error)


def _log_late(row: MessageRow, headers: dict[str, str | None]) -> None:
    logger.info(
        "Message %s answers request %s, for which nothing waits any more: dropped",
        headers.get(Header.MESSAGE_ID) or row.id,
        headers.get(Header.CORRELATION_ID),
    )
