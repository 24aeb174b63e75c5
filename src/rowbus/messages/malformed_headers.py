r"""Headers of a message that its error and audit copies cannot have as they are: ServiceControl could not import them.

A message with a TimeSent of any form is handled here all the same; but its copy would stay among ServiceControl's
failed imports (docs/wire-format.md#malformed-headers).

Invariant: pure; nothing is lost: a header that cannot stay is kept under another name, NUL as `\x00`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from uuid import NAMESPACE_OID, uuid5

from rowbus.errors import InvalidTimestampError
from rowbus.errors.strangers import writable
from rowbus.messages.headers import Header
from rowbus.messages.timestamps import is_well_formed_timestamp, parse_timestamp
from rowbus.running.setting_types import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MALFORMED_PREFIX: Final = "Rowbus.Malformed."
"""Begins the name under which a copy keeps a header that it cannot have as it is."""

LONGEST_ID: Final = 200  # characters; the tables of .NET's persisters hold no longer ids
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# As .NET reads a GUID: 32 digits, or with dashes, and then perhaps in braces or parentheses.
_GUID: Final = re.compile(
    r"\s*(?:[0-9a-f]{32}|([{(])?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?(1)[})]))\s*", re.IGNORECASE
)


def without_malformed(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the headers for a copy: those that ServiceControl cannot read are called `Rowbus.Malformed.<name>`.

    An id in place of the message's is made of it, the same in each copy; NUL is written as exceptions' texts have it.
    """
    malformed = _malformed_in(headers)
    copied = (
        {f"{MALFORMED_PREFIX}{name}" if name in malformed else name: value for name, value in headers.items()}
        if malformed
        else dict(headers)
    )
    if Header.MESSAGE_ID in malformed:
        copied[Header.MESSAGE_ID] = str(uuid5(NAMESPACE_OID, headers[Header.MESSAGE_ID] or ""))
    if any("\0" in f"{name}{value}" for name, value in copied.items()):
        return {writable(name): None if value is None else writable(value) for name, value in copied.items()}
    return copied


def _malformed_in(headers: Mapping[str, str | None]) -> list[str]:
    """Name the headers that ServiceControl cannot read; nearly always none."""
    malformed: list[str] = []
    for name, is_fine in _CHECKS.items():
        value = headers.get(name)
        if value is not None and not is_fine(value):
            malformed.append(name)
    return malformed


def _is_time(text: str) -> bool:
    if is_well_formed_timestamp(text):  # as nearly all are, and sooner seen than read
        return True
    try:
        parse_timestamp(text)
    except InvalidTimestampError:
        return False
    return True


def _is_id(text: str) -> bool:
    # What is printable has no control character, and that is sooner seen.
    return 0 < len(text) <= LONGEST_ID and (text.isprintable() or _CONTROL.search(text) is None)


def _is_name(text: str) -> bool:
    return len(text) <= LONGEST_NAME and (text.isprintable() or _CONTROL.search(text) is None)


def _are_sagas(text: str) -> bool:
    """Say whether text is like `Shop.OrderSaga:<guid>;…`."""
    return all(part.count(":") == 1 and is_guid(part.partition(":")[2]) for part in text.split(";"))


def _are_changes(text: str) -> bool:
    """Say whether text is like `<guid>:Updated;…`."""
    return all(is_guid(part.partition(":")[0]) and ":" in part for part in text.split(";"))


@lru_cache(maxsize=256)  # the hosts of a system are few
def is_guid(text: str) -> bool:
    """Say whether .NET reads text as a GUID."""
    return _GUID.fullmatch(text) is not None


_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    Header.TIME_SENT: _is_time,
    Header.DELIVER_AT: _is_time,
    Header.RETRIES_TIMESTAMP: _is_time,
    Header.PROCESSING_STARTED: _is_time,
    Header.PROCESSING_ENDED: _is_time,
    Header.MESSAGE_ID: _is_id,
    Header.ORIGINATING_ENDPOINT: _is_name,
    Header.ORIGINATING_MACHINE: _is_name,
    Header.CONTENT_TYPE: _is_name,
    Header.INVOKED_SAGAS: _are_sagas,
    Header.SAGA_STATE_CHANGE: _are_changes,
    Header.CORRELATION_ID: _is_id,
    Header.CONVERSATION_ID: _is_id,
    Header.PREVIOUS_CONVERSATION_ID: _is_id,
    Header.RELATED_TO: _is_id,
    Header.ORIGINATING_HOST_ID: is_guid,
    Header.SAGA_ID: is_guid,
    Header.ORIGINATING_SAGA_ID: is_guid,
    Header.RETRY_UNIQUE_MESSAGE_ID: is_guid,
}
