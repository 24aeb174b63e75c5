"""Sending: what leaves, when, and what becomes of it when something fails.

Source: docs/wire-format.md#dispatch. The two behaviours of the original that need a distributed transaction (a scope
that fails to complete) are here with what our modes have instead: a commit that fails, because a deferred constraint is
only checked then.
"""

from __future__ import annotations

import asyncio

import pytest

from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.settings import EndpointSettings, TransactionMode
from rowbus.transport.receiving.delivery import Delivery, ErrorResult, FailedDelivery
from tests.conformance.transport import (
    A_WHILE,
    NONE,
    SENDS_ATOMIC,
    SimulatedError,
    Transport,
    eventually,
    handled,
    in_all_modes,
    in_all_modes_failing,
    in_default_mode,
    in_transaction_modes_failing,
    retried,
)

OUTPUT, MISSING = "output", "missing"


@pytest.fixture(autouse=True)
async def output(transport: Transport) -> None:
    await transport.backend.create_queue(OUTPUT)


async def sent(transport: Transport) -> list[bytes | None]:
    return [row.body for row in await transport.backend.rows(OUTPUT)]


@in_all_modes_failing
async def test_when_sending_from_on_error(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        raise SimulatedError

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        failed.delivery.send(transport.to(OUTPUT))
        return ErrorResult.HANDLED

    await transport.start(on_message, on_error)
    await transport.send()

    await transport.wait_for_rows(1, OUTPUT)
    await transport.wait_until_empty()


@in_all_modes_failing
async def test_when_failure_happens_after_send(transport: Transport) -> None:
    """The original promises this from SendsAtomicWithReceive up; here sends wait for the handler's success in all."""

    async def on_message(delivery: Delivery) -> None:
        delivery.send(transport.to(OUTPUT))
        raise SimulatedError

    await transport.start(on_message, handled)
    await transport.send()

    await transport.wait_until_empty()
    await eventually(lambda: len(transport.failures) == 1)
    await transport.stop()
    assert await sent(transport) == []


@in_all_modes_failing
async def test_when_failure_happens_after_isolated_send(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        await delivery.send_now(transport.to(OUTPUT))
        raise SimulatedError

    await transport.start(on_message, handled)
    await transport.send()

    await transport.wait_until_empty()
    await transport.stop()
    assert await sent(transport) == [b"sent"]


@in_transaction_modes_failing
async def test_isolated_sends_are_repeated_with_every_attempt_and_others_are_not(
    transport: Transport,
) -> None:
    async def on_message(delivery: Delivery) -> None:
        await delivery.send_now(transport.to(OUTPUT, body=b"at once"))
        delivery.send(transport.to(OUTPUT, body=b"at the end"))
        if len(transport.failures) < 2:
            raise SimulatedError

    await transport.start(on_message, retried)
    await transport.send()

    await transport.wait_until_empty()
    assert await sent(transport) == [b"at once"] * 3 + [b"at the end"]


def test_when_transaction_level_transaction_scope() -> None:
    with pytest.raises(
        ConfigurationError, match=r"distributed-transaction coordinator.*SENDS_ATOMIC_WITH_RECEIVE"
    ):
        EndpointSettings(transaction_mode=TransactionMode.TRANSACTION_SCOPE)


@in_transaction_modes_failing
async def test_when_scope_complete_throws(transport: Transport) -> None:
    await transport.backend.create_business_tables()
    await transport.start(transport.fail_at_commit, handled, **transport.alone)

    await transport.send()

    await transport.wait_until_empty()
    assert [failed.failures for failed in transport.failures] == [1]
    assert isinstance(transport.failures[0].error, transport.backend.error_at_commit)
    assert transport.backend.failure_at_commit in str(transport.failures[0].error)


@in_transaction_modes_failing
async def test_when_scope_throws_after_successful_message_processing(transport: Transport) -> None:
    await transport.backend.create_business_tables()

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        return ErrorResult.HANDLED if failed.failures == 2 else ErrorResult.RETRY_REQUIRED

    await transport.start(transport.fail_at_commit, on_error, **transport.alone)
    await transport.send()

    await transport.wait_until_empty()
    assert [failed.failures for failed in transport.failures] == [1, 2]


@in_transaction_modes_failing
async def test_what_a_failed_commit_undid_is_done_once_by_the_retry(transport: Transport) -> None:
    await transport.backend.create_business_tables()

    async def on_message(delivery: Delivery) -> None:
        await transport.backend.write(delivery.connection, f"attempt {len(transport.failures) + 1}")
        if not transport.failures:
            await transport.fail_at_commit(delivery)

    await transport.start(on_message, retried, **transport.alone)
    await transport.send()

    await transport.wait_until_empty()
    assert await transport.backend.business() == ["attempt 2"]


# --- a send that cannot be carried out


@in_all_modes_failing
async def test_a_send_to_a_missing_queue_is_a_failure_of_its_message(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        delivery.send(transport.to(OUTPUT), transport.to(MISSING))

    await transport.start(on_message, handled)
    await transport.send()

    await transport.wait_until_empty()
    await eventually(lambda: len(transport.failures) == 1)
    (failed,) = transport.failures
    assert failed.failures == 1
    assert isinstance(failed.error, QueueNotFoundError)
    assert failed.error.queue == str(transport.backend.queue(MISSING))
    assert f"Failed to send message to {transport.backend.queue(MISSING)}" in str(failed.error)
    await transport.stop()
    assert await sent(transport) == []


@in_transaction_modes_failing
async def test_a_send_to_a_missing_queue_undoes_what_the_handler_wrote_at_every_attempt(
    transport: Transport,
) -> None:
    await transport.backend.create_business_tables()

    async def on_message(delivery: Delivery) -> None:
        await transport.backend.write(delivery.connection, f"attempt {len(transport.failures) + 1}")
        delivery.send(transport.to(MISSING if len(transport.failures) < 2 else OUTPUT))

    await transport.start(on_message, retried)
    await transport.send()

    await transport.wait_until_empty()
    assert await transport.backend.business() == ["attempt 3"]
    assert await sent(transport) == [b"sent"]
    assert [failed.failures for failed in transport.failures] == [1, 2]


@in_all_modes
async def test_an_isolated_send_to_a_missing_queue_raises_in_the_handler(transport: Transport) -> None:
    caught: list[BaseException] = []

    async def on_message(delivery: Delivery) -> None:
        try:
            await delivery.send_now(transport.to(MISSING))
        except QueueNotFoundError as error:
            caught.append(error)
        delivery.send(transport.to(OUTPUT))

    await transport.start(on_message)
    await transport.send()

    await transport.wait_for_rows(1, OUTPUT)
    assert len(caught) == 1


# --- dispatch


@in_all_modes
async def test_equal_sends_of_one_handler_become_one_row_in_the_place_of_the_first(
    transport: Transport,
) -> None:
    async def on_message(delivery: Delivery) -> None:
        delivery.send(
            transport.to(OUTPUT, message_id="a", body=b"first a"),
            transport.to(OUTPUT, message_id="b", body=b"b"),
            transport.to(OUTPUT, message_id="a", body=b"last a"),
        )
        await delivery.send_now(transport.to(OUTPUT, message_id="a", body=b"isolated"))

    await transport.start(on_message)
    await transport.send()

    await transport.wait_until_empty()
    await transport.stop()
    assert await sent(transport) == [b"isolated", b"last a", b"b"]


@in_default_mode
async def test_a_dispatch_outside_a_handler_is_all_or_nothing(transport: Transport) -> None:
    with pytest.raises(QueueNotFoundError):
        await transport.dispatcher.dispatch(
            [transport.to(OUTPUT), transport.to(MISSING), transport.to(OUTPUT)]
        )
    assert await sent(transport) == []

    await transport.dispatcher.dispatch(
        [
            transport.to(OUTPUT, body=b"1"),
            transport.to(transport.address.table),
            transport.to(OUTPUT, body=b"2"),
        ]
    )
    assert await sent(transport) == [b"1", b"2"]
    assert await transport.backend.count(transport.address) == 1


@pytest.mark.parametrize("case", [NONE, SENDS_ATOMIC], ids=str)
async def test_many_sends_of_one_handler_keep_their_order(transport: Transport) -> None:
    async def on_message(delivery: Delivery) -> None:
        for number in range(100):
            delivery.send(transport.to(OUTPUT, body=str(number).encode()))

    await transport.start(on_message)
    await transport.send()

    await transport.wait_for_rows(100, OUTPUT)
    assert await sent(transport) == [str(number).encode() for number in range(100)]


async def test_nothing_sent_in_a_transaction_is_seen_before_its_commit(transport: Transport) -> None:
    seen: list[int] = []

    async def on_message(delivery: Delivery) -> None:
        delivery.send(transport.to(OUTPUT))
        seen.append(await transport.backend.count(OUTPUT))

    await transport.start(on_message)
    await transport.send()

    await transport.wait_for_rows(1, OUTPUT)
    assert seen == [0]


@in_transaction_modes_failing
async def test_a_message_whose_handler_met_a_database_error_is_in_nobody_elses_hands_until_it_has_failed(
    transport: Transport,
) -> None:
    """PostgreSQL lets go of an aborted transaction's locks at once, not when it is rolled back."""
    inside = most = 0

    async def on_message(delivery: Delivery) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        try:
            await transport.backend.fail(delivery.connection)
        finally:
            for _ in range(4):  # twice the peek delay, in which others look
                await asyncio.sleep(A_WHILE)
            inside -= 1

    async def on_error(failed: FailedDelivery) -> ErrorResult:
        return ErrorResult.HANDLED if failed.failures == 2 else ErrorResult.RETRY_REQUIRED

    await transport.start(on_message, on_error)
    await transport.send()

    await transport.wait_until_empty()
    assert most == 1
    assert [failed.failures for failed in transport.failures] == [1, 2]
