"""The holder of a lock that only one session has, described for logs and errors.

Invariant: pure; what a session calls itself cannot break a line of a log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

UNSEEN: Final = "a session that this role may not see"


class LockHolder(NamedTuple):
    """A session that holds a lock; what the asking role may not see is None."""

    pid: int
    role: str | None
    application: str | None
    address: str | None
    since: datetime | None
    """When it connected."""

    is_superuser: bool | None = None
    """Whether the role is one."""

    def __str__(self) -> str:
        name = _plain(self.application) if self.application else "a program without a name"
        role = f" as {_plain(self.role)}" if self.role else ""
        address = f", from {_plain(self.address)}" if self.address else ""
        since = f", since {self.since:%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        return f"{name}{role} (process {self.pid} of the server{address}{since})"


def describe(holders: Sequence[LockHolder]) -> str:
    """Name who holds a lock; where the server cannot tell locks of similar names apart, who may."""
    return " or ".join(map(str, holders)) or "a session that has just ended"


def _plain(text: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
