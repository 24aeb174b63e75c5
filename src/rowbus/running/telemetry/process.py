"""What is known of a process without measuring: its outages, its readiness, its processor time and its memory.

Invariant: asks the operating system and this process's own memory, never a database.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final

from rowbus.running.telemetry import outages
from rowbus.running.telemetry.series import Counter, Gauge

_STARTED: Final = time.time()
_PAGE: Final = os.sysconf("SC_PAGESIZE")


def process_families(*, is_ready: bool) -> list[Gauge]:
    """Return the families, with the names that Prometheus's client libraries use for a process."""
    ready = Gauge("rowbus_ready", "Whether the process serves.")
    ready.set(float(is_ready))
    failing = Gauge("rowbus_failing", "Activities that fail now: outages that go on.", ("activity",))
    for activity in outages.going_on():
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
