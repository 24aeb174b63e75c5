"""Sends of many tasks to one queue: what comes while one is on its way waits, and leaves together after it.

One round trip and one commit carry them all, and each caller learns its own fate: where the transaction failed, each is
sent again alone. While nothing is on its way to its queue, a send leaves at once, alone.

Invariant: a caller returns when its message is committed, and is told why when it is not; what may have been committed
is never sent again; queues do not wait for each other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import ConnectionLostError, QueueNotFoundError, RowbusError
from rowbus.messages.dispatch import AnySend, Send
from rowbus.running.scope import out_of_scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rowbus.messages.address import QueueAddress

    Dispatch = Callable[[Sequence[AnySend]], Awaitable[None]]

MOST: Final = 100
"""Messages that leave together."""

MOST_BYTES: Final = 1024 * 1024
"""Of their bodies; a larger one leaves alone."""


class _Caller(NamedTuple):
    """Who waits for the fate of a send."""

    send: Send
    fate: asyncio.Future[None]


class Gathering:
    """The sends of one endpoint, on its event loop."""

    def __init__(self, dispatch: Dispatch) -> None:
        """Have messages leave so, in a transaction of their own each time. No I/O."""
        self._dispatch = dispatch
        self._waiting: dict[QueueAddress, list[_Caller]] = {}  # by queues that something is on its way to
        self._tasks: set[asyncio.Task[None]] = set()

    async def leave(self, send: AnySend) -> None:
        """Send a message, with those that wait for the same queue; raises what its own sending raises."""
        if not isinstance(send, Send):
            await self._dispatch([send])
            return
        waiting = self._waiting.get(send.destination)
        if waiting is not None:
            fate = asyncio.get_running_loop().create_future()
            waiting.append(_Caller(send, fate))
            await fate
            return
        self._waiting[send.destination] = []
        try:
            await self._dispatch([send])
        finally:
            self._go_on(send.destination)

    def _go_on(self, destination: QueueAddress) -> None:
        if not self._waiting[destination]:
            del self._waiting[destination]
            return
        # No handler's, who would end it.
        task = out_of_scope(lambda: asyncio.create_task(self._empty(destination)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _empty(self, destination: QueueAddress) -> None:
        """Have what waits leave, until nothing does."""
        try:
            while waiting := [each for each in self._waiting[destination] if not each.fate.done()]:
                self._waiting[destination] = waiting
                await self._settle(waiting[: fitting([each.send for each in waiting])])
                await asyncio.sleep(0)  # callers that heard may send their next one
        finally:
            for left in self._waiting.pop(destination):  # the loop ends
                left.fate.cancel()

    async def _settle(self, together: list[_Caller]) -> None:
        try:
            await self._dispatch([each.send for each in together])
        except RowbusError as error:
            if len(together) == 1 or isinstance(error, ConnectionLostError | QueueNotFoundError):
                _tell(together, error)
                return
            for each in together:
                await self._settle([each])
        except Exception as error:  # noqa: BLE001 - each caller gets it
            _tell(together, error)
        else:
            _tell(together, None)


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


def _tell(together: Sequence[_Caller], error: Exception | None) -> None:
    for _send, fate in together:
        if fate.done():
            continue
        if error is None:
            fate.set_result(None)
        else:
            fate.set_exception(error)
