"""Delayed sends of a dispatch: statements in the dispatch's transaction.

Invariant: nothing here looks at a clock; when a message is due is decided by the database (or by the store's owner).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rowbus.errors import ConfigurationError
from rowbus.transport.delayed.policy import marked
from rowbus.transport.delayed.table import delayed_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.database.statements import Statement
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.dispatch import DelayedSend


class Delays(Protocol):
    """How an endpoint delays messages."""

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Return the statements that keep these messages until they are due; at least one is given."""
        ...


class NoDelays:
    """No way to delay: the endpoint switched it off, or there is no endpoint."""

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Raise ConfigurationError."""
        raise ConfigurationError(
            f"A message for {sends[0].destination} is to be delayed, but delayed delivery is switched off here "
            "(delayed_delivery=None)."
        )


class NativeDelays:
    """Keeps delayed messages in an endpoint's table of delayed messages, whose mover `notify` wakes."""

    def __init__(self, address: QueueAddress, *, notify: bool) -> None:
        """Store in this table. No I/O."""
        self._table = delayed_table(address)
        self._notify = notify

    def statements(self, sends: Sequence[DelayedSend]) -> list[Statement[object]]:
        """Return what stores them."""
        messages = [marked(send.message, send.destination) for send in sends]
        return [*self._table.store_all(messages, [send.due for send in sends], notify=self._notify)]
