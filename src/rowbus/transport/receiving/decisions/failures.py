"""What this process remembers of failed messages: how often, and why last (docs/wire-format.md#transaction-modes).

Needed where a failure is only known after the transaction is gone: with `FailureHandling.ROLLBACK`, and when a commit
fails. Not shared between instances and lost on restart, as in NServiceBus.

Invariant: bounded; the message seen longest ago is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

CAPACITY = 10_000


class FailureRecord(NamedTuple):
    """The failures of one row so far, the last error, and the failed attempt's context items."""

    times: int
    error: BaseException
    items: dict[str, object]


class FailureMemory:
    """Failures by row id."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        """Remember at most so many rows."""
        self._capacity = capacity
        self._failures: OrderedDict[str, FailureRecord] = OrderedDict()

    def record(self, row_id: str, error: BaseException, items: dict[str, object]) -> FailureRecord:
        """Count one more failure of the row and return what is now known of it."""
        before = self._failures.get(row_id)
        failure = FailureRecord(before.times + 1 if before else 1, error, items)
        self._failures[row_id] = failure
        self._failures.move_to_end(row_id)
        if len(self._failures) > self._capacity:
            self._failures.popitem(last=False)
        return failure

    def restore(self, row_id: str, times: int, error: BaseException) -> FailureRecord:
        """Take over what is known of a row from elsewhere, and return it; what counts more here stays."""
        known = self._failures.get(row_id)
        if known is None or known.times < times:
            known = self._failures[row_id] = FailureRecord(times, error, {})
        return known

    def get(self, row_id: str) -> FailureRecord | None:
        """Return what is known of the row, None if it has not failed here."""
        failure = self._failures.get(row_id)
        if failure is not None:
            self._failures.move_to_end(row_id)
        return failure

    def clear(self, row_id: str) -> None:
        """Forget the row: it was processed, or moved to the error queue."""
        self._failures.pop(row_id, None)

    def __len__(self) -> int:
        """Return how many rows are remembered."""
        return len(self._failures)
