"""Waits on the event loop for the answers of one round trip, and for notifications.

psycopg's own wait registers the socket, sets a timer and wakes the task for every piece of an answer, and a batch of a
hundred messages comes in six or more pieces. Here the socket is registered once, the loop's callback takes the pieces
in, and the task wakes when all are there (docs/performance.md has the figures). psycopg's wait for notifications wakes
the task ten times a second; here it sleeps until something comes.

Invariant: an interruption of the task ends as in psycopg's wait: the server is asked to cancel, the answers are read to
their end, and a connection that does not come to one is closed.
"""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection
from psycopg.waiting import Ready, Wait

if TYPE_CHECKING:
    import psycopg
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn

T = TypeVar("T")

_wait: Final = AsyncConnection.wait  # psycopg's own; a handler's connection has another

LOOK_AGAIN: Final = 0.1  # seconds, as psycopg: what TLS has buffered makes no socket readable


async def complete(connection: psycopg.AsyncConnection[Any], exchange: PQGen[T]) -> T:
    """Run an exchange that sends, and then waits for answers, to its end; raises what it raises."""
    pieces = _Pieces(exchange)
    try:
        has_waited = await pieces.wait(connection.pgconn.socket)
    except asyncio.CancelledError:
        await _wait(connection, cast("PQGen[T]", _Rest(pieces, is_interrupted=True)))
        raise
    if not pieces.ended:
        return await _wait(connection, cast("PQGen[T]", _Rest(pieces, is_interrupted=False)))
    answer = cast("T", pieces.answer)
    return answer if has_waited else await _wait(connection, _ended(answer))


def _ended(answer: T) -> PQGen[T]:
    """Be an exchange that has ended: psycopg's wait lets others on now and then, should many such follow each other."""
    yield from ()
    return answer


async def readable(pgconn: PGconn, until: float) -> bool:
    """Wait until the server may have sent something; false: nothing came until this time of the event loop."""
    loop = asyncio.get_running_loop()
    time_over = min(until, loop.time() + LOOK_AGAIN) if pgconn.ssl_in_use else until
    came: asyncio.Future[bool] = loop.create_future()
    timer = loop.call_at(time_over, _tell, came, time_over < until)
    loop.add_reader(pgconn.socket, _tell, came, True)  # noqa: FBT003 - the loop's calls have no keywords
    try:
        return await came
    finally:
        loop.remove_reader(pgconn.socket)
        timer.cancel()


def has_come(pgconn: PGconn) -> bool:
    """Say whether something is to be read on a connection's socket, without waiting."""
    waiting = select.poll()
    waiting.register(pgconn.socket, select.POLLIN)
    return bool(waiting.poll(0))


def _tell(came: asyncio.Future[bool], answer: bool) -> None:  # noqa: FBT001 - as above
    if not came.done():
        came.set_result(answer)


class _Pieces:
    """The answers of one exchange, while they come. `ended` is false if the rest of it is not to read, but to write."""

    def __init__(self, exchange: PQGen[Any]) -> None:
        self.ended = False
        self.answer: object = None
        self.waits_for = Wait.R
        self.exchange = exchange
        self._ready: Any = None
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()

    async def wait(self, socket: int) -> bool:
        """Send, and wait for the end; say whether there was something to wait for."""
        self.take()
        self._ready = Ready.R
        if has_to_wait := not self._done.done():
            waiting = _open_exchanges.get(self._loop) or _open_exchanges.setdefault(
                self._loop, _OpenExchanges()
            )
            self._loop.add_reader(socket, self.take)
            waiting.add(self)
            try:
                await self._done
            finally:
                waiting.exchanges.discard(self)
                self._loop.remove_reader(socket)
        self._done.result()
        return has_to_wait

    def take(self) -> None:
        """Take in what has come; the loop calls this when something has."""
        if self._done.done():
            return
        try:
            self.waits_for = self.exchange.send(self._ready)
        except StopIteration as end:
            self.ended, self.answer = True, end.value
            self._done.set_result(None)
        except Exception as error:  # noqa: BLE001 - raised where the answers are awaited
            self._done.set_exception(error)
        else:
            if self.waits_for is not Wait.R:  # the socket takes no more for now
                self._done.set_result(None)


class _OpenExchanges:
    """The exchanges of one event loop that wait, with one timer for all: one each would cost what a statement does."""

    def __init__(self) -> None:
        self.exchanges: set[_Pieces] = set()
        self._is_timed = False

    def add(self, pieces: _Pieces) -> None:
        self.exchanges.add(pieces)
        if not self._is_timed:
            self._is_timed = True
            asyncio.get_running_loop().call_later(LOOK_AGAIN, self._look_again)

    def _look_again(self) -> None:
        self._is_timed = False
        for pieces in [*self.exchanges]:
            self.add(pieces)
            pieces.take()


_open_exchanges: WeakKeyDictionary[asyncio.AbstractEventLoop, _OpenExchanges] = WeakKeyDictionary()


class _Rest:
    """The rest of an exchange, for psycopg's wait, whose first step asks what the exchange waits for.

    Where the task was interrupted that step interrupts psycopg's wait, which then sees to the end.
    """

    def __init__(self, pieces: _Pieces, *, is_interrupted: bool) -> None:
        self._pieces = pieces
        self._is_interrupted = is_interrupted

    def __next__(self) -> Wait:
        if self._is_interrupted:
            self._is_interrupted = False
            raise asyncio.CancelledError
        return self._pieces.waits_for

    def send(self, ready: Ready) -> Wait:
        self._pieces.waits_for = self._pieces.exchange.send(ready)
        return self._pieces.waits_for
