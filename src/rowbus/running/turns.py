"""A coroutine that takes turns: in a thread from where it calls what blocks, on its event loop from where it waits.

Two switches between threads cost more than a short call. So a coroutine that makes many such calls, as for a batch of
messages with `def` handlers, goes on in the thread between them.

Invariant: it runs in one place at a time, in one context; it waits for the loop's things on the loop only.
"""

from __future__ import annotations

from asyncio import get_running_loop
from contextlib import suppress
from contextvars import ContextVar, copy_context
from enum import Enum
from functools import partial
from inspect import CORO_RUNNING, CORO_SUSPENDED, getcoroutinestate
from threading import get_ident
from types import coroutine
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from rowbus.running.threads import Resource, Threads

A = TypeVar("A")
T = TypeVar("T")


class _Place(Enum):
    """An awaitable by which a coroutine goes on elsewhere."""

    THREAD = "thread"
    LOOP = "loop"


class _Step(NamedTuple):
    """The progress of a coroutine: to its end, with what it returned, or to what it waits for."""

    has_ended: bool
    value: Any


class _Turns(Generic[T]):
    """One coroutine, and where it runs."""

    def __init__(self, work: Coroutine[Any, Any, T], threads: Threads, used: Resource) -> None:
        self._work = work
        self._threads = threads
        self._used = used
        self._loop = get_running_loop()
        self._is_left = False  # its task has gone, while it runs in a thread
        self._context = copy_context()
        self._context.run(_turns.set, self)
        self._home = get_ident()  # the loop's thread
        self.runs_in: int | None = None  # the thread that runs it just now
        self.is_called_back = False

    @property
    def is_in_thread(self) -> bool:
        """Whether it runs in a thread just now, and not on its loop."""
        return self.runs_in not in {None, self._home}

    def __await__(self) -> Generator[Any, Any, T]:
        """Run it to its end, from the loop; what it waits for there, the task that awaits this waits for."""
        resume: Callable[[], Any] = partial(self._work.send, None)
        while True:
            step = self._advance(resume)
            try:
                while step.value is _Place.THREAD:
                    step = yield from self._take_turn().__await__()
                if step.has_ended:
                    result: T = step.value
                    return result
                answer = None if step.value is _Place.LOOP else (yield step.value)
            except BaseException as error:
                state = getcoroutinestate(self._work)
                if state != CORO_SUSPENDED:  # the error is its own, or its thread is left to itself
                    self._is_left = state == CORO_RUNNING
                    raise
                resume = partial(self._work.throw, error)
            else:
                resume = partial(self._work.send, answer)

    def _advance(self, resume: Callable[[], Any]) -> _Step:
        self.runs_in = get_ident()
        try:
            return _Step(has_ended=False, value=self._context.run(resume))
        except StopIteration as end:
            return _Step(has_ended=True, value=end.value)
        finally:
            self.runs_in = None

    async def _take_turn(self) -> _Step:
        """Have it go on in a thread, until it waits for something or has ended; a cancellation calls it back."""
        self.is_called_back = False
        return await self._threads.run(self._go_on, self._used, self._call_back)

    def _go_on(self) -> _Step:
        try:
            return self._advance(partial(self._work.send, None))
        finally:
            if self._is_left:
                with suppress(RuntimeError):  # the loop is closed: nothing waits any more
                    self._loop.call_soon_threadsafe(self._work.close)

    def _call_back(self) -> None:
        self.is_called_back = True


_turns: ContextVar[_Turns[Any] | None] = ContextVar("rowbus_turns", default=None)


def _own() -> _Turns[Any] | None:
    """Return the turns of the coroutine that runs: not those of a task that was started in it and has its context."""
    turns = _turns.get()
    return turns if turns is not None and turns.runs_in == get_ident() else None


async def take_turns(work: Coroutine[Any, Any, T], threads: Threads, used: Resource) -> T:
    """Run a coroutine to its end: in a thread after it calls `into_thread`, on its loop after it calls `onto_loop`.

    A cancellation while it is in a thread is raised in its next `into_thread` or `onto_loop`. `Threads.run` says what
    becomes of a coroutine that calls neither. It sees the context variables of its caller, and changes none of them.
    """
    return await _Turns(work, threads, used)


async def into_thread() -> bool:
    """Move the coroutine to a thread, where calls may block. Return false, and do nothing, if it takes no turns.

    Until it calls `onto_loop` it must use nothing of the loop's: neither tasks nor futures nor timers.
    """
    turns = _own()
    if turns is None:
        return False
    if not turns.is_in_thread or turns.is_called_back:
        await _go(_Place.THREAD)
    return True


def is_in_thread() -> bool:
    """Say whether a thread runs the current coroutine, and not its event loop."""
    turns = _own()
    return turns is not None and turns.is_in_thread


async def onto_loop() -> None:
    """Move the coroutine back to its event loop; does nothing on the loop. Call it before anything that waits."""
    if is_in_thread():
        await _go(_Place.LOOP)


def ending_on_loop(call: Callable[[A], Awaitable[None]]) -> Callable[[A], Coroutine[Any, Any, None]]:
    """Return a call that ends on the loop, however it ends: what follows it is not made for threads."""

    async def ending(argument: A) -> None:
        try:
            await call(argument)
        finally:
            await onto_loop()

    return ending


def without_turns(call: Callable[[], T]) -> T:
    """Make a call that may run an event loop of its own, and coroutines on it."""
    context = copy_context()
    context.run(_turns.set, None)
    return context.run(call)


@coroutine
def _go(place: _Place) -> Generator[_Place, None, None]:
    yield place
