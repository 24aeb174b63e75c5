"""What is known of a process without measuring: its outages, its readiness, its processor time and its memory.

Invariants: asks the operating system and this process's own memory, never a database; an outage is listed from its
first failure to its end, or to the end of the service that had it.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from weakref import WeakSet

from rowbus.running.telemetry.instruments import instruments
from rowbus.running.telemetry.series import Counter, Gauge

if TYPE_CHECKING:
    import logging

UNESSENTIAL: Final = frozenset({"rowbus.platform"})
"""Loggers of services whose outages keep nothing from being served."""


class Watched(Protocol):
    """A breaker, as far as it is needed here."""

    activity: str
    logger: logging.Logger

    @property
    def is_failing(self) -> bool:
        """Whether its outage goes on."""
        raise NotImplementedError


_failing: WeakSet[Watched] = WeakSet()


def began(breaker: Watched) -> None:
    """Note an outage."""
    _failing.add(breaker)
    if measured := instruments():
        measured.outages.add((breaker.activity,))


def ended(breaker: Watched) -> None:
    """Note the end of an outage, or of the service that had it."""
    _failing.discard(breaker)


def going_on() -> list[str]:
    """Return the activities that fail now, and that serving needs."""
    return sorted(
        {one.activity for one in list(_failing) if one.is_failing and one.logger.name not in UNESSENTIAL}
    )


_STARTED: Final = time.time()
_PAGE: Final = os.sysconf("SC_PAGESIZE")


def process_families(*, is_ready: bool) -> list[Gauge]:
    """Return the families, with the names that Prometheus's client libraries use for a process."""
    ready = Gauge("rowbus_ready", "Whether the process serves.")
    ready.set(float(is_ready))
    failing = Gauge("rowbus_failing", "Activities that fail now: outages that go on.", ("activity",))
    for activity in going_on():
        failing.set(1, (activity,))
    started = Gauge("process_start_time_seconds", "When the process started, since 1970.")
    started.set(_STARTED)
    used = resource.getrusage(resource.RUSAGE_SELF)
    processor = Counter("process_cpu_seconds", "Processor time used.")
    processor.add(amount=used.ru_utime + used.ru_stime)
    return [ready, failing, started, processor, *_memory()]


def _memory() -> list[Gauge]:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):  # no Linux
        return []
    resident = Gauge("process_resident_memory_bytes", "Memory in use.")
    resident.set(pages * _PAGE)
    return [resident]
