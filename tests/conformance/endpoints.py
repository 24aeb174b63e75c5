"""Endpoints on a backend, for the behaviours that need more than a transport.

Invariant: an endpoint made here is stopped when the test ends, whatever happened to it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import rowbus
from rowbus.messages.address import QueueAddress

if TYPE_CHECKING:
    from typing import Unpack

    from rowbus.running.critical import OnCriticalError
    from tests.conformance.backend import Backend
    from tests.conformance.settings import Settings
    from tests.conformance.transport import Case

NATIVE = rowbus.NativeDelayedDelivery()
ERROR = "error"
NO_RETRIES = rowbus.Recoverability(immediate=0, delayed=0)


@rowbus.command("Shop.Messages.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str


@rowbus.message("Shop.Messages.OrderAccepted")
@dataclass
class OrderAccepted:
    order_id: str


class Endpoints:
    """Makes endpoints for one test, all in the test's transaction mode."""

    def __init__(self, backend: Backend, case: Case) -> None:
        self.backend = backend
        self.case = case
        self.defaults: Settings = {}  # of all endpoints of a test
        self._made: list[rowbus.Endpoint] = []

    def make(
        self,
        name: str,
        *,
        database: str | None = None,
        recoverability: rowbus.Recoverability | None = None,
        on_critical_error: OnCriticalError | None = None,
        delayed_delivery: rowbus.NativeDelayedDelivery | rowbus.DelayedDeliverySettings | None = NATIVE,
        lanes: rowbus.Lanes | None = None,
        **settings: Unpack[Settings],
    ) -> rowbus.Endpoint:
        chosen: Settings = {
            "schema": self.backend.schema,
            "concurrency": 4,
            "transaction_mode": self.case.mode,
            "failure_handling": self.case.handling,
            "peek_delay": timedelta(milliseconds=100),
        }
        chosen.update(self.defaults)
        chosen.update(settings)
        endpoint = rowbus.Endpoint(
            name,
            database=database or self.backend.dsn,
            settings=rowbus.EndpointSettings(**chosen),
            recoverability=recoverability or self._nothing_delayed(),
            on_critical_error=on_critical_error,
            delayed_delivery=delayed_delivery,
            lanes=lanes,
        )
        self._made.append(endpoint)
        return endpoint

    def _nothing_delayed(self) -> rowbus.Recoverability:
        """Return the default policy but for the delays, which a test would have to sit out."""
        none = self.case.mode is rowbus.TransactionMode.NONE
        return NO_RETRIES if none else rowbus.Recoverability(delayed=0)

    async def stop_all(self) -> None:
        await asyncio.gather(*(endpoint.stop(5) for endpoint in self._made))
        left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("rowbus")]
        assert not left, f"left running: {left}"

    def queue(self, name: str) -> QueueAddress:
        """Return the address of a queue in the test's schema."""
        return self.backend.queue(name)
