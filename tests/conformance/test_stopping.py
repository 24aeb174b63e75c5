"""Stopping: a graceful stop waits, an impatient one cancels, and neither loses anything.

The list of behaviours: tests/conformance/behaviours.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery
from tests.conformance.transport import (
    A_WHILE,
    NONE,
    Transport,
    eventually,
    failing,
    in_all_modes,
    in_all_modes_failing,
    never,
    within,
)

pytestmark = pytest.mark.one_version


async def stop_with_a_timeout(transport: Transport) -> None:
    await within(transport.stop(A_WHILE / 5))


async def cancel_the_stop(transport: Transport) -> None:
    stopping = asyncio.create_task(transport.stop())
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(stopping)


impatiently = pytest.mark.parametrize("stop", [stop_with_a_timeout, cancel_the_stop])
Stop = Callable[[Transport], Awaitable[None]]


class Held:
    """A callback that stays inside until it is released, and notes whether it was cancelled."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.released = asyncio.Event()
        self.cancelled = False
        self.finished = False

    async def hold(self) -> None:
        self.entered.set()
        try:
            await within(self.released.wait())
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.finished = True

    async def on_message(self, delivery: Delivery) -> None:
        await self.hold()

    async def on_error(self, failed: FailedDelivery) -> ErrorResult:
        await self.hold()
        return ErrorResult.HANDLED


async def assert_that_stopping_waits_for(held: Held, transport: Transport) -> None:
    await within(held.entered.wait())
    stopping = asyncio.create_task(transport.stop())
    await never(stopping.done)
    held.released.set()
    await within(stopping)
    assert (held.finished, held.cancelled) == (True, False)
    assert await transport.backend.count(transport.address) == 0


@in_all_modes
async def test_when_stopping_on_message(transport: Transport) -> None:
    held = Held()
    await transport.start(held.on_message)
    await transport.send()

    await assert_that_stopping_waits_for(held, transport)


@in_all_modes_failing
async def test_when_stopping_on_error(transport: Transport) -> None:
    held = Held()
    await transport.start(failing, held.on_error)
    await transport.send()

    await assert_that_stopping_waits_for(held, transport)


@impatiently
@in_all_modes
async def test_when_cancelling_stop_on_message(transport: Transport, stop: Stop) -> None:
    held = Held()
    await transport.start(held.on_message)
    await transport.send()
    await within(held.entered.wait())

    await stop(transport)

    assert held.cancelled


@impatiently
@in_all_modes_failing
async def test_when_cancelling_stop_on_error(transport: Transport, stop: Stop) -> None:
    held = Held()
    await transport.start(failing, held.on_error)
    await transport.send()
    await within(held.entered.wait())

    await stop(transport)

    assert held.cancelled


@impatiently
@in_all_modes_failing
async def test_when_stop_canceled_on_message(transport: Transport, stop: Stop) -> None:
    """No recoverability: the message is back as if never tried (mode None: it is lost)."""
    held = Held()
    await transport.start(held.on_message)
    await transport.send()
    await within(held.entered.wait())

    await stop(transport)

    assert transport.failures == []
    assert await transport.backend.count(transport.address) == (0 if transport.case == NONE else 1)


@impatiently
@in_all_modes_failing
async def test_when_stop_canceled_on_error(transport: Transport, stop: Stop) -> None:
    """No critical error: `Transport.close` would complain of one."""
    held = Held()
    await transport.start(failing, held.on_error)
    await transport.send()
    await within(held.entered.wait())

    await stop(transport)

    assert transport.critical == []
    assert await transport.backend.count(transport.address) == (0 if transport.case == NONE else 1)


@in_all_modes
async def test_when_starting_again(transport: Transport) -> None:
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put)
    await transport.stop()
    await transport.send()
    await never(lambda: not received.empty())

    await transport.receiver.start()

    await within(received.get())
    await transport.wait_until_empty()


# --- beyond the list


@in_all_modes
async def test_stopping_and_starting_twice_is_harmless(transport: Transport) -> None:
    received: asyncio.Queue[Delivery] = asyncio.Queue()
    await transport.start(received.put)
    await transport.receiver.start()
    await transport.send()
    await within(received.get())

    await transport.stop()
    await transport.stop()
    await transport.receiver.start()
    await transport.send()

    await within(received.get())
    await transport.wait_until_empty()
    assert received.empty()


@in_all_modes
async def test_a_message_that_was_interrupted_is_received_after_the_next_start(transport: Transport) -> None:
    held = Held()
    await transport.start(held.on_message)
    await transport.send()
    await within(held.entered.wait())
    await transport.stop(0)
    await transport.send()

    held.released.set()
    await transport.receiver.start()

    await transport.wait_until_empty()
    await eventually(lambda: held.finished)


@in_all_modes
async def test_nothing_is_received_once_a_stop_has_begun(transport: Transport) -> None:
    held = Held()
    await transport.start(held.on_message, concurrency=1)
    await transport.send_numbered(10)
    await within(held.entered.wait())
    stopping = asyncio.create_task(transport.stop())
    await asyncio.sleep(0)

    held.released.set()
    await within(stopping)

    assert await transport.backend.count(transport.address) == 9
