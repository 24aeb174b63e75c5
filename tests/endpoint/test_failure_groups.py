"""Failures of handlers, however they run: in ServicePulse each function has one group, named after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.messages.headers import Header
from tests.conformance.endpoints import ERROR, NO_RETRIES, PlaceOrder
from tests.conformance.transport import SENDS_ATOMIC, eventually
from tests.transport.recoverability.servicecontrol_groups import group_of_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.endpoints import Endpoints

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.parametrize("case", [SENDS_ATOMIC], ids=str),
]


def price_of(order_id: str) -> None:
    raise KeyError(order_id)


async def place_in_turn(message: PlaceOrder) -> None:
    await asyncio.sleep(0)
    price_of(message.order_id)


def place_in_a_thread(message: PlaceOrder) -> None:
    price_of(message.order_id)


async def place_with_a_cause(message: PlaceOrder) -> None:
    try:
        price_of(message.order_id)
    except KeyError as error:
        raise ValueError("no price") from error


async def fail_itself(message: PlaceOrder) -> None:
    raise TypeError(message.order_id)


async def send_nonsense(message: PlaceOrder, context: rowbus.Context) -> None:
    await context.send("", message)


def send_nonsense_from_a_thread(message: PlaceOrder, context: rowbus.SyncContext) -> None:
    context.send("", message)


async def write_nonsense(_message: PlaceOrder, context: rowbus.Context) -> None:
    await context.connection.execute("select from where")


async def failures(endpoints: Endpoints, handler: object, batch_size: int) -> list[Mapping[str, str | None]]:
    """Have three orders fail and return the headers of their copies."""
    sales = endpoints.make(
        "Sales",
        recoverability=NO_RETRIES,
        batch_size=batch_size,
        concurrency=1 if batch_size > 1 else 2,
    )
    sales.handler(handler)  # type: ignore[call-overload]
    await sales.start()
    for number in range(3):
        await sales.send("Sales", PlaceOrder(f"order {number}"))

    async def all_failed() -> bool:
        return await endpoints.backend.count(ERROR) == 3

    await eventually(all_failed)
    return [row.headers for row in await endpoints.backend.rows(ERROR)]


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize(
    "handler, kind, function",
    [
        (place_in_turn, "KeyError", "price_of"),
        (place_in_a_thread, "KeyError", "price_of"),
        (place_with_a_cause, "ValueError", "price_of"),
        (fail_itself, "TypeError", "fail_itself"),
        (send_nonsense, "rowbus.errors.InvalidAddressError", "send_nonsense"),
        (send_nonsense_from_a_thread, "rowbus.errors.InvalidAddressError", "send_nonsense_from_a_thread"),
        (write_nonsense, "psycopg.errors.SyntaxError", "write_nonsense"),
    ],
)
async def test_the_failures_of_a_function_are_one_group_named_after_it(
    endpoints: Endpoints, handler: object, kind: str, function: str, batch_size: int
) -> None:
    if function == "write_nonsense" and endpoints.backend.name != "PostgreSQL":
        pytest.skip("another driver, another exception")
    groups = {group_of_headers(headers) for headers in await failures(endpoints, handler, batch_size)}

    assert groups == {f"{kind}: {__name__}.{function}()"}


async def test_a_failure_before_any_handler_is_named_after_a_line_of_ours(endpoints: Endpoints) -> None:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)
    await sales.start()
    await sales.send("Sales", PlaceOrder("42"))

    async def failed() -> bool:
        return await endpoints.backend.count(ERROR) == 1

    await eventually(failed)
    [row] = await endpoints.backend.rows(ERROR)
    assert group_of_headers(row.headers) == (
        "rowbus.errors.UnknownMessageTypeError: rowbus.endpoint.handlers.Plans._find()"
    )
    assert row.headers["NServiceBus.ExceptionInfo.Data.Pipeline canceled"] == "False"


async def test_the_copy_says_when_the_handler_began_and_that_nothing_was_cancelled(
    endpoints: Endpoints,
) -> None:
    [headers, *_] = await failures(endpoints, place_in_turn, 1)

    data = {
        name.removeprefix(Header.EXCEPTION_DATA_PREFIX): value
        for name, value in headers.items()
        if name.startswith(Header.EXCEPTION_DATA_PREFIX)
    }
    assert set(data) == {
        "Message ID",
        "Transport message ID",
        "Message type",
        "Handler type",
        "Handler start time",
        "Handler failure time",
        "Handler canceled",
        "Pipeline canceled",
        "Traceback",
    }
    assert (data["Handler start time"] or "") <= (data["Handler failure time"] or "")
    assert data["Handler canceled"] == data["Pipeline canceled"] == "False"
    assert headers[Header.EXCEPTION_SOURCE] == "tests"
