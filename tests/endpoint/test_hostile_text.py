"""Messages from strangers: whatever their ids, headers and bodies hold, an endpoint's log is its own, line by line."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

import rowbus
from rowbus.errors.strangers import LONGEST_TRACEBACK
from rowbus.messages.headers import Header
from rowbus.messages.malformed_headers import MALFORMED_PREFIX
from tests.conformance.endpoints import ERROR, NO_RETRIES, Endpoints, PlaceOrder
from tests.conformance.transport import eventually, headers_text

if TYPE_CHECKING:
    from collections.abc import Iterator

FORGED = "2026-01-01 00:00:00,000 ERROR rowbus.endpoint: all is lost"
EVIL = f"m-1\n{FORGED}\r\x1b]0;owned\x07\x1b[2J\u202egnp.exe\u2028\x9b31m"
KNOWN = "Shop.Messages.PlaceOrder"
RECORD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ rowbus\.\w+: ")

ATTACKS = {
    "its id": headers_text(NServiceBus__MessageId=EVIL, NServiceBus__EnclosedMessageTypes=KNOWN),
    "its type": headers_text(NServiceBus__EnclosedMessageTypes=EVIL),
    "where it wants the reply": headers_text(
        NServiceBus__EnclosedMessageTypes=KNOWN, NServiceBus__ReplyToAddress=EVIL
    ),
    "a correlation id": headers_text(
        NServiceBus__EnclosedMessageTypes=KNOWN, NServiceBus__CorrelationId=EVIL
    ),
    "headers that are none": EVIL,
    "a number as header": json.dumps({EVIL: 1}),
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Give what a handler writes that knows nothing of ours."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("rowbus")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_message_forges_no_line_of_the_log(
    endpoints: Endpoints, log: io.StringIO, attack: str
) -> None:
    sales = failing_sales(endpoints)
    async with sales:
        await endpoints.backend.insert(
            sales.address, ATTACKS[attack], json.dumps({"order_id": EVIL}).encode()
        )
        await eventually_moved(endpoints)

    assert_that_records_are_lines(log.getvalue())


async def test_a_message_cannot_make_the_log_long(endpoints: Endpoints, log: io.StringIO) -> None:
    long = "x" * 200_000
    headers = headers_text(NServiceBus__MessageId=long, NServiceBus__EnclosedMessageTypes=KNOWN)
    sales = failing_sales(endpoints)
    async with sales:
        await endpoints.backend.insert(sales.address, headers, json.dumps({"order_id": long}).encode())
        await eventually_moved(endpoints)

    assert max(map(len, log.getvalue().splitlines())) < 3_000
    assert len(log.getvalue()) < 3 * LONGEST_TRACEBACK


async def test_the_error_queue_keeps_a_malformed_id_under_another_name(
    endpoints: Endpoints, log: io.StringIO
) -> None:
    sales = failing_sales(endpoints)
    async with sales:
        await endpoints.backend.insert(sales.address, ATTACKS["its id"], b'{"order_id":"1"}')
        await eventually_moved(endpoints)

    (row,) = await endpoints.backend.rows(ERROR)
    assert row.headers[f"{MALFORMED_PREFIX}{Header.MESSAGE_ID}"] == EVIL
    assert UUID(row.headers[Header.MESSAGE_ID] or "").version == 5
    assert "m-1\\n2026-01-01" in log.getvalue()


def failing_sales(endpoints: Endpoints) -> rowbus.Endpoint:
    sales = endpoints.make("Sales", recoverability=NO_RETRIES)

    @sales.handler
    async def place(message: PlaceOrder, context: rowbus.Context) -> None:
        await context.reply(message)  # to whatever address it gave
        raise ValueError(f"Order {message.order_id} of {context.message_id} is refused")

    return sales


async def eventually_moved(endpoints: Endpoints) -> None:
    async def moved() -> bool:
        return await endpoints.backend.count(ERROR) == 1 and await endpoints.backend.count("Sales") == 0

    await eventually(moved)


def assert_that_records_are_lines(written: str) -> None:
    """Check that each line is a record, or belongs to the traceback of the one before, and controls nothing."""
    lines = written.split("\n")
    assert all(line.isprintable() for line in lines)
    assert not [line for line in lines if line.startswith(FORGED)]
    assert [line for line in lines if RECORD.match(line)]
