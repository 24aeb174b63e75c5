"""Names that no table can have, in any database, and the form in which errors show a name.

Invariant: however long a name from elsewhere is, what is shown of it fits into a line of a log.
"""

from __future__ import annotations

from typing import Final

from rowbus.errors import ConfigurationError, InvalidAddressError

_SHOWN_LENGTH: Final = 150


def refuse_impossible(kind: str, name: str) -> None:
    """Raise InvalidAddressError for a name that is empty, holds NUL or cannot be encoded."""
    if not name:
        raise refused(name, f"the {kind} name is empty")
    if "\0" in name:
        raise refused(name, f"the {kind} name holds a NUL character, which no table's name may hold")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise refused(
            name, f"the {kind} name holds half of a surrogate pair, which is not a character"
        ) from None


def refuse_nul(kind: str, name: str) -> None:
    """Raise ConfigurationError for the name of a log, a consumer, a role, if it holds NUL: no database takes it."""
    if "\0" in name:
        raise ConfigurationError(
            f"The name of the {kind}, {shown(name)}, holds a NUL character; no name may hold one."
        )


def refused(address: str, reason: str) -> InvalidAddressError:
    """Return the error that says why an address cannot be one."""
    message = f"{shown(address)} cannot be the address of a queue: {reason}."
    return InvalidAddressError(message, address=address, reason=reason)


def shown(name: str) -> str:
    """Return a name in quotes, cut when it is long."""
    return repr(name if len(name) <= _SHOWN_LENGTH else f"{name[:_SHOWN_LENGTH]}…")
