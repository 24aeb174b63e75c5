"""The full story of a failed message, as headers of its copy in the error queue (docs/wire-format.md#error-queue).

Invariant: the copy keeps every header of the original except the retry counters and its end (one that ServiceControl
could not read, under another name), carries what ServiceControl needs to import it (FailedQ, TimeOfFailure, MessageId,
ExceptionInfo), and never expires. What is added has a longest length: a row or an exception of any size makes a copy
that can be written and read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.errors.exception_facts import (
    LONGEST_DATA,
    data_of,
    inner_exception,
    type_name,
    writable,
)
from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import without_malformed
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_timestamp
from rowbus.messages.tracing import with_new_trace
from rowbus.transport.recoverability.stack_trace import python_traceback, stack_trace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.identity import Identity
    from rowbus.messages.message import MessageRow

LONGEST_TRACEBACK = 65_536  # characters of Python's traceback; the beginning and the end are kept
LONGEST_RAW_HEADERS = 65_536  # characters of header text that could not be read; likewise
CUT = "\n… (cut) …\n"
_BRIEF_VALUE, _BRIEF_TOTAL = 1_024, 16_384  # characters of a header, and of all, in a brief copy
RAW_HEADERS = "Rowbus.RawHeaders"
"""Header of a poison message's copy: the header text that could not be read, as it was, cut when it is long."""

_BRIEF_STORY = (
    Header.MESSAGE_ID,
    Header.FAILED_QUEUE,
    Header.TIME_OF_FAILURE,
    Header.EXCEPTION_TYPE,
    Header.EXCEPTION_MESSAGE,
    Header.EXCEPTION_STACK_TRACE,
    Header.PROCESSING_ENDPOINT,
    Header.ENCLOSED_MESSAGE_TYPES,
    Header.CONTENT_TYPE,
)
_OF_THE_QUEUE = frozenset(
    {
        Header.RETRIES,
        Header.FL_RETRIES,
        Header.FAILED_ATTEMPTS,
        Header.INTERRUPTION,
        Header.EXPIRES,
        Header.WAITING_SINCE,
    }
)


def failed_message(
    *,
    headers: Mapping[str, str | None],
    body: bytes,
    error: BaseException,
    failed_queue: QueueAddress,
    identity: Identity,
    now: datetime,
    data: Mapping[str, str] | None = None,
) -> OutgoingMessage:
    """Return the copy of a message for the error queue, with its failure told in headers."""
    whole = with_new_trace(without_malformed(headers))
    kept = {name: value for name, value in whole.items() if name not in _OF_THE_QUEUE}
    story = {**fault_headers(error, data or {}), **identity.processing_headers()}
    story[Header.FAILED_QUEUE] = failed_queue.canonical
    story[Header.TIME_OF_FAILURE] = format_timestamp(now)
    return OutgoingMessage({**kept, **story}, body)


def poison_message(
    row: MessageRow, error: BaseException, *, failed_queue: QueueAddress, identity: Identity, now: datetime
) -> OutgoingMessage:
    """Return a complete message for the error queue in place of a row whose headers cannot be read."""
    headers = {Header.MESSAGE_ID: row.id, RAW_HEADERS: shortened(row.headers, LONGEST_RAW_HEADERS)}
    return failed_message(
        headers=headers,
        body=row.body or b"",
        error=error,
        failed_queue=failed_queue,
        identity=identity,
        now=now,
    )


def fault_headers(error: BaseException, data: Mapping[str, str]) -> dict[str, str]:
    """Return the ExceptionInfo headers of an exception."""
    told = stack_trace(error)
    headers = {
        Header.EXCEPTION_TYPE: type_name(error),
        Header.EXCEPTION_MESSAGE: told.message,
        Header.EXCEPTION_STACK_TRACE: told.text,
    }
    if told.source:
        headers[Header.EXCEPTION_SOURCE] = told.source
    if (inner := inner_exception(error)) is not None:
        headers[Header.INNER_EXCEPTION_TYPE] = type_name(inner)
    for name, value in {**data_of(error), **data}.items():
        headers[f"{Header.EXCEPTION_DATA_PREFIX}{name}"] = writable(value)[:LONGEST_DATA]
    headers[Header.EXCEPTION_TRACEBACK] = shortened(python_traceback(error), LONGEST_TRACEBACK)
    return headers


def brief_headers(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return those headers of an error queue's copy that fit where the whole would not: the story, cut, comes first.

    Left out are values that are long, and such as hold NUL, which JSON may hold and a database may refuse.
    """
    story = {name: headers[name] for name in _BRIEF_STORY if name in headers}
    kept: dict[str, str | None] = {}
    room = _BRIEF_TOTAL
    for name, value in {**story, **headers}.items():
        text = value if value is None or name not in story else shortened(value, _BRIEF_VALUE)
        size = len(name) + len(text or "")
        if size <= min(room, 2 * _BRIEF_VALUE) and "\0" not in f"{name}{text}":
            kept[name] = text
            room -= size
    return kept


def shortened(text: str, most: int) -> str:
    """Return text of at most so many characters: a long one loses its middle."""
    if len(text) <= most:
        return text
    left = (most - len(CUT)) // 2
    return f"{text[: most - len(CUT) - left]}{CUT}{text[-left:]}"
