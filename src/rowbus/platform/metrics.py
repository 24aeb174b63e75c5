"""Metrics for ServiceControl's monitoring: each period where the endpoint's queue is, and what its meter measured.

Invariant: what could not be sent is sent later, as far as the meter keeps it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowbus.platform.forms import is_countable
from rowbus.platform.outbox import logger
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.platform.connection import MetricsPlan
    from rowbus.platform.meter import Meter
    from rowbus.platform.outbox import Outbox
    from rowbus.platform.reports import Reporter


class Metrics(Periodic):
    """Sends them. For one event loop."""

    def __init__(
        self, outbox: Outbox, reporter: Reporter, plan: MetricsPlan, meter: Meter, address: QueueAddress
    ) -> None:
        """Send what `meter` measures, first at the start; and where `address` is, if monitoring can count it."""
        outages = outbox.outages("Metrics", "Could not send metrics to ServiceControl's monitoring")
        super().__init__("rowbus metrics", outages, plan.every.total_seconds(), at_once=True)
        self._outbox = outbox
        self._reporter = reporter
        self._meter = meter
        self._is_counted = is_countable(address)
        if not self._is_counted:
            logger.info(
                "ServicePulse does not show the length of %s: one of its names would need quotes", address
            )

    async def do(self) -> None:
        """Send what there is."""
        taken = await self._meter.take()
        messages = [self._reporter.metadata()] if self._is_counted else []
        try:
            for kind, found in taken.items():
                for message in self._reporter.measurements(kind, found):
                    messages.append(message)
                    await asyncio.sleep(0)  # messages are handled meanwhile
            await self._outbox.send(messages)
        except BaseException:
            self._meter.put_back(taken)
            raise
