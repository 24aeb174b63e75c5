"""Sends of many tasks to one queue: what comes while one is on its way waits, and leaves together after it.

One round trip and one commit carry them all. While nothing is on its way to its queue, a send leaves at once, alone.

Invariant: a caller returns when its message is committed, and is told why when it is not; what may have been committed
is never sent again; queues do not wait for each other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from rowbus.messages.dispatch import AnySend, Send
from rowbus.running.together import Together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowbus.messages.address import QueueAddress

    Dispatch = Callable[[Sequence[AnySend]], Awaitable[None]]

MOST: Final = 100
"""Messages that leave together."""

MOST_BYTES: Final = 1024 * 1024
"""Of their bodies; a larger one leaves alone."""


class Gathering:
    """The sends of one endpoint, on its event loop."""

    def __init__(self, dispatch: Dispatch) -> None:
        """Have messages leave so, in a transaction of their own each time. No I/O."""
        self._dispatch = dispatch
        self._behind: dict[QueueAddress, Together[Send, None]] = {}  # queues that something is on its way to

    async def leave(self, send: AnySend) -> None:
        """Send a message, with those that wait for the same queue; raises what its own sending raises."""
        if not isinstance(send, Send):
            await self._dispatch([send])
            return
        behind = self._behind.get(send.destination)
        if behind is not None:
            await behind.join(send)
            return
        self._behind[send.destination] = behind = Together(self._dispatch_all, fitting)
        try:
            await self._dispatch([send])
        finally:
            self._go_on(send.destination, behind)

    async def _dispatch_all(self, sends: Sequence[Send]) -> Sequence[None]:
        await self._dispatch(sends)
        return [None] * len(sends)

    def _go_on(self, destination: QueueAddress, behind: Together[Send, None]) -> None:
        if behind.waiting:
            behind.go_on(partial(self._go_on, destination, behind))
        else:
            del self._behind[destination]


def fitting(sends: Sequence[Send]) -> int:
    """Say how many of the sends can leave together, from the first on: few, not large, and no id twice. Pure."""
    size, ids = 0, set[str]()
    for count, (_destination, message) in enumerate(sends):
        size += len(message.body)
        is_twice = bool(message.message_id) and message.message_id in ids
        if count and (count == MOST or size > MOST_BYTES or is_twice):
            return count
        ids.add(message.message_id)
    return len(sends)
