"""Messages of queues as events of a log, and back: a drained message can be sent again as it was.

| field | of a message that was in a queue |
| --- | --- |
| `type` | its most concrete wire name, without assembly; NULL if its headers name none or cannot be read |
| `data` | its body: the text, or base64; NULL for NULL |
| `extra1` | its headers, word for word |
| `extra2` | `message/utf-8` or `message/base64`: what `data` is; no other event has these |
| `extra3` | the queue it was in |
| `extra4` | the id of its row there |

Invariant: any headers and body come back byte for byte.
"""

from __future__ import annotations

import binascii
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import MalformedHeadersError, MessageDeserializationError, MessageSerializationError
from rowbus.messages.bodies.json_bodies import JSON
from rowbus.messages.dispatch import AppendedEvent
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.outgoing import Content

if TYPE_CHECKING:
    from rowbus.log.event import Event
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import MessageRow

TEXT: Final = "message/utf-8"
BASE64: Final = "message/base64"
PLAIN: Final = "text/plain"


class ArchivedMessage(NamedTuple):
    """A message as it was in its queue: headers word for word, the body's bytes (None: NULL)."""

    headers: str
    body: bytes | None
    queue: str
    row_id: str

    def decode_headers(self) -> dict[str, str | None]:
        """Return the headers as they would be received; raises MalformedHeadersError."""
        return decode_headers(self.headers)


def archived_event(log: str, row: MessageRow, queue: QueueAddress) -> AppendedEvent:
    """Return the event that keeps a message."""
    data, form = _as_text(row.body)
    return AppendedEvent(log, _type_of(row.headers), data, row.headers, form, str(queue), row.id)


def archived_message(event: Event) -> ArchivedMessage | None:
    """Return the message that an event keeps; None for events that are no messages.

    Raises MessageDeserializationError when the body was changed and cannot be read.
    """
    if event.extra2 not in {TEXT, BASE64}:
        return None
    body = None if event.data is None else _as_bytes(event.data, event.extra2)
    return ArchivedMessage(event.extra1 or "", body, event.extra3 or "", event.extra4 or "")


def content_of(event: Event) -> Content:
    """Return any other event's data as the body of a message of the event's type.

    Raises MessageSerializationError for an event without type or data.
    """
    if event.type is None or event.data is None:
        raise MessageSerializationError(
            f"Event {event.id} has no {'type' if event.type is None else 'data'}, so no message can be made of it; "
            "give forward_events a function that makes one, or None.",
            type_name=event.type or "",
        )
    return Content(event.data.encode(), JSON if _is_json(event.data) else PLAIN, (event.type,))


def _as_text(body: bytes | None) -> tuple[str | None, str]:
    if body is None:
        return None, TEXT
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # which PostgreSQL's text cannot hold
        return binascii.b2a_base64(body, newline=False).decode(), BASE64
    return text, TEXT


def _as_bytes(data: str, form: str) -> bytes:
    if form == TEXT:
        return data.encode()
    try:
        return binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:
        raise MessageDeserializationError(
            f"The data of a {BASE64} event is not base64: {error}", type_name=BASE64
        ) from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _type_of(headers: str) -> str | None:
    try:
        types = decode_headers(headers).get(Header.ENCLOSED_MESSAGE_TYPES) or ""
    except MalformedHeadersError:
        return None
    return types.partition(";")[0].partition(",")[0] or None
