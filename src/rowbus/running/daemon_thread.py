"""Blocking calls in threads that keep neither a stop nor the interpreter's end waiting.

`asyncio.to_thread` borrows a thread of a pool, for which `asyncio.run` and the interpreter wait at the end, however
long the call lasts (https://docs.python.org/3/library/asyncio-eventloop.html#asyncio.loop.shutdown_default_executor).

Invariant: a call whose caller was cancelled runs on, unheard; nothing waits for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


async def run_in_thread(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a blocking call in a daemon thread of its own, and return what it returns; raises what it raises.

    For a store whose driver blocks. A call that hangs holds up neither the event loop, nor the stop of the endpoint,
    nor the end of the process. Cancelled, this returns at once and the call goes on: have it bounded by itself too.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    work = partial(contextvars.copy_context().run, call, *args, **kwargs)
    threading.Thread(target=_run, args=(work, loop, answer), name="rowbus blocking call", daemon=True).start()
    return await answer


def _run(work: Callable[[], T], loop: asyncio.AbstractEventLoop, answer: asyncio.Future[T]) -> None:
    tell: Callable[[], None]
    try:
        tell = partial(_answer, answer, work())
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to who waits for the call
        tell = partial(_fail, answer, error)
    with suppress(RuntimeError):  # the loop is closed: there is no waiter any more
        loop.call_soon_threadsafe(tell)


def _answer(answer: asyncio.Future[T], value: T) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answer: asyncio.Future[T], error: BaseException) -> None:
    if answer.done():
        return
    if isinstance(error, StopIteration):  # which no future takes
        error = RuntimeError(f"a blocking call raised {error!r}")
    answer.set_exception(error)
