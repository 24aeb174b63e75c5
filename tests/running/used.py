"""Things that a call in a thread uses, as tests of threads see them."""

from __future__ import annotations

import threading


class Connection:
    """Things that a call uses."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.discarded_in: threading.Thread | None = None

    async def abandon(self) -> None:
        self.told.append("abandon")

    def discard(self) -> None:
        self.told.append("discard")
        self.discarded_in = threading.current_thread()
