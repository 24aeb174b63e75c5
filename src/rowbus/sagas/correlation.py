"""The value by which a message finds its saga: one text for each value, of every type.

Invariant: equal values have equal texts, and every text fits into the column and its index.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from rowbus.errors import SagaCorrelationError
from rowbus.messages.timestamps import format_timestamp
from rowbus.running.given_functions import is_unawaited

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LONGEST: Final = 200
"""Characters of a value, as in NServiceBus's tables of sagas."""

By: TypeAlias = "Callable[[Any], object] | str"
"""How a message says which saga it is for: a function of the message, or the name of a header."""


def value_of(by: By, message: object, headers: Mapping[str, str | None]) -> object:
    """Return what a message is correlated by; raises SagaCorrelationError for a header that is not there."""
    if not isinstance(by, str):
        return by(message)
    if headers.get(by) is None:
        raise SagaCorrelationError(f"The message has no header {by}, by which its saga is found.", value=None)
    return headers[by]


def correlation_text(value: object) -> str:
    """Return the text of a value: text, an int, a UUID, an aware datetime or an enum of these.

    Raises SagaCorrelationError.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return _checked(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return _checked(str(value))
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return format_timestamp(value.astimezone(UTC))
    raise SagaCorrelationError(_refusal(value), value=None if is_unawaited(value) else value)


def _refusal(value: object) -> str:
    if value is None:
        return "The value that a saga is found by is None: give each message of the saga its value."
    if isinstance(value, datetime):
        return f"The value that a saga is found by, {value!r}, has no time zone: use an aware datetime."
    return f"A saga is found by text, an int, a UUID or an aware datetime, not by {value!r}."


def _checked(text: str) -> str:
    if len(text) > LONGEST:
        raise SagaCorrelationError(
            f"The value that a saga is found by, {text[:20]!r}…, has {len(text)} characters; it may have {LONGEST}.",
            value=text,
        )
    if "\0" in text:
        raise SagaCorrelationError("The value that a saga is found by holds a NUL character.", value=text)
    return text
