"""Worker processes: start them, replace those that die, drain them together.

Each worker has one end of a pipe, the lifeline, as its standard input; nothing is ever written to it. When the
supervisor ends, in any way, the workers see the lifeline end and drain as after SIGTERM.

Invariant: no worker outlives its supervisor for longer than it takes to finish its messages in hand, and no worker is
started while the supervisor stops.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from rowbus.running import in_hand
from rowbus.running.backoff import doubling
from rowbus.running.waiting import pause

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import IO

    OnDeath = Callable[[Sequence[in_hand.RowInHand], str], Awaitable[bool]]

logger = logging.getLogger("rowbus.workers")

FIRST_DELAY = 0.1  # seconds before a worker that died is replaced; doubled each time it dies soon again
LONGEST_DELAY = 30.0
# Seconds, for a worker that took messages: waiting would only leave its queue with fewer workers.
LONGEST_DELAY_AFTER_WORK = 1.0
SETTLED = 30.0  # seconds after which a worker's death is no longer counted with the one before
INTERRUPTION = 3.0  # seconds interrupted workers have before they are killed
CLEAN_EXITS = frozenset({0, -signal.SIGTERM})  # -SIGTERM: told to stop before it had begun


class Death(NamedTuple):
    """The end of a process: how it ended, in words, what it had in hand, and whether it had anything ever."""

    how: str
    held: Sequence[in_hand.RowInHand] = ()
    has_worked: bool = False

    def delay(self, deaths: int) -> float:
        """Return after how many seconds the process is replaced, when it is the last of so many deaths in a row."""
        longest = LONGEST_DELAY_AFTER_WORK if self.has_worked else LONGEST_DELAY
        return doubling(deaths, first=FIRST_DELAY, most=longest)


class Workers:
    """A number of equal worker processes. For one event loop."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        count: int,
        on_death: OnDeath | None = None,
    ) -> None:
        """Take the command and the environment of each worker. No I/O.

        `on_death` is told what a worker had in hand that died, and how it died; it says whether that is dealt with, so
        that another worker may start at once.
        """
        self._on_death = on_death
        self._command = tuple(command)
        self._environment = dict(environment)
        self.count = count
        self._stopping = asyncio.Event()
        self._running: dict[int, Process] = {}
        self._keepers: dict[int, asyncio.Task[None]] = {}
        self._lifeline: tuple[int, int] | None = None
        self.clean = True
        """Whether every worker that was told to stop finished its work in hand."""

    def processes(self) -> dict[int, int]:
        """Return the ids of the processes that run, by the numbers of the workers."""
        return {number: process.pid for number, process in sorted(self._running.items())}

    async def start(self) -> None:
        """Start the workers; returns before they are at work."""
        self._lifeline = os.pipe()
        self.scale(self.count)

    def scale(self, count: int) -> None:
        """Have so many run from now on: more are started at once, and those beyond it drain. Nothing while it stops."""
        if self._lifeline is None or self._stopping.is_set():
            return
        self.count = count
        for number in range(1, count + 1):
            if number not in self._keepers or self._keepers[number].done():
                keeping = self._keep(number)
                self._keepers[number] = asyncio.create_task(keeping, name=f"rowbus worker {number}")
        for number, process in self._running.items():
            if number > count and process.returncode is None:
                process.terminate()

    def _is_wanted(self, number: int) -> bool:
        return not self._stopping.is_set() and number <= self.count

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Drain the workers. Harmless when stopped.

        After `timeout` seconds, or when the caller is cancelled, they are interrupted, and killed if that takes long:
        their messages in hand go back to the queue.
        """
        self._stopping.set()
        self._signal(signal.SIGTERM)
        try:
            await self._ended(timeout)
        finally:
            await self._interrupt()
            self._cut_lifeline()

    async def _interrupt(self) -> None:
        """End the workers that are left, if any."""
        if all(keeper.done() for keeper in self._keepers.values()):
            return
        self.clean = False
        self._signal(signal.SIGTERM)
        await self._ended(INTERRUPTION)
        self._signal(signal.SIGKILL)
        await self._ended(None)

    async def _ended(self, timeout: float | None) -> None:  # noqa: ASYNC109 - passed on
        if self._keepers:
            await asyncio.wait(self._keepers.values(), timeout=timeout)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            if process.returncode is None:
                process.send_signal(number)

    def _cut_lifeline(self) -> None:
        if self._lifeline is not None:
            for end in self._lifeline:
                os.close(end)
            self._lifeline = None

    # --- one worker

    async def _keep(self, number: int) -> None:
        """Keep one worker running as long as it is wanted: replace it each time it dies."""
        deaths = 0
        while self._is_wanted(number):
            started = time.monotonic()
            death = await self._run(number)
            if not self._is_wanted(number):
                return
            forgiven = await self._deal_with(death) or time.monotonic() - started > SETTLED
            deaths = 1 if forgiven else deaths + 1
            delay = death.delay(deaths)
            logger.warning("Worker %s %s; starting another in %.1f s", number, death.how, delay)
            await pause(self._stopping, delay)

    async def _deal_with(self, death: Death) -> bool:
        """Have dealt with what a worker had in hand when it died; say whether there was anything, and that was done."""
        return bool(death.held) and self._on_death is not None and await self._on_death(death.held, death.how)

    async def _run(self, number: int) -> Death:
        """Run one process to its end."""
        try:
            with in_hand.prepare() as notes:
                return await self._run_noting(number, notes)
        except OSError as error:
            return Death(f"could not be started ({error})")

    async def _run_noting(self, number: int, notes: IO[bytes]) -> Death:
        process = await self._start_process(notes)
        logger.info("Worker %s is process %s", number, process.pid)
        self._running[number] = process
        if not self._is_wanted(number):
            process.terminate()
        code = await process.wait()
        del self._running[number]
        self._note(code)
        how = f"(process {process.pid}) {_ending(code)}"
        return Death(how, in_hand.read(notes), in_hand.has_worked(notes))

    async def _start_process(self, notes: IO[bytes]) -> Process:
        """Start a process in a session of its own, so that Ctrl-C in a terminal reaches the supervisor alone."""
        return await asyncio.create_subprocess_exec(
            *self._command,
            stdin=None if self._lifeline is None else self._lifeline[0],
            env=self._environment | {in_hand.VARIABLE: in_hand.address(notes)},
            pass_fds=(notes.fileno(),),
            start_new_session=True,
        )

    def _note(self, code: int) -> None:
        if self._stopping.is_set() and code not in CLEAN_EXITS:
            self.clean = False


def follow_supervisor() -> None:
    """In a worker: have the end of the lifeline, the standard input, signal this process as SIGTERM would.

    The standard input becomes empty, so that programs a handler starts do not hold on to the lifeline.
    """
    lifeline = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_await_end, args=(lifeline,), name="rowbus lifeline", daemon=True).start()


_is_leaving = threading.Event()


def have_worker_replaced() -> bool:
    """In a worker: have this process drain and its supervisor start another; say whether that begins now."""
    begins = in_hand.of_this_process() is not None and not _is_leaving.is_set()
    if begins:
        _is_leaving.set()
        os.kill(os.getpid(), signal.SIGTERM)
    return begins


def leaves_by_itself() -> bool:
    """Say whether this process drains because it asked to be replaced: then nobody else has asked it to stop yet."""
    return _is_leaving.is_set()


def _await_end(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _ending(code: int) -> str:
    names = {number.value: number.name for number in signal.Signals}
    return f"ended with code {code}" if code >= 0 else f"was killed by {names.get(-code, -code)}"
