"""The answer of a .NET callback that is an int or an enum: a control message with a number in a header.

Source: docs/wire-format.md#headers.

Invariant: the number is the whole answer; such a message has no body, no content type and no message type.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from rowbus.errors import MessageDeserializationError, MessageSerializationError
from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Mapping

RETURN_CODE: Final = "System.Int32"
"""The wire name under which handlers of a `ReturnCode` are registered; it does not travel."""

_LEAST: Final = -(2**31)
_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ReturnCode:
    """An int or enum answer, as .NET's `Request<int>` takes it and its handlers give it.

    `await context.reply(Colour.BLUE)` or `reply(7)` answers so, and is short for `reply(rowbus.ReturnCode(7))`;
    `@endpoint.handler` on a function that takes a `ReturnCode` gets such answers, of which `context.headers` say to
    what (the correlation id).
    """

    code: int

    def headers(self) -> dict[str, str]:
        """Return the headers that are the answer."""
        return {Header.RETURN_MESSAGE_ERROR_CODE: str(int(self.code)), Header.CONTROL_MESSAGE: "True"}


def answer_of(message: object) -> object:
    """Return what a reply sends for an object: a `ReturnCode` for a number and for an enum whose value is one.

    Raises MessageSerializationError for a number that is no Int32, which .NET could not read.
    """
    number = message.value if isinstance(message, Enum) else message
    if not isinstance(number, int) or isinstance(number, bool):
        return message
    if not _LEAST <= number <= _MOST:
        raise MessageSerializationError(
            f"The answer {number} is no Int32, as which it would be read: reply with a message.",
            type_name=RETURN_CODE,
        )
    return ReturnCode(int(number))


def return_code_of(headers: Mapping[str, str | None]) -> ReturnCode | None:
    """Return the answer that a control message is, None for another; raises MessageDeserializationError."""
    text = headers.get(Header.RETURN_MESSAGE_ERROR_CODE)
    if text is None:
        return None
    try:
        return ReturnCode(int(text))
    except ValueError:
        raise MessageDeserializationError(
            f"{Header.RETURN_MESSAGE_ERROR_CODE} is {text[:100]!r}, which is no number.",
            type_name=RETURN_CODE,
        ) from None
