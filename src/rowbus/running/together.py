"""Work of many tasks that is done together: a task that comes while some is being done waits for the next time.

Invariant: each who waits learns its own fate: where the whole failed, each is tried again alone; what may have been
done is never tried again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from rowbus.errors import ConnectionLostError, QueueNotFoundError, RowbusError
from rowbus.running.scope import out_of_scope

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")


class Waiter(NamedTuple, Generic[T, R]):
    """One that waits for the fate of something."""

    item: T
    fate: asyncio.Future[R]


class Together(Generic[T, R]):
    """A batch that leaves together, on one event loop."""

    def __init__(
        self,
        leave: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        fitting: Callable[[Sequence[T]], int] = len,
    ) -> None:
        """Have things leave so, in a transaction each time: `leave` returns what became of each.

        `fitting` says how many of those that wait can leave together, from the first on. No I/O.
        """
        self._leave = leave
        self._fitting = fitting
        self._task: asyncio.Task[None] | None = None
        self.waiting: list[Waiter[T, R]] = []

    def join(self, item: T) -> asyncio.Future[R]:
        """Have something wait until the next goes, and return its fate: a result, or what its own leaving raises."""
        fate: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self.waiting.append(Waiter(item, fate))
        return fate

    def go_on(self, then: Callable[[], None] = lambda: None) -> None:
        """Have what waits leave until nothing does, and `then` make a call, unless that is going on."""
        if self._task is None:  # no handler's, who would end it
            task: asyncio.Task[None] = out_of_scope(
                lambda: asyncio.create_task(self._empty(), name="rowbus together")
            )
            task.add_done_callback(lambda _: then())
            self._task = task

    async def settle(self) -> None:
        """Wait until nothing is on its way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _empty(self) -> None:
        try:
            while waiting := [each for each in self.waiting if not each.fate.done()]:
                self.waiting = waiting
                await self._settle(waiting[: self._fitting([each.item for each in waiting])])
                await asyncio.sleep(0)  # who heard may come with the next one
        finally:
            left, self.waiting, self._task = self.waiting, [], None
            for each in left:  # the loop ends
                each.fate.cancel()

    async def _settle(self, together: Sequence[Waiter[T, R]]) -> None:
        try:
            found = await self._leave([each.item for each in together])
        except RowbusError as error:
            if len(together) == 1 or isinstance(error, ConnectionLostError | QueueNotFoundError):
                _tell(together, error)
                return
            for each in together:
                await self._settle([each])
        except Exception as error:  # noqa: BLE001 - each who waits gets it
            _tell(together, error)
        else:
            for each, fate in zip(together, found, strict=True):
                if not each.fate.done():
                    each.fate.set_result(fate)


def _tell(together: Sequence[Waiter[T, R]], error: Exception) -> None:
    for each in together:
        if not each.fate.done():
            each.fate.set_exception(error)
