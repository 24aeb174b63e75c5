"""The identity of an endpoint's process: the facts about it that go into headers.

Invariant: a value, gathered once at start by the endpoint; nothing here asks the operating system.
"""

from __future__ import annotations

from typing import NamedTuple

from rowbus.messages.headers import Header


class Identity(NamedTuple):
    """An endpoint's name, its machine, and the host id (32 lower-case hex digits) by which the platform groups them.

    People read the display name; without one, the machine's.
    """

    endpoint: str
    machine: str
    host_id: str
    display_name: str = ""

    @property
    def host_name(self) -> str:
        """The name by which people know the host."""
        return self.display_name or self.machine

    def originating_headers(self) -> dict[str, str]:
        """Return the headers that say who sent a message."""
        return {
            Header.ORIGINATING_ENDPOINT: self.endpoint,
            Header.ORIGINATING_MACHINE: self.machine,
            Header.ORIGINATING_HOST_ID: self.host_id,
        }

    def processing_headers(self) -> dict[str, str]:
        """Return the headers that say who processed a message."""
        return {
            Header.PROCESSING_MACHINE: self.machine,
            Header.PROCESSING_ENDPOINT: self.endpoint,
            Header.HOST_ID: self.host_id,
            Header.HOST_DISPLAY_NAME: self.host_name,
        }
