"""Headers of the messages that rows become, as complete as those of `rowbus.Client`.

Invariant: a row whose headers hold a message id was read from a queue and keeps its headers unchanged; any other row
gets all headers that an endpoint expects.
"""

from __future__ import annotations

from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, NamedTuple, cast

from rowbus.errors import ConfigurationError
from rowbus.messages.headers import Header, decode_headers, encode_copied_headers
from rowbus.messages.message_types import serialize
from rowbus.messages.outgoing import Content, HeaderText, Options, Origin, compose
from rowbus.messages.uuids import new_message_ids
from rowbus.running.bounded import Bounded

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from rowbus.messages.identity import Identity
    from rowbus.messages.message import OutgoingMessage

JSON = "application/json"


class FrameRow(NamedTuple):
    """The columns of a data frame's row that make a message."""

    body: str | bytes | None
    headers: object
    """A mapping, its items, a JSON text, or None."""

    type: str | None
    id: str | None
    correlation_id: str | None


class HeaderWriter:
    """Writes the headers of many messages; messages that differ only in their id share one text."""

    def __init__(
        self, type: str | None, time_to_be_received: timedelta | None, sender: Identity | None = None
    ) -> None:
        """Take the default type of messages, their time to be received, and who sends them."""
        self._origin = Origin(sender)
        self._type = type
        self._time_to_be_received = time_to_be_received
        self._ids = new_message_ids()
        self._texts: dict[tuple[str, bool], HeaderText] = Bounded()

    def text(self, row: FrameRow) -> str:
        """Return the header text of a message; raises ConfigurationError, InvalidHeaderError."""
        given = _headers(row.headers)
        if given.get(Header.MESSAGE_ID):
            return encode_copied_headers(given)
        message_id = row.id or next(self._ids)
        if not given and row.correlation_id is None:
            return self._shared(row).with_id(encode_basestring_ascii(message_id)[1:-1])
        own = {name: value for name, value in given.items() if value is not None}
        if row.correlation_id is not None:
            own.setdefault(Header.CORRELATION_ID, row.correlation_id)
        return self._composed(row, message_id, own)

    def _shared(self, row: FrameRow) -> HeaderText:
        key = (row.type or "", isinstance(row.body, bytes))
        text = self._texts.get(key)
        if text is None:
            content, options = self._content(row), Options(None, self._time_to_be_received)
            text = self._texts[key] = HeaderText(self._compose(content, HeaderText.PLACEHOLDER, options))
        return text

    def _composed(self, row: FrameRow, message_id: str, own: Mapping[str, str]) -> str:
        options = Options(own, self._time_to_be_received)
        return encode_copied_headers(self._compose(self._content(row, own), message_id, options).headers)

    def _content(self, row: FrameRow, own: Mapping[str, str] | None = None) -> Content:
        type = row.type or self._type or (own or {}).get(Header.ENCLOSED_MESSAGE_TYPES)
        if not type:
            raise ConfigurationError(
                "A row has no message type: fill column message_type, or give option messageType.",
                option="messageType",
            )
        body = b"" if row.body is None else row.body
        return serialize(
            body.encode() if isinstance(body, str) else body,
            types=(type,),
            content_type=JSON if isinstance(body, str) else None,
        )

    def _compose(self, content: Content, message_id: str, options: Options) -> OutgoingMessage:
        now = datetime.now(UTC)
        return compose(
            content, intent="Send", message_id=message_id, now=now, origin=self._origin, options=options
        )


def _headers(given: object) -> dict[str, str | None]:
    if given is None:
        return {}
    if isinstance(given, str):
        return decode_headers(given)
    return dict(cast("Mapping[str, str | None]", given))
