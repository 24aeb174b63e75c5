"""The finding of a message's saga: by the saga's id, by its correlation (one text for each value), or not at all.

Source: docs/wire-format.md#headers.

Invariants: an id that a message brings wins over what it is correlated by, unless it is an event, which brings the ids
of its publisher; equal values have equal texts, and every text fits into the column and its index.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from rowbus.errors import SagaCorrelationError
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import format_timestamp
from rowbus.running.functions import is_unawaited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

Headers = "Mapping[str, str | None]"


class Search(Enum):
    """The way in which a saga is looked for."""

    BY_ID = "by id"
    BY_CORRELATION = "by correlation"
    BEGIN = "by correlation, and begun if there is none"


def is_timeout(headers: Mapping[str, str | None]) -> bool:
    """Say whether a message is a saga's timeout: the header counts, not its value."""
    return Header.IS_SAGA_TIMEOUT_MESSAGE in headers


def is_for_another(headers: Mapping[str, str | None], saga: str, known: Collection[str]) -> bool:
    """Say whether a message brings the id of another saga that is `known` here: then it does not concern this one."""
    return _brings_id(headers) and _type_of(headers) in set(known) - {saga}


def saga_id_of(headers: Mapping[str, str | None]) -> str | None:
    """Return the id of the saga a message is for, None for none; raises SagaCorrelationError for what is no UUID."""
    text = headers.get(Header.SAGA_ID)
    if not text or not _brings_id(headers):
        return None
    try:
        return str(UUID(text.strip()))
    except ValueError:
        raise SagaCorrelationError(
            f"The header {Header.SAGA_ID} is {text!r}, which is no id of a saga.", value=text
        ) from None


def may_begin(headers: Mapping[str, str | None], saga: str) -> bool:
    """Say whether a message may begin a saga: not if it was meant for one of these that there was."""
    return not _brings_id(headers) or _type_of(headers) != saga


def _brings_id(headers: Mapping[str, str | None]) -> bool:
    """Say whether the header of the id counts: in an event it is its publisher's."""
    return headers.get(Header.SAGA_ID) is not None and headers.get(Header.MESSAGE_INTENT) != "Publish"


def _type_of(headers: Mapping[str, str | None]) -> str:
    return (headers.get(Header.SAGA_TYPE) or "").partition(",")[0].strip()


def search(saga_id: str | None, *, begins: bool) -> Search:
    """Decide how a saga is looked for."""
    if saga_id is not None:
        return Search.BY_ID
    return Search.BEGIN if begins else Search.BY_CORRELATION


LONGEST: Final = 200
"""Characters of a value, as in NServiceBus's tables of sagas."""

By: TypeAlias = "Callable[[Any], object] | str"
"""The source of the saga's key in a message: a function of the message, or the name of a header."""


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
