"""Messages that a mover of .NET's put into our queue, and those whose destination is missing."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import timedelta

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, OrderAccepted, PlaceOrder
from tests.conformance.transport import eventually, in_all_modes, in_transaction_modes_failing, within
from tests.transport.delayed.table import Delayed, headers_of

ACCEPTED = "Shop.Messages.OrderAccepted"


@in_all_modes
async def test_what_a_mover_of_net_put_into_our_queue_is_forwarded(
    endpoints: Endpoints, delayed: Delayed
) -> None:
    backend, handled = endpoints.backend, asyncio.Event()
    await backend.create_queue("Billing")
    sales = endpoints.make("Sales")

    @sales.handler
    async def accepted(message: OrderAccepted) -> None:
        handled.set()

    async with sales:
        await backend.insert(
            "Sales", _text(headers_of("1", ACCEPTED, endpoints.queue("Billing"))), b'{"order_id":"1"}'
        )

        async def forwarded() -> bool:
            return await backend.count("Billing") == 1

        await eventually(forwarded)
    (row,) = await backend.rows("Billing")
    assert Header.FORWARD_DESTINATION not in row.headers
    assert row.headers[Header.MESSAGE_ID] == "1"
    assert row.body == b'{"order_id":"1"}'
    assert not handled.is_set()
    assert await backend.count("Sales") == 0


async def test_what_a_mover_of_net_put_into_our_queue_for_ourselves_is_handled(endpoints: Endpoints) -> None:
    sales, handled = endpoints.make("Sales"), asyncio.Event()
    own = "Sales" if endpoints.backend.name == "PostgreSQL" else f"Sales@{endpoints.backend.schema}"

    @sales.handler
    async def accepted(message: OrderAccepted, context: rowbus.Context) -> None:
        assert Header.FORWARD_DESTINATION not in context.headers
        handled.set()

    async with sales:
        await endpoints.backend.insert("Sales", _text(headers_of("1", ACCEPTED, own)), b'{"order_id":"1"}')
        await within(handled.wait())


@in_transaction_modes_failing
async def test_forwarding_to_a_queue_that_is_missing_ends_in_the_error_queue_at_once(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    backend, sales = endpoints.backend, endpoints.make("Sales")

    async with sales:
        await backend.insert("Sales", _text(headers_of("1", ACCEPTED, endpoints.queue("Nowhere"))), b"{}")

        async def given_up() -> bool:
            return await backend.count(ERROR) == 1

        await eventually(given_up)
    (row,) = await backend.rows(ERROR)
    assert row.headers[Header.FAILED_QUEUE] == str(endpoints.queue("Nowhere"))
    assert Header.FORWARD_DESTINATION not in row.headers
    assert "Immediate Retry" not in caplog.text


@in_all_modes
async def test_a_delay_to_a_missing_queue_through_an_endpoint_names_it_in_the_error_queue(
    endpoints: Endpoints,
) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    async with sales:
        await sales.send("Nowhere", PlaceOrder("1"), delay=timedelta(milliseconds=20))

        async def given_up() -> bool:
            return await endpoints.backend.count(ERROR) == 1

        await eventually(given_up)
    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[Header.FAILED_QUEUE] == str(endpoints.queue("Nowhere"))
    assert row.headers[Header.PROCESSING_ENDPOINT] == "Sales"


def _text(headers: dict[str, str | None]) -> str:
    return json.dumps(headers)
