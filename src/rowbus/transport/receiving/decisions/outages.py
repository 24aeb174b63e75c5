"""Which failures are outages: nothing is wrong with the message, and it would fail as well with any other.

An outage counts against no message: it goes back to its queue, and the receiver waits as its circuit breaker says.
A driver's error in a handler tells of our database only where it says that the server lacks something (disk, memory,
connections): a connection that a handler opened elsewhere may be lost while ours works, and that is the handler's.

Invariant: pure; a conflict between transactions is no outage, because the next try may go through.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from rowbus.errors import ConnectionLostError, StorageError, TransactionConflictError
from rowbus.errors.exception_facts import attribute, is_a

PASSED_OVER: Final = (
    5.0  # seconds for which a message is passed over that met an outage which others do not meet, perhaps
)
PATIENCE: Final = (
    1800.0  # seconds after which a message that meets outages while others are completed has failed
)
CAPACITY: Final = 10_000


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


class LoneOutages:
    """Messages that meet outages again and again while others are completed; `completed` counts those."""

    def __init__(self) -> None:
        """Know of none."""
        self._since: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def is_to_blame(self, row_id: str, now: float, completed: int) -> bool:
        """Note that a message met an outage; say whether it has done so for so long that it is the message's doing."""
        since, seen = self._since.setdefault(row_id, (now, completed))
        if len(self._since) > CAPACITY:
            self._since.popitem(last=False)
        return now - since > PATIENCE and completed > seen

    def __len__(self) -> int:
        """Return how many messages are known."""
        return len(self._since)

    def forget(self, row_id: str) -> None:
        """Forget a message: it has been dealt with."""
        self._since.pop(row_id, None)
