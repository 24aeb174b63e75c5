"""Serves a service, and tells of it: to Prometheus and to probes, if they are to ask, and to systemd, if it started us.

Source: sd_notify(3) and sd_watchdog_enabled(3): datagrams of `NAME=value` to the socket in NOTIFY_SOCKET.

A worker listens on a socket in a folder that only this user may enter. Counters of a worker that was replaced begin at
0 again, in its own series, as Prometheus expects of a process that was started anew.

Invariants: the service starts, drains and ends as without; `/livez` answers from before its start to after its end;
telling systemd never raises, and never waits: a manager that does not listen harms nothing; a worker that does not
answer in time is left out, and counts as not ready.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rowbus.running.telemetry import process as outages
from rowbus.running.telemetry.instruments import turn_on
from rowbus.running.telemetry.listener import Address, Answer, Listener
from rowbus.running.telemetry.process import process_families
from rowbus.running.telemetry.series import CONTENT_TYPE, exposition, merged

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from rowbus.running.service import Stoppable
    from rowbus.running.telemetry.series import Family
    from rowbus.running.workers import Workers

SOCKET: Final = "NOTIFY_SOCKET"
PERIOD: Final = "WATCHDOG_USEC"
PROCESS: Final = "WATCHDOG_PID"

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


def tell(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Tell the manager; say whether there is one and it was told. A socket's name that begins with @ is abstract."""
    path = environment.get(SOCKET, "")
    if not path.startswith(("/", "@")):
        return False
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
        manager.settimeout(0)
        manager.sendto(state.encode(), address)
        return True
    return False


def watchdog_period(environment: Mapping[str, str] = os.environ) -> float | None:
    """Return how often to say that the process lives, in seconds: half of what the manager waits; None: never."""
    if environment.get(PROCESS, str(os.getpid())) != str(os.getpid()):
        return None
    with suppress(ValueError):
        microseconds = int(environment.get(PERIOD, ""))
        return microseconds / 2_000_000 if microseconds > 0 else None
    return None


FOLDER_VARIABLE = "_ROWBUS_TELEMETRY"
"""In a worker's environment: the folder in which its supervisor finds its socket, `<process>.sock`."""


