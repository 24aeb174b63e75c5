"""Which failures are outages: nothing is wrong with the message, and it would fail as well with any other.

An outage counts against no message: it goes back to its queue, and the receiver waits as its circuit breaker says.
A driver's error in a handler tells of our database only where it says that the server lacks something (disk, memory,
connections): a connection that a handler opened elsewhere may be lost while ours works, and that is the handler's.

Invariant: pure; a conflict between transactions is no outage, because the next try may go through.
"""

from __future__ import annotations

from typing import Final

from rowbus.errors import ConnectionLostError, StorageError, TransactionConflictError
from rowbus.errors.exception_facts import attribute, is_a

PASSED_OVER: Final = (
    5.0  # seconds for which a message is passed over that met an outage which others do not meet, perhaps
)
PATIENCE: Final = (
    1800.0  # seconds after which a message that meets outages while others are completed has failed
)


def is_outage(error: BaseException) -> bool:
    """Say whether the database, not the message, is to blame for an error of a call of ours."""
    return (
        is_a(error, StorageError)
        and attribute(error, "transient") is True
        and not is_a(error, TransactionConflictError)
    )


def is_outage_in_handler(error: BaseException, translated: BaseException | None) -> bool:
    """Say the same of what a handler raised; `translated` is our error for it, if it is a driver's."""
    if translated is None:
        return is_outage(error)
    return is_outage(translated) and not is_a(translated, ConnectionLostError)


def is_to_blame(seconds: float, completed: int) -> bool:
    """Say whether a message has met outages for so long, while others were completed, that it is its own doing."""
    return seconds > PATIENCE and completed > 0
