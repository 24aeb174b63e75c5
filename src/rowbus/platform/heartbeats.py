"""Signs of life: one message when the endpoint starts, and one each period, until it stops.

Invariant: that ServiceControl cannot be reached harms nothing else: it is logged, and tried again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from rowbus.platform.connection import HeartbeatPlan
    from rowbus.platform.outbox import Outbox
    from rowbus.platform.reports import Reporter
    from rowbus.running.host import Process


class Heartbeats(Periodic):
    """Sends them. For one event loop."""

    def __init__(self, outbox: Outbox, reporter: Reporter, plan: HeartbeatPlan, process: Process) -> None:
        """Begin a period after the start, as .NET does. No I/O."""
        outages = outbox.outages("Heartbeats", "Could not send a heartbeat to ServiceControl")
        super().__init__("rowbus heartbeats", outages, plan.every.total_seconds(), at_once=False)
        self._outbox = outbox
        self._reporter = reporter
        self._time_to_live = plan.time_to_live
        self._process = process
        self._started_at = datetime.now(UTC)
        self._is_registered = False

    async def work(self) -> None:
        """Say once that the endpoint has started, then beat."""
        if not self._is_registered:
            startup = self._reporter.startup(self._process, self._started_at, self._time_to_live)
            await self._outbox.send([startup])
            self._is_registered = True
        await super().work()

    async def do(self) -> None:
        """Send a heartbeat."""
        await self._outbox.send([self._reporter.heartbeat(datetime.now(UTC), self._time_to_live)])
