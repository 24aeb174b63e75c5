"""What an event of a log carries: its type and its data as text, of any object.

Invariant: what is stored is text that PostgreSQL can hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import msgspec

from rowbus.errors import MessageSerializationError
from rowbus.errors.exception_facts import text_of
from rowbus.messages.dispatch import AppendedEvent
from rowbus.messages.message_types import declared_contract, refuse_class
from rowbus.running.telemetry.tracing import tracing


class EventContent(NamedTuple):
    """What an event of a log carries: a declared type's wire name (else None), and its data as text."""

    type: str | None
    data: str | None


def appended_event(log: str, data: object, type: str | None, *extras: str | None) -> AppendedEvent:
    """Return the event that appends any data to a log; raises MessageSerializationError for what cannot be stored.

    In a process that traces, the event carries the span of its appending in its last extra field, if that is free.
    """
    content = event_content(data)
    for text in (type, *extras):
        if text is not None:
            _event_text(_text_bytes, text)  # what is refused as data is refused here
    if (spans := tracing()) is not None and extras[-1:] == (None,):
        extras = (*extras[:-1], spans.append(log, type or content.type or ""))
    return AppendedEvent(log, content.type if type is None else type, content.data, *extras)


def event_content(data: object) -> EventContent:
    """Return an event's content for any object: text as it is, bytes as the UTF-8 they are, the rest as JSON.

    Raises MessageSerializationError for what has no JSON, and for text that PostgreSQL cannot hold.
    """
    if data is None:
        return EventContent(None, None)
    refuse_class(data)
    if isinstance(data, (str, bytes, bytearray)):
        return EventContent(None, _event_text(_text_bytes, data))
    kind: type = type(data)
    declared = declared_contract(kind)
    encode = _encode_model if hasattr(kind, "model_dump_json") else msgspec.json.encode
    return EventContent(None if declared is None else declared.name, _event_text(encode, data))


def _encode_model(model: _Model) -> bytes:
    return model.model_dump_json().encode()


class _Model(Protocol):
    """The half of a pydantic model that we use; pydantic itself is not imported."""

    def model_dump_json(self) -> str: ...


def _event_text(encode: Callable[[Any], bytes], data: object) -> str:
    try:
        return encode(data).decode()
    except Exception as error:
        kind = type(data)
        raise MessageSerializationError(
            f"A {kind.__name__} cannot be the data of an event: {text_of(error)}", type_name=kind.__name__
        ) from error


def _text_bytes(data: str | bytes | bytearray) -> bytes:
    """Return text as the bytes it is stored in; of bytes, only those that are text."""
    found = data.encode() if isinstance(data, str) else bytes(data)
    if b"\0" in found:
        raise ValueError("PostgreSQL's text cannot hold the character NUL")
    return found
