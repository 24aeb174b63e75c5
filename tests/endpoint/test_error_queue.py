"""When a message cannot even be given up on: the error queue is missing, or the policy or its callbacks fail."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Unpack

import pytest

import rowbus
from rowbus.messages.headers import Header
from rowbus.running import backoff
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.settings import Settings
from tests.conformance.transport import (
    RECEIVE_ONLY,
    RECEIVE_ONLY_ROLLBACK,
    SENDS_ATOMIC,
    SENDS_ATOMIC_ROLLBACK,
    Transport,
    eventually,
    handled,
    ignored,
    never,
)

pytestmark = [
    pytest.mark.only("PostgreSQL", reason="it looks into PostgreSQL's tables"),
    pytest.mark.one_version,
]

in_transaction_modes_failing = pytest.mark.parametrize(
    "case", [RECEIVE_ONLY, RECEIVE_ONLY_ROLLBACK, SENDS_ATOMIC, SENDS_ATOMIC_ROLLBACK], ids=str
)
QUICKLY = 0.05
KINDS = ["failing", "unreadable"]


@pytest.fixture
def quick_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a failure wait 50 ms instead of 1 s, and 10 s once critical."""
    monkeypatch.setattr(backoff, "WAIT_WHEN_ARMED", QUICKLY)
    monkeypatch.setattr(backoff, "WAIT_WHEN_TRIGGERED", QUICKLY)


class Broken:
    """An endpoint whose error queue somebody dropped, and one message that belongs there."""

    def __init__(self, endpoints: Endpoints, **settings: Unpack[Settings]) -> None:
        self.critical: list[str] = []
        self.backend = endpoints.backend
        self.endpoint = endpoints.make(
            "Sales",
            recoverability=NO_RETRIES,
            on_critical_error=lambda text, _error: self.critical.append(text),
            **settings,
        )
        self.others = 0
        self.takes = 0.0  # seconds that the handler takes until it fails

        @self.endpoint.handler
        async def place(message: PlaceOrder) -> None:
            if message.order_id == "bad":
                await asyncio.sleep(self.takes)
                raise ValueError
            self.others += 1

    async def start(self, kind: str) -> None:
        await self.endpoint.start()
        await self.backend.drop_queue(ERROR)
        if kind == "failing":
            await self.endpoint.send("Sales", PlaceOrder("bad"))
        else:
            await self.backend.insert(self.endpoint.address, "null")

    async def recreate(self) -> None:
        await self.backend.create_queue(ERROR)

    async def has_moved(self) -> bool:
        return await self.backend.count(ERROR) == 1 and await self.backend.count("Sales") == 0


def tries(caplog: pytest.LogCaptureFixture) -> int:
    return sum(
        "error queue" in record.getMessage() and record.levelno == logging.ERROR for record in caplog.records
    )


@in_transaction_modes_failing
@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_error_queue_neither_loses_the_message_nor_spins(
    endpoints: Endpoints, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(endpoints, concurrency=2)
    await broken.start(kind)
    await eventually(lambda: tries(caplog) >= 1)

    await never(lambda: tries(caplog) > 2, 0.5)  # each of the two slots tries, and then waits a second

    assert await endpoints.backend.count("Sales") == 1
    await endpoints.make("unused").stop()
    await broken.endpoint.stop(1)


@pytest.mark.usefixtures("quick_breakers")
@in_transaction_modes_failing
@pytest.mark.parametrize("kind", KINDS)
async def test_once_the_error_queue_is_there_again_the_message_moves_to_it(
    endpoints: Endpoints, kind: str
) -> None:
    broken = Broken(endpoints)
    await broken.start(kind)
    await broken.endpoint.send("Sales", PlaceOrder("good"))
    await eventually(lambda: broken.others == 1)

    await broken.recreate()

    await eventually(broken.has_moved)


@pytest.mark.usefixtures("quick_breakers")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_error_queue_becomes_a_critical_error_once(endpoints: Endpoints, kind: str) -> None:
    broken = Broken(endpoints, time_to_trigger_circuit_breaker=timedelta(milliseconds=150))
    await broken.start(kind)

    await eventually(lambda: len(broken.critical) == 1)
    await never(lambda: len(broken.critical) > 1, 0.3)

    assert broken.critical == ['Failed to receive from "public"."Sales"']
    await broken.recreate()
    await eventually(broken.has_moved)


@pytest.mark.usefixtures("quick_breakers")
async def test_that_other_slots_find_nothing_meanwhile_ends_no_outage(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(endpoints, concurrency=4, time_to_trigger_circuit_breaker=timedelta(milliseconds=150))
    broken.takes = QUICKLY  # the other slots look, and find nothing
    with caplog.at_level(logging.INFO, "rowbus.receiving"):
        await broken.start("failing")

        await eventually(lambda: len(broken.critical) == 1)
        await eventually(lambda: tries(caplog) > 10)

        assert "works again" not in caplog.text
        assert len(broken.critical) == 1
        await broken.recreate()
        await eventually(broken.has_moved)
        await eventually(lambda: "works again" in caplog.text)


@pytest.mark.usefixtures("quick_breakers")
@in_transaction_modes_failing
async def test_a_missing_queue_that_only_a_policy_sends_to_is_no_failure_of_the_message(
    endpoints: Endpoints,
) -> None:
    broken = Broken(endpoints)
    await broken.start("failing")
    await eventually(lambda: broken.endpoint._lifetime.run is not None)
    await asyncio.sleep(QUICKLY)
    await asyncio.sleep(QUICKLY)

    await broken.recreate()

    await eventually(broken.has_moved)
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.EXCEPTION_TYPE] == "ValueError"


@pytest.mark.usefixtures("quick_breakers")
async def test_a_critical_error_callback_that_fails_does_not_stop_the_receiving(transport: Transport) -> None:
    calls: list[str] = []

    def complain(text: str, error: BaseException) -> None:
        calls.append(text)
        raise ZeroDivisionError

    transport._on_critical = complain  # type: ignore[method-assign]  # a callback of the user's
    await transport.start(ignored, handled, time_to_trigger_circuit_breaker=timedelta(milliseconds=100))
    await transport.backend.execute("alter table input rename to away")
    await eventually(lambda: bool(calls))

    await transport.backend.execute("alter table away rename to input")
    await transport.send()

    await transport.wait_until_empty()
    assert calls == ['Failed to peek "public"."input"']


async def test_a_message_in_mode_none_that_cannot_be_moved_is_lost_and_logged(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    sales = endpoints.make("Sales", transaction_mode=rowbus.TransactionMode.NONE, recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        raise ValueError

    async with sales:
        await endpoints.backend.drop_queue(ERROR)
        await sales.send("Sales", PlaceOrder("bad"))
        await eventually(lambda: 'Failed to receive from "public"."Sales"' in caplog.text)
        await sales.stop(1)
    assert await endpoints.backend.count("Sales") == 0
