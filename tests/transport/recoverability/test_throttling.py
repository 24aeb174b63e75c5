"""An endpoint whose messages all fail slows down, and is back at its pace with the first success."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.endpoint.steps.throttle import Throttle
from rowbus.settings import EndpointSettings
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import SimulatedError, eventually, within
from tests.fixtures.every import every

if TYPE_CHECKING:
    from rowbus.transport.receiving.receiver import Receiver

PAUSE = timedelta(milliseconds=100)


@every(
    "fates, set_to",
    [
        ("failed failed failed succeeded succeeded", [1, 4]),
        ("failed succeeded failed", []),  # a success in between begins the count anew
    ],
)
async def test_a_throttle_begins_with_so_many_failures_in_a_row_and_ends_with_a_success(
    fates: str, set_to: list[int]
) -> None:
    settings = EndpointSettings(concurrency=4, throttle_after_failures=2, throttle_delay=timedelta())
    seen: list[int] = []
    throttle = Throttle(settings, seen.append, ())
    act: dict[str, Any] = {"failed": throttle.on_error(nothing), "succeeded": throttle.around(nothing)}

    for fate in fates.split():
        await act[fate](None)
    assert seen == set_to


async def nothing(_given: object) -> Any:  # noqa: ANN401 - no result is looked at
    """Handle a message, or decide about a failed one."""


class Failing:
    """An endpoint whose handler fails until it is repaired."""

    def __init__(self, endpoints: Endpoints, *, throttle_delay: timedelta = PAUSE) -> None:
        self.endpoints = endpoints
        self.broken = True
        self.at: list[float] = []
        self.endpoint = endpoints.make(
            "Sales",
            recoverability=rowbus.Recoverability(immediate=1000, delayed=0),
            concurrency=4,
            throttle_after_failures=3,
            throttle_delay=throttle_delay,
        )

        @self.endpoint.handler
        async def place(message: PlaceOrder) -> None:
            self.at.append(time.monotonic())
            if self.broken:
                raise SimulatedError

    @property
    def receiver(self) -> Receiver:
        assert self.endpoint._lifetime.run is not None
        return self.endpoint._lifetime.run._receivers[0]

    async def is_empty(self) -> bool:
        return await self.endpoints.backend.count("Sales") == 0


@pytest.mark.one_version
async def test_after_so_many_failures_in_a_row_an_endpoint_waits_before_it_tries_again(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    failing = Failing(endpoints)

    async with failing.endpoint:
        await failing.endpoint.send("Sales", PlaceOrder("1"))
        await eventually(lambda: len(failing.at) >= 5)
        assert failing.receiver.concurrency == 1
        failing.broken = False
        await eventually(failing.is_empty)
        assert failing.receiver.concurrency == 4

    waits = [later - earlier for earlier, later in zip(failing.at, failing.at[1:], strict=False)]
    assert all(wait < 0.09 for wait in waits[:2])
    assert all(wait >= 0.099 for wait in waits[2:5])
    assert "Message after message fails" in caplog.text
    assert "A message succeeded; 4 are processed at a time again" in caplog.text


@pytest.mark.one_version
async def test_who_observes_an_endpoint_hears_what_becomes_of_failures(endpoints: Endpoints) -> None:
    critical: list[str] = []
    sales = endpoints.make(
        "Sales",
        recoverability=rowbus.Recoverability(immediate=2, delayed=0),
        on_critical_error=lambda text, _error: critical.append(text),
        throttle_after_failures=2,
        throttle_delay=timedelta(),
    )
    seen: list[object] = []
    told = [True, rowbus.MoveToErrorQueue(), rowbus.ImmediateRetry(), rowbus.ImmediateRetry(), False]

    @sales.handler
    def place(message: PlaceOrder) -> None:
        if message.order_id == "bad":
            raise rowbus.CriticalError("the bank closed the account")

    @sales.observe
    def break_down(event: object) -> None:
        raise SimulatedError

    @sales.observe
    def note(event: rowbus.Decision | rowbus.Throttling) -> None:
        seen.append(event.verdict if isinstance(event, rowbus.Decision) else event.is_active)

    async with sales:
        await sales.send("Sales", PlaceOrder("bad"))
        await eventually(lambda: len(seen) == 4)
        await endpoints.backend.insert(sales.address, "null")
        await eventually(lambda: len(seen) == 5)
        await sales.send("Sales", PlaceOrder("good"))
        await eventually(lambda: len(seen) == 6)
    assert sorted(map(repr, seen)) == sorted(map(repr, [*told, rowbus.MoveToErrorQueue()]))
    assert seen[-1] is False
    assert critical == ["the bank closed the account"] * 3


@pytest.mark.one_version
async def test_a_concurrency_set_while_throttled_counts_afterwards(endpoints: Endpoints) -> None:
    failing = Failing(endpoints)

    async with failing.endpoint:
        await failing.endpoint.send("Sales", PlaceOrder("1"))
        await eventually(lambda: failing.receiver.concurrency == 1)
        failing.endpoint.change_concurrency(7)
        assert failing.receiver.concurrency == 1
        failing.broken = False
        await eventually(failing.is_empty)
        assert failing.receiver.concurrency == 7


@pytest.mark.one_version
async def test_a_stop_does_not_wait_for_the_pause(endpoints: Endpoints) -> None:
    failing = Failing(endpoints, throttle_delay=timedelta(hours=1))

    async with failing.endpoint:
        await failing.endpoint.send("Sales", PlaceOrder("1"))
        await eventually(lambda: failing.receiver.concurrency == 1)
        await within(failing.endpoint.stop())

    assert await endpoints.backend.count("Sales") == 1


@pytest.mark.one_version
async def test_by_default_nothing_throttles(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=rowbus.Recoverability(immediate=50, delayed=0))
    attempts = 0

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        nonlocal attempts
        attempts += 1
        raise SimulatedError

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(
            lambda: attempts == 51
        )  # throttled, a second for each, it would take longer than this waits
