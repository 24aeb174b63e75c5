"""The ends of work that sends nothing at its end: those that come while others are on their way leave together.

Invariant: each learns its own fate, and none waits for a lock that another's row is under.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from rowbus.transport.long_work.table import Work

    End = Callable[[Sequence[Work]], Awaitable[Collection[str]]]


class Ends:
    """The ends of one endpoint's work, on its event loop."""

    def __init__(self, end: End) -> None:
        """Have work ended so, in one transaction each time; `end` returns the ids of what it has ended. No I/O."""
        self._end = end
        self._waiting: list[tuple[Work, asyncio.Future[bool]]] = []
        self._leaving: asyncio.Task[None] | None = None

    async def end(self, work: Work) -> bool:
        """End work; say whether that is done: else its row is locked, or another process has it.

        Raises what the transaction raises, of which nothing may be known then.
        """
        fate: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((work, fate))
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._empty(), name="rowbus ends of running work")
        return await fate

    async def settle(self) -> None:
        """Wait until nothing is on its way."""
        if self._leaving is not None:
            await asyncio.wait([self._leaving])

    async def _empty(self) -> None:
        """Have what waits leave, until nothing does."""
        try:
            while together := self._waiting:
                self._waiting = []
                await self._leave(together)
        finally:
            self._leaving = None

    async def _leave(self, together: Sequence[tuple[Work, asyncio.Future[bool]]]) -> None:
        fates = [(work, fate) for work, fate in together if not fate.done()]
        try:
            ended = await self._end([work for work, _fate in fates])
        except BaseException as error:
            for _work, fate in fates:
                fate.cancel() if isinstance(error, asyncio.CancelledError) else fate.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for work, fate in fates:
                if not fate.done():
                    fate.set_result(work.id in ended)
