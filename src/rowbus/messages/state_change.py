"""The effect of a message on a process that has a state: noted where the state is written, told to ServiceControl.

Invariant: values only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.messages.headers import Header

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.messages.dispatch import Leaving

STATE_CHANGES: Final = "state changes"
"""Key in a delivery's items: a list to which a handler adds what it changed. Absent: none is reported."""

AUDITED_WITH: Final = "audited with"
"""Key in a delivery's items: headers that only the audit copy of the message has."""


class StateChange(NamedTuple):
    """One message, handled by one process. `state` is JSON; `sends` is what the message had it send."""

    type: str
    id: str
    state: str
    is_new: bool
    is_completed: bool
    started: datetime
    finished: datetime
    sends: tuple[Leaving, ...]

    @property
    def kind(self) -> str:
        """ServiceControl's name for the change."""
        if self.is_completed:
            return "Completed"
        return "New" if self.is_new else "Updated"


def audit_headers(changes: Sequence[StateChange]) -> dict[str, str]:
    """Return the headers by which an audit copy names the processes that its message changed, if it did."""
    if not changes:
        return {}
    return {
        Header.INVOKED_SAGAS: ";".join(f"{one.type}:{one.id}" for one in changes),
        Header.SAGA_STATE_CHANGE: ";".join(f"{one.id}:{one.kind}" for one in changes),
    }
