"""The full story of a failed message, as headers of its copy in the error queue (reference §3.5, §7).

Invariant: the copy keeps every header of the original except the retry counters, carries what ServiceControl needs
to import it (FailedQ, TimeOfFailure, MessageId, ExceptionInfo), and never expires.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

from rowbus.model.headers import Header
from rowbus.model.message import OutgoingMessage
from rowbus.model.timestamps import format_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.model.address import QueueAddress
    from rowbus.model.identity import Identity
    from rowbus.model.message import MessageRow

LONGEST_MESSAGE = 16_384  # characters of ExceptionInfo.Message, as NServiceBus cuts it
RAW_HEADERS = "Rowbus.RawHeaders"
"""Header of a poison message's copy: the header text nobody could read, as it was."""

_COUNTERS = frozenset({Header.RETRIES, Header.FL_RETRIES})


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
    kept = {name: value for name, value in headers.items() if name not in _COUNTERS}
    story = {**fault_headers(error, data or {}), **identity.processing_headers()}
    story[Header.FAILED_QUEUE] = failed_queue.canonical
    story[Header.TIME_OF_FAILURE] = format_timestamp(now)
    return OutgoingMessage({**kept, **story}, body)


def poison_message(
    row: MessageRow, error: BaseException, *, failed_queue: QueueAddress, identity: Identity, now: datetime
) -> OutgoingMessage:
    """Return a complete message for the error queue in place of a row whose headers cannot be read."""
    headers = {Header.MESSAGE_ID: row.id, RAW_HEADERS: row.headers}
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
    headers = {
        Header.EXCEPTION_TYPE: type_name(error),
        Header.EXCEPTION_MESSAGE: _writable(str(error))[:LONGEST_MESSAGE],
        Header.EXCEPTION_STACK_TRACE: _writable("".join(traceback.format_exception(error))),
    }
    if (inner := error.__cause__ or error.__context__) is not None:
        headers[Header.INNER_EXCEPTION_TYPE] = type_name(inner)
    for name, value in data.items():
        headers[f"{Header.EXCEPTION_DATA_PREFIX}{name}"] = _writable(value)
    return headers


def type_name(error: BaseException) -> str:
    """Return the full name of an exception's type, without the module for built-in ones."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _writable(text: str) -> str:
    """Replace half surrogate pairs, which no header may hold."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
