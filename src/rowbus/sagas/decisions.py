"""How a message finds its saga: by the saga's id, by its correlation, or not at all.

Source: docs/wire-format.md#headers.

Invariant: an id that a message brings wins over what it is correlated by, unless it is an event, which brings the ids
of its publisher.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from rowbus.errors import SagaCorrelationError
from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

Headers = "Mapping[str, str | None]"


class Search(Enum):
    """How a saga is looked for."""

    BY_ID = "by id"
    BY_CORRELATION = "by correlation"
    BEGIN = "by correlation, and begun if there is none"


def is_timeout(headers: Mapping[str, str | None]) -> bool:
    """Say whether a message is a saga's timeout: the header counts, not its value."""
    return Header.IS_SAGA_TIMEOUT_MESSAGE in headers


def saga_id_of(
    headers: Mapping[str, str | None], saga: str, others: Collection[str] = ()
) -> tuple[str | None, bool]:
    """Return the id of the saga a message is for, None for none, and whether it may begin one.

    `saga` is this saga's type; an id is not for it when it comes with the type of one of the `others` that the
    endpoint has. Raises SagaCorrelationError for text that is no UUID.
    """
    text = headers.get(Header.SAGA_ID)
    if text is None or headers.get(Header.MESSAGE_INTENT) == "Publish" or _is_for(headers, others, saga):
        return None, True
    if not text.strip():
        return None, False
    try:
        return str(UUID(text.strip())), False
    except ValueError:
        raise SagaCorrelationError(
            f"The header {Header.SAGA_ID} is {text!r}, which is no id of a saga.", value=text
        ) from None


def _is_for(headers: Mapping[str, str | None], others: Collection[str], saga: str) -> bool:
    """Say whether the saga's type in the headers is that of another saga that is known here."""
    name = (headers.get(Header.SAGA_TYPE) or "").partition(",")[0].strip()
    return name != saga and name in others


def search(saga_id: str | None, *, may_begin: bool, starts: bool) -> Search:
    """Decide how a saga is looked for."""
    if saga_id is not None:
        return Search.BY_ID
    return Search.BEGIN if starts and may_begin else Search.BY_CORRELATION
