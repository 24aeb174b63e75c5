"""The timeouts that a saga waits for, noted in its row: by these they are cancelled, and sent again when they are lost.

Invariant: a note says when its message is due to the instant, so that the message is found by the index of the table of
delayed messages, however many wait there.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from rowbus.messages.dispatch import DelayedSend
from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rowbus.messages.dispatch import Leaving

KEPT: Final = (
    Header.ENCLOSED_MESSAGE_TYPES,
    Header.CONTENT_TYPE,
    Header.CONVERSATION_ID,
    Header.SAGA_TYPE,
)
"""The headers that a note keeps; all others follow from the saga."""

NONE: Final = "[]"
"""The text of no notes."""


class Timeout(msgspec.Struct, frozen=True, omit_defaults=True):
    """A timeout that waits: its message's id, when it is due (an aware datetime), and what it says."""

    id: str
    due: datetime
    headers: dict[str, str] = {}
    body: bytes = b""


_decoder = msgspec.json.Decoder(list[Timeout])
_encoder = msgspec.json.Encoder()


class Timeouts:
    """The timeouts of one saga, as one message changes them."""

    def __init__(self, text: str, message_id: str) -> None:
        """Read them from the saga's row. The message in hand has come: if it is one of them, it waits no more."""
        self._before = read_timeouts(text)
        self._waiting = [timeout for timeout in self._before if timeout.id != message_id]

    def __iter__(self) -> Iterator[Timeout]:
        """Go through those that wait."""
        return iter(self._waiting)

    def add(self, send: Leaving, due: datetime) -> None:
        """Note one that is about to be sent."""
        if isinstance(send, DelayedSend):
            self._waiting.append(noted(send, due))

    @property
    def changed(self) -> str | None:
        """Their text, None if they are those of before."""
        return None if self._waiting == self._before else write_timeouts(self._waiting)


def read_timeouts(text: str) -> list[Timeout]:
    """Return the timeouts noted in a row."""
    return [] if text == NONE else _decoder.decode(text)


def write_timeouts(timeouts: Sequence[Timeout]) -> str:
    """Return the text of the notes for a row; bytes are in Base64."""
    return _encoder.encode(timeouts).decode()


def noted(send: DelayedSend, due: datetime) -> Timeout:
    """Return the note of a timeout that is about to be sent."""
    headers = send.message.headers
    kept = {name: text for name in KEPT if (text := headers.get(name)) is not None}
    return Timeout(headers[Header.MESSAGE_ID] or "", due.astimezone(UTC), kept, send.message.body)
