"""The base of all services: loops that run from `start` to `stop`, and loops of which one in many processes leads.

The base decides nothing. The circuit breaker says how long to wait after a failure, and which failure is news.

Invariants: an error in the loop ends no service; `stop` leaves nothing running; a service that leads holds its lock; a
loop that ends unasked is reported and begun anew; none ends without a line in the log; a failure harms nothing before
the work is tried again.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from rowbus.errors import ConfigurationError, RowbusError, StorageError
from rowbus.running.backoff import jittered
from rowbus.running.scope import awaited_by, note_tasks, out_of_scope, refuse_own_end
from rowbus.running.setting_types import require_type
from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.process import note_ended
from rowbus.running.waiting import cancel, finish, pause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from rowbus.running.critical import ReportedBreaker


class Watcher(Protocol):
    """Hears that a loop ended unasked."""

    @abstractmethod
    def ended_unasked(self, name: str, error: BaseException) -> float:
        """Report it, and return the seconds until the loop is to be begun anew."""


async def keep(
    loop: Callable[[], Coroutine[Any, Any, None]],
    name: str,
    watcher: Watcher,
    stopping: asyncio.Event,
) -> None:
    """Run a loop, in a task of that name, until it returns; begin it anew after an exception or a cancellation.

    Only a cancellation of this coroutine cancels the loop for good: code that the loop calls cannot reach its task.
    """
    while True:
        task = asyncio.create_task(loop(), name=name)
        try:
            await asyncio.wait([task])
        finally:
            await cancel([task])
        if not task.cancelled() and task.exception() is None:
            return
        error = _cause(task)
        note_ended(name, error)
        await pause(stopping, watcher.ended_unasked(name, error))


def _cause(task: asyncio.Task[None]) -> BaseException:
    return (
        asyncio.CancelledError("It was cancelled.")
        if task.cancelled()
        else task.exception() or RuntimeError()
    )


class Stoppable(Protocol):
    """A service that runs between `start` and `stop`."""

    @abstractmethod
    async def start(self) -> None:
        """Begin to serve."""

    @abstractmethod
    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Drain; after `timeout` seconds, interrupt."""


class Run(Protocol):
    """A service that has begun."""

    @abstractmethod
    async def stop(self, timeout: float | None) -> None:  # noqa: ASYNC109 - a grace period
        """End it; see `Stoppable.stop`."""


R = TypeVar("R", bound=Run)


class Lifetime(Generic[R]):
    """The runs of a service, one after the other: however many start and stop it, one begins, and all wait for its end.

    A run belongs to the event loop that it was begun in, and is over when that is closed.
    """

    def __init__(self, service: object) -> None:
        """Begin without a run."""
        self._service = service
        self._run: R | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._ending: asyncio.Task[None] | None = None

    @property
    def run(self) -> R | None:
        """The run that goes on, or None."""
        return None if self._loop is None or self._loop.is_closed() else self._run

    def here(self) -> R | None:
        """Return the run that goes on; raises ConfigurationError in another event loop than its own.

        What is over, or whose loop is closed, is forgotten here: the next run is of the loop that asks.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            is_open = self._loop is not None and not self._loop.is_closed()
            if is_open and (self._run is not None or self._turn.locked() or self._is_ending()):
                raise ConfigurationError(
                    f"This {type(self._service).__name__} was started in another event loop, and can be used in that "
                    "one only, until it is stopped there: call asyncio.run_coroutine_threadsafe(…, loop), send by a "
                    "rowbus.Client, or have one for each loop and each process."
                )
            self._loop, self._run, self._turn, self._ending = loop, None, asyncio.Lock(), None
        return self._run

    async def begin(self, begin: Callable[[], Awaitable[R]]) -> R:
        """Return the run that goes on; if there is none begin one, after the end of the one before."""
        self.here()
        if self._is_ending() or self._turn.locked():
            refuse_own_end(self._service)
        while self._ending is not None and self._is_ending():
            await asyncio.wait([self._ending])
        async with self._turn:
            if self._run is None:
                with awaited_by(self._service):
                    self._run = await begin()
            return self._run

    async def end(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Wait for the end of the run, which the first to ask begins; one that is beginning begins first.

        After `timeout` seconds of any who ask, or when one of them is cancelled, the work in hand is interrupted.
        Raises ConfigurationError for no seconds, and HandlerError in code that the service calls, and waits for.
        """
        require_type("timeout", timeout, float | int | None, "seconds, or None")
        refuse_own_end(self._service)
        self.here()
        async with self._turn:
            run, self._run = self._run, None
            if run is not None:
                self._ending = out_of_scope(partial(asyncio.create_task, self._end(run, timeout)))
                timeout = None
        ending = self._ending
        if ending is None or ending.done():
            return
        try:
            await asyncio.wait([ending], timeout=timeout)
        finally:
            await cancel([ending])
        if not ending.cancelled():
            ending.result()

    async def _end(self, run: R, timeout: float | None) -> None:  # noqa: ASYNC109 - as above
        with awaited_by(self._service):
            await run.stop(timeout)

    def _is_ending(self) -> bool:
        return self._ending is not None and not self._ending.done()


class Session(Protocol):
    """A session that may hold a lock: closing it frees the lock."""

    async def close(self) -> None:
        """Close it; harmless when it is closed or broken."""


S = TypeVar("S", bound=Session)

SETTLED = 60.0  # seconds another has to lead until a failure of this one's own work counts as over


