"""Failures, as `behaviours.md` lists them: what the error policy is told, and what becomes of the message."""

from __future__ import annotations

import asyncio
import logging

import pytest

from rowbus.messages.dispatch import Send
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery
from tests.conformance.transport import (
    A_WHILE,
    SimulatedError,
    Transport,
    eventually,
    failing,
    handled,
    in_all_modes_failing,
    in_transaction_modes_failing,
    within,
)


class FailingTimes:
    """A handler that fails so many times; it keeps a copy of the headers of each attempt."""

    def __init__(self, times: int) -> None:
        self.attempts: list[dict[str, str | None]] = []
        self.errors = [SimulatedError(f"failure {number}") for number in range(1, times + 1)]

    async def __call__(self, delivery: Delivery) -> None:
        self.attempts.append(dict(delivery.headers))
        if len(self.attempts) <= len(self.errors):
            raise self.errors[len(self.attempts) - 1]


FOR_EVER = 20_000  # failures: so many happen in a second or two, if nobody else is ever let in


async def retry_always(failed: FailedDelivery) -> ErrorResult:
    return ErrorResult.RETRY_REQUIRED


@in_all_modes_failing
async def test_when_on_message_throws(transport: Transport) -> None:
    handler = FailingTimes(1)
    await transport.start(handler, handled)

    await transport.send(b"body", {"MyHeader": "MyValue"})

    await transport.wait_until_empty()
    await eventually(lambda: len(transport.failures) == 1)
    (failed,) = transport.failures
    assert failed.error is handler.errors[0]
    assert failed.failures == 1
    assert failed.delivery.headers == {"MyHeader": "MyValue"}
    assert failed.delivery.body == b"body"
    assert len(handler.attempts) == 1


@in_transaction_modes_failing
async def test_when_requesting_immediate_retry(transport: Transport) -> None:
    handler = FailingTimes(1)
    await transport.start(handler, retry_always)

    await transport.send()

    await transport.wait_until_empty()
    assert len(handler.attempts) == 2
    assert [failed.failures for failed in transport.failures] == [1]


@in_transaction_modes_failing
async def test_when_on_message_throws_after_immediate_retry(transport: Transport) -> None:
    handler = FailingTimes(3)

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        return ErrorResult.HANDLED if failed.failures == 3 else ErrorResult.RETRY_REQUIRED

    await transport.start(handler, on_error)
    await transport.send()

    await transport.wait_until_empty()
    assert [failed.failures for failed in transport.failures] == [1, 2, 3]
    assert [failed.error for failed in transport.failures] == handler.errors


@in_transaction_modes_failing
async def test_when_on_message_throws_after_delayed_retry(transport: Transport) -> None:
    handler = FailingTimes(3)

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        if len(transport.failures) == 1:
            return ErrorResult.RETRY_REQUIRED
        if len(transport.failures) == 2:
            copy = OutgoingMessage({**failed.delivery.headers, "Copy": "yes"}, failed.delivery.body)
            failed.delivery.send(Send(transport.address, copy))
        return ErrorResult.HANDLED

    await transport.start(handler, on_error)
    await transport.send(headers={"MyHeader": "MyValue"})

    await eventually(lambda: len(transport.failures) == 3)
    await transport.wait_until_empty()
    assert [failed.failures for failed in transport.failures] == [1, 2, 1]
    assert transport.failures[2].delivery.headers == {"MyHeader": "MyValue", "Copy": "yes"}


@in_transaction_modes_failing
async def test_when_on_error_throws(transport: Transport, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "rowbus")
    transport.expects_critical = True
    handler, trouble, ids = FailingTimes(1), SimulatedError("the policy failed"), list[str]()

    async def on_message(delivery: Delivery) -> None:
        ids.append(delivery.id)
        await handler(delivery)

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        raise trouble

    await transport.start(on_message, on_error)
    await transport.send()

    await transport.wait_until_empty()
    assert len(handler.attempts) == 2
    text = f"Failed to execute recoverability policy for message with native ID: `{ids[0]}`"
    assert transport.critical == [(text, trouble)]
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def _change(delivery: Delivery) -> None:
    delivery.headers["MyHeader"] = "changed"
    delivery.headers["Another"] = "added"


