"""What a message did to a saga, noted for ServiceControl, if the endpoint reports it.

Invariant: nothing is written or sent here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

import msgspec

from rowbus.messages.state_change import STATE_CHANGES, StateChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from rowbus.sagas.table import SagaRow
    from rowbus.transport.receiving.delivery import Delivery


class Note:
    """One call of a saga's method, noted from its beginning."""

    def __init__(self, delivery: Delivery, saga_type: str, row: SagaRow) -> None:
        """Begin; what the delivery sends from now on, the method sends."""
        self._delivery = delivery
        self._changes = cast("list[StateChange] | None", delivery.items.get(STATE_CHANGES))
        self._type = saga_type
        self._row = row
        self._started = datetime.now(UTC)
        self._sent = len(delivery.sends)

    def end(self, write: Callable[[], str], *, is_completed: bool) -> None:
        """Note what has become of the state, which `write` gives as JSON; called only where changes are reported."""
        if self._changes is None:
            return
        sends = tuple(self._delivery.sends[self._sent :])
        change = StateChange(
            self._type,
            self._row.id,
            self._told(write()),
            self._row.concurrency == 0,
            is_completed,
            self._started,
            datetime.now(UTC),
            sends,
        )
        self._changes.append(change)

    def _told(self, state: str) -> str:
        """Return a state with the members that every saga of .NET has."""
        told = msgspec.json.decode(state, type=dict[str, msgspec.Raw])
        told |= {
            name: msgspec.Raw(msgspec.json.encode(value))
            for name, value in (
                ("Id", self._row.id),
                ("Originator", self._row.originator),
                ("OriginalMessageId", self._row.original_message_id),
            )
        }
        return msgspec.json.encode(told).decode()