class Service(ABC):
    """Does its `work` again and again, from `start` to `stop`. For one event loop."""

    def __init__(self, name: str, outages: ReportedBreaker) -> None:
        """Take the name of the task, and the breaker that reports the outages of the loop. No I/O."""
        self._name = name
        self._outages = outages
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Prepare, and begin the loop. Harmless when started. Raises as `prepare`."""
        if self._task is None:
            self._stopping.clear()
            await self.prepare()
            note_tasks(asyncio.get_running_loop())
            self._task = self._begin(self._run, self._name, self._outages)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Finish the work in hand, then end. Harmless when stopped.

        After `timeout` seconds, or when the caller is cancelled, the work in hand is cancelled, and so rolled back.
        """
        if self._task is None:
            return
        self._stopping.set()
        try:
            await finish(self.tasks(self._task), timeout)
        finally:
            self._task = None
            self._outages.ended()

    def is_stopping(self) -> bool:
        """Say whether `stop` has been called: nothing new is to begin."""
        return self._stopping.is_set()

    def is_cut_off(self) -> bool:
        """Say whether the work in hand is cancelled: `stop` has lost its patience, or the event loop ends."""
        return self._task is None or self._task.cancelling() > 0 or self._task.done()

    def _begin(
        self, loop: Callable[[], Coroutine[Any, Any, None]], name: str, outages: ReportedBreaker
    ) -> asyncio.Task[None]:
        """Begin a loop that is kept up until `stop`; it belongs to no handler that may be the first to need it."""
        keeping = keep(loop, name, outages, self._stopping)
        task: asyncio.Task[None] = out_of_scope(partial(asyncio.create_task, keeping, name=f"{name} keeper"))
        return task

    async def prepare(self) -> None:  # noqa: B027 - most services have nothing to prepare
        """Do what has to succeed before the loop begins."""

    @abstractmethod
    async def work(self) -> None:
        """Do a part of the work, or all of it until `stop`. May raise anything: the work is tried again."""

    async def release(self) -> None:  # noqa: B027 - most services keep nothing
        """Close what the loop keeps between two calls of `work`: called after a failure, and at the end."""

    def tasks(self, loop: asyncio.Task[None]) -> list[asyncio.Task[Any]]:
        """Return the tasks that `stop` waits for."""
        return [loop]

    async def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until `stop`."""
        await pause(self._stopping, seconds)

    async def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    await self.work()
                except Exception as error:  # noqa: BLE001 - an error of any kind ends no service
                    await self._failed(error)
        finally:
            await self.release()

    async def _failed(self, error: Exception) -> None:
        if not isinstance(error, RowbusError):
            self._outages.logger.error("Unexpected error: %s", self._outages.failure, exc_info=error)
        await self.release()
        await self.pause(self._outages.failed(error))


class Election(NamedTuple):
    """The election of one leader: how to try for its lock, who has it, the words and the seconds between two tries."""

    try_lead: Callable[[], Awaitable[bool]]
    name_leader: Callable[[], Awaitable[str]]
    standing_by: str
    delay: float
    asks_once: bool = False
    """Whether a session that was refused the lock is not to ask again: the next try is another session's."""


class ElectedService(Service, Generic[S]):
    """A service of which one leads, the one whose session holds the lock; the others stand by and take over."""

    def __init__(self, name: str, outages: ReportedBreaker) -> None:
        """See `Service`. No I/O."""
        super().__init__(name, outages)
        self.leads = asyncio.Event()
        """Set while this one leads."""
        self._is_cured_by_a_look = True
        self._stands_by_since: float | None = None

    @abstractmethod
    async def open(self) -> S:
        """Open the session that takes the lock."""

    @abstractmethod
    def election(self, session: S) -> Election | None:
        """Return the election to stand for on this session; None: this one leads without."""

    @abstractmethod
    async def lead(self, session: S) -> None:
        """Set `leads`, and work until `stop`. The session holds the lock, and is closed afterwards."""

    async def work(self) -> None:
        """Lead, when it is this one's turn, as long as the session lasts."""
        session = await self.open()
        try:
            election = self.election(session)
            if election is None or await self._elected(election):
                self._tell_leading(1)
                await self.lead(session)
        finally:
            self._tell_leading(0)
            self.leads.clear()
            await session.close()

    def _tell_leading(self, leads: int) -> None:
        if (measured := instruments()) is not None:
            measured.leading.set(leads, (self._name.removeprefix("rowbus "),))

    async def _failed(self, error: Exception) -> None:
        self._is_cured_by_a_look = isinstance(error, StorageError) and error.transient
        await super()._failed(error)

    async def _elected(self, election: Election) -> bool:
        """Stand by until the lock is free; return False when it is time to stop, or to ask with another session.

        That the database answers ends an outage of the database. It says nothing of work that failed here, and that
        fails with the other one too, perhaps, as soon as that one has the lock; only that it leads for long does.
        """
        while not self._stopping.is_set():
            if await election.try_lead():
                self._stands_by_since = None
                return True
            waits = self._stands_by_since is not None
            self._stands_by_since = self._stands_by_since or time.monotonic()
            if self._is_cured_by_a_look or time.monotonic() > self._stands_by_since + SETTLED:
                self._outages.succeeded()
            if not waits:
                self._outages.logger.info("%s: %s", election.standing_by, await election.name_leader())
            await self.pause(jittered(election.delay, random.random))
            if election.asks_once:
                break
        return False


class Periodic(Service):
    """Does its work every so many seconds, give or take a fifth. For one event loop."""

    def __init__(self, name: str, outages: ReportedBreaker, seconds: float, *, at_once: bool) -> None:
        """Take the period; `at_once`: the first time is at the start, not a period later. No I/O."""
        super().__init__(name, outages)
        self._seconds = seconds
        self._is_due = at_once

    @abstractmethod
    async def do(self) -> None:
        """Do the work once."""

    async def work(self) -> None:
        """Do the work if it is due, then wait for the next time."""
        if self._is_due:
            await self.do()
            self._outages.succeeded()
        self._is_due = True
        await self.pause(jittered(self._seconds, random.random))