class MeasuredService:
    """A service whose life and measurements are told, from `start` to `stop`. For one event loop."""

    def __init__(
        self,
        service: Stoppable,
        address: Address | None = None,
        more: Callable[[], Awaitable[Sequence[Family]]] | None = None,
    ) -> None:
        """Serve this; without an address only systemd is told. `more` measures when `/metrics` is asked. No I/O."""
        self._more = more
        self._service = service
        self._is_ready = False
        self._beating: asyncio.Task[None] | None = None
        self.listener = None if address is None else Listener(address, self._pages())
        self._instruments = None if address is None else turn_on()

    def _pages(self) -> dict[str, Callable[[], Awaitable[Answer]]]:
        return {"/metrics": self.metrics, "/livez": self.live, "/readyz": self.ready}

    async def start(self) -> None:
        """Begin to listen, then to serve, and say so. Raises ConfigurationError, and as the service's `start`."""
        if self.listener is not None:
            await self.listener.start()
        self._beating = _beating()
        try:
            await self._service.start()
        except BaseException:
            await self._end()
            raise
        self._is_ready = True
        tell(READY)

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """Say that it ends, drain as the service does, and end."""
        self._is_ready = False
        tell(STOPPING)
        try:
            await self._service.stop(timeout)
        finally:
            await self._end()

    async def _end(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
        if self.listener is not None:
            await self.listener.stop()

    async def metrics(self) -> Answer:
        """Return what was measured."""
        own = [] if self._instruments is None else self._instruments.families()
        more: Sequence[Family] = () if self._more is None else await self._more()
        process = process_families(is_ready=await self.is_ready())
        return Answer(exposition([*own, *more, *process]), type=CONTENT_TYPE)

    async def live(self) -> Answer:
        """Say that the event loop runs, and which loops ended unasked since the start: they were begun anew."""
        return Answer("".join(f"{line}\n" for line in ("alive", *await self.ended())))

    async def ended(self) -> Sequence[str]:
        """Return what is to be said of loops that ended unasked."""
        return outages.ended_loops()

    async def ready(self) -> Answer:
        """Say whether it serves: it has started, does not stop, and nothing that it needs is away."""
        if await self.is_ready():
            return Answer("ready\n")
        failing = await self.troubles()
        why = "".join(f"{activity}: fails\n" for activity in failing) or "starting, or stopping\n"
        why += "".join(f"{line}\n" for line in await self.full_disks())
        return Answer(f"not ready\n{why}", 503)

    async def is_ready(self) -> bool:
        """Say whether it serves."""
        return self._is_ready and not await self.troubles()

    async def troubles(self) -> Sequence[str]:
        """Return what fails now."""
        return outages.going_on()

    async def full_disks(self) -> Sequence[str]:
        """Return what is to be said of servers whose disks are full."""
        return [f"{outages.DISK_FULL}: {server}".removesuffix(": ") for server in outages.full_disks()]


def worker_address() -> Address | None:
    """Return where a worker's supervisor wants to ask it; None: nowhere."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Address("", 0, f"{folder}/{os.getpid()}.sock") if folder else None


def _beating() -> asyncio.Task[None] | None:
    """Tell the manager now and then that this event loop lives, if it wants to know."""
    period = watchdog_period()
    return None if period is None else asyncio.create_task(_beat(period), name="rowbus watchdog")


async def _beat(period: float) -> None:
    while True:
        tell(ALIVE)
        await asyncio.sleep(period)


PATIENCE: Final = 2.0  # seconds that a worker has for an answer
SHORT_PATIENCE: Final = 0.3
_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d+)")


class ToldWorkers(MeasuredService):
    """Workers, of whom their supervisor tells."""

    def __init__(self, workers: Workers, address: Address | None, folder: str) -> None:
        """Ask the workers through the sockets in `folder`."""
        super().__init__(workers, address)
        self._workers = workers
        self._folder = Path(folder)

    async def metrics(self) -> Answer:
        """Return what the workers measured, and what is known of the supervisor."""
        answers = await self._ask("/metrics")
        texts = [(number, body) for number, (status, body) in answers.items() if status == 200]  # noqa: PLR2004 - HTTP's
        own = exposition(process_families(is_ready=await self.is_ready()))
        return Answer(merged([*texts, ("supervisor", own)], "worker"), type=CONTENT_TYPE)

    async def troubles(self) -> Sequence[str]:
        """Return the workers that do not serve."""
        answers = await self._ask("/readyz")
        ready = {number for number, (status, _) in answers.items() if status == 200}  # noqa: PLR2004 - HTTP's
        wanted = [str(number) for number in range(1, self._workers.count + 1)]
        return [f"worker {number}" for number in wanted if number not in ready]

    async def full_disks(self) -> Sequence[str]:
        """Return what workers say of servers whose disks are full."""
        said = [line for _, body in (await self._ask("/readyz")).values() for line in body.splitlines()]
        return sorted({line for line in said if line.startswith(outages.DISK_FULL)})

    async def ended(self) -> Sequence[str]:
        """Return what the workers say of their loops, those that answer soon: a probe has not much patience."""
        answers = await self._ask("/livez", SHORT_PATIENCE)
        return [
            f"worker {number}: {line}"
            for number, (_, body) in answers.items()
            for line in body.splitlines()[1:]
        ]

    async def _ask(self, page: str, patience: float = PATIENCE) -> dict[str, tuple[int, str]]:
        pids = self._workers.processes()
        answers = await asyncio.gather(
            *(_get(self._folder / f"{pid}.sock", page, patience) for pid in pids.values())
        )
        return {
            str(number): answer for number, answer in zip(pids, answers, strict=True) if answer is not None
        }


async def _get(socket: Path, page: str, patience: float) -> tuple[int, str] | None:
    """Ask one worker; None: it does not answer."""
    try:
        async with asyncio.timeout(patience):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                writer.write(f"GET {page} HTTP/1.1\r\n\r\n".encode())
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return None
    head, _, body = answer.partition(b"\r\n\r\n")
    status = _STATUS.match(head)
    return None if status is None else (int(status[1]), body.decode("utf-8", "replace"))
