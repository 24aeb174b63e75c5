"""Facts of a process that need no measuring: its outages, a full disk, loops that ended, processor time and memory.

Invariants: asks the operating system and this process's own memory, never a database; an outage is listed from its
first failure to its end, or to the end of the service that had it. That a loop ended unasked is known as long as the
process lives.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from weakref import WeakSet

from rowbus.errors.strangers import type_name
from rowbus.running.bounded import Bounded
from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.series import Counter, Gauge

if TYPE_CHECKING:
    import logging

UNESSENTIAL: Final = frozenset({"rowbus.platform", "rowbus.history"})
"""Loggers of services whose outages keep nothing from being served."""


class Breaker(Protocol):
    """A breaker, as far as it is needed here."""

    activity: str
    logger: logging.Logger

    @property
    def is_failing(self) -> bool:
        """Whether its outage goes on."""
        raise NotImplementedError


_failing: WeakSet[Breaker] = WeakSet()


def began(breaker: Breaker) -> None:
    """Note an outage."""
    _failing.add(breaker)
    if measured := instruments():
        measured.outages.add((breaker.activity,))


def ended(breaker: Breaker) -> None:
    """Note the end of an outage, or of the service that had it."""
    _failing.discard(breaker)


def going_on() -> list[str]:
    """Return the activities that fail now, and that serving needs."""
    return sorted(
        {one.activity for one in list(_failing) if one.is_failing and one.logger.name not in UNESSENTIAL}
    )


DISK_FULL: Final = "the server's disk is full"
# Seconds after an error that a disk counts as full; who was refused tries again in ten.
FULL_FOR: Final = 15.0

REFUSED_AT: Final = Bounded[str, float]()
"""The times at which servers had no room to write, by their names; empty: some server, it was not known which."""


def note_full_disk(server: str) -> None:
    """Note that a server has just had no room to write."""
    REFUSED_AT[server] = time.monotonic()


def full_disks() -> list[str]:
    """Return the servers whose disks are full, as far as this process has met it."""
    begin = time.monotonic() - FULL_FOR
    return sorted({server for server, at in REFUSED_AT.items() if at > begin})


class EndedLoop(NamedTuple):
    """A loop that ended though nobody asked it to: how often, when last, in seconds since 1970, and by what."""

    times: int
    last: float
    error: str

    def told(self, loop: str) -> str:
        """Return a line that says it."""
        last = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.last))
        return f"{loop} ended though nobody asked it to: {self.times}, last at {last} UTC by {self.error}"


ENDED: Final = Bounded[str, EndedLoop]()
"""The loops of this process that ended unasked, by their names."""


def note_ended(loop: str, error: BaseException) -> None:
    """Note that a loop ended unasked."""
    before = ENDED.get(loop)
    ENDED[loop] = EndedLoop(1 + (before.times if before else 0), time.time(), type_name(error))


def ended_loops() -> list[str]:
    """Return a line for each loop that ended unasked."""
    return [one.told(loop) for loop, one in sorted(ENDED.items())]


_STARTED: Final = time.time()
_PAGE: Final = os.sysconf("SC_PAGESIZE")


def process_families(*, is_ready: bool) -> list[Gauge]:
    """Return the families, with the names that Prometheus's client libraries use for a process."""
    ready = Gauge("rowbus_ready", "Whether the process serves.")
    ready.set(float(is_ready))
    failing = Gauge("rowbus_failing", "Activities that fail now: outages that go on.", ("activity",))
    for activity in going_on():
        failing.set(1, (activity,))
    full = Gauge(
        "rowbus_disk_full", "Servers whose disks are full, as far as the process has met it.", ("server",)
    )
    for server in full_disks():
        full.set(1, (server,))
    ended = Counter("rowbus_loops_ended", "Ends of loops that nobody asked to end.", ("loop",))
    for loop, one in ENDED.items():
        ended.add((loop,), one.times)
    started = Gauge("process_start_time_seconds", "When the process started, since 1970.")
    started.set(_STARTED)
    used = resource.getrusage(resource.RUSAGE_SELF)
    processor = Counter("process_cpu_seconds", "Processor time used.")
    processor.add(amount=used.ru_utime + used.ru_stime)
    return [ready, failing, full, ended, started, processor, *_memory()]


def _memory() -> list[Gauge]:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # no Linux
        return []
    resident = Gauge("process_resident_memory_bytes", "Memory in use.")
    resident.set(pages * _PAGE)
    return [resident]
