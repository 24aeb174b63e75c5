"""Serving by a command: until a signal, telling systemd, and Prometheus and probes where they are to ask.

Invariant: SIGTERM and SIGINT drain; what a worker tells goes to its supervisor alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rowbus.running.signals import run_until_signalled
from rowbus.running.telemetry.listener import address_of
from rowbus.running.telemetry.service import MeasuredService, worker_address

if TYPE_CHECKING:
    from rowbus.running.service import Stoppable
    from rowbus.running.telemetry.listener import Address


def serve(service: Stoppable, metrics: str | None, drain: float | None = None) -> None:
    """Serve until a signal; `metrics` is where to listen. Raises ConfigurationError, and as the service's `start`."""
    asyncio.run(run_until_signalled(MeasuredService(service, listening_on(metrics)), drain))


def listening_on(metrics: str | None) -> Address | None:
    """Return where to listen; raises ConfigurationError for what is no address."""
    return worker_address() if metrics is None else address_of(metrics)
