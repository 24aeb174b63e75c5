"""The faults, each under its name; `FAULTS` has all of them, in the order of the table."""

from __future__ import annotations

from tests.chaos.faults.fault import Fault
from tests.chaos.faults.kills import KillConsumer, KillMover, KillTicker, KillWorker

FAULTS: dict[str, type[Fault]] = {
    fault.name: fault for fault in (KillWorker, KillTicker, KillMover, KillConsumer)
}
