"""Messages as people read them: headers decoded, bodies as text where they are text.

Invariant: what cannot be decoded is given all the same, as raw text or hexadecimal digits, and says so.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, NamedTuple

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers
from rowbus.messages.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class Body(NamedTuple):
    """A body as text, and how it was read: `utf-8`, `utf-16-le`, `utf-16-be`, `hex`, or `none` for NULL."""

    text: str | None
    encoding: str


def read_body(body: bytes | None) -> Body:
    """Read a body as text by its byte order mark, else as UTF-8, else as hexadecimal digits."""
    if body is None:
        return Body(None, "none")
    mark, encoding = next(((m, e) for m, e in _ENCODINGS if body.startswith(m)), (b"", "utf-8"))
    try:
        text = body[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        return Body(body.hex(), "hex")
    return Body(body.hex(), "hex") if "\0" in text else Body(text, encoding)


def read_headers(text: str | None) -> dict[str, str | None] | None:
    """Decode a row's headers; None if they cannot be read."""
    try:
        return decode_headers(text)
    except MalformedHeadersError:
        return None


def time_sent(headers: Mapping[str, str | None] | None) -> datetime | None:
    """Return when a message was sent, if its headers say so."""
    try:
        return parse_timestamp((headers or {}).get(Header.TIME_SENT) or "")
    except InvalidTimestampError:
        return None


def short_type(headers: Mapping[str, str | None] | None) -> str:
    """Return the name of the message's most concrete type, without assembly."""
    types = (headers or {}).get(Header.ENCLOSED_MESSAGE_TYPES) or ""
    return types.partition(";")[0].partition(",")[0]