@in_all_modes_failing
async def test_when_modifying_headers_before_on_error(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        _change(delivery)
        raise SimulatedError

    await transport.start(on_message, handled)
    await transport.send(headers={"MyHeader": "original"})

    await eventually(lambda: len(transport.failures) == 1)
    assert transport.failures[0].delivery.headers == {"MyHeader": "original"}


@in_transaction_modes_failing
async def test_when_modifying_headers_before_retry(transport: Transport) -> None:
    handler = FailingTimes(1)

    async def on_message(delivery: Delivery) -> None:
        try:
            await handler(delivery)
        finally:
            _change(delivery)

    await transport.start(on_message, retry_always)
    await transport.send(headers={"MyHeader": "original"})

    await transport.wait_until_empty()
    assert handler.attempts == [{"MyHeader": "original"}] * 2


@in_transaction_modes_failing
async def test_when_modifying_headers_in_on_error(transport: Transport) -> None:
    handler = FailingTimes(1)

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        _change(failed.delivery)
        return ErrorResult.RETRY_REQUIRED

    await transport.start(handler, on_error)
    await transport.send(headers={"MyHeader": "original"})

    await transport.wait_until_empty()
    assert handler.attempts == [{"MyHeader": "original"}] * 2


@in_all_modes_failing
async def test_when_setting_context_items(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        assert delivery.items == {}
        delivery.items["key"] = "value"
        raise SimulatedError

    await transport.start(on_message, handled)
    await transport.send()

    await eventually(lambda: len(transport.failures) == 1)
    assert transport.failures[0].delivery.items == {"key": "value"}


# --- beyond the list


@pytest.mark.passes_over_locked
@in_transaction_modes_failing
async def test_a_policy_that_always_fails_holds_up_no_other_and_its_message_is_set_aside(
    transport: Transport,
) -> None:
    transport.expects_critical = True
    others: asyncio.Queue[Delivery] = asyncio.Queue()

    async def on_message(delivery: Delivery) -> None:
        if "Bad" in delivery.headers:
            raise SimulatedError
        await others.put(delivery)

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        raise SimulatedError

    await transport.start(on_message, on_error)
    await transport.send(headers={"Bad": "yes"})
    await transport.send()

    await within(others.get())
    await transport.wait_until_empty()
    assert 3 <= len(transport.failures) < 10
    assert await transport.backend.count(transport.error_queue) == 1


@in_transaction_modes_failing
async def test_a_message_retried_for_ever_goes_back_to_its_queue_when_the_receiver_stops(
    transport: Transport,
) -> None:
    async def on_error(failed: FailedDelivery) -> ErrorResult:
        return ErrorResult.HANDLED if failed.failures > FOR_EVER else ErrorResult.RETRY_REQUIRED

    await transport.start(failing, on_error)
    await transport.send()
    await eventually(lambda: len(transport.failures) > 20)

    await within(transport.stop())

    assert await transport.backend.count(transport.address) == 1


@in_all_modes_failing
async def test_a_handler_that_is_cancelled_from_within_has_failed(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        raise asyncio.CancelledError

    await transport.start(on_message, handled)
    await transport.send()

    await transport.wait_until_empty()
    await eventually(lambda: len(transport.failures) == 1)
    assert isinstance(transport.failures[0].error, asyncio.CancelledError)


@pytest.mark.parametrize("result", list(ErrorResult), ids=lambda result: str(result.name))
@in_transaction_modes_failing
async def test_a_message_that_expires_between_its_attempts_is_judged_before_it_is_forgotten(
    transport: Transport, result: ErrorResult
) -> None:
    attempts: list[str] = []

    async def on_message(delivery: Delivery) -> None:
        attempts.append(delivery.id)
        await asyncio.sleep(A_WHILE)
        raise SimulatedError

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        return ErrorResult.HANDLED if failed.failures > 1 else result

    await transport.start(on_message, on_error)
    await transport.backend.insert(transport.address, "{}", expires_in=A_WHILE)

    await transport.wait_until_empty()
    if attempts:  # on a machine that is busy it may expire before the first
        assert len(transport.failures) == len(attempts) == 1
