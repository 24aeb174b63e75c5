"""A handler that blocks the event loop is named in the log, while it does."""

from __future__ import annotations

import logging
import threading

import pytest

import rowbus
from tests.conformance.endpoints import Endpoints, PlaceOrder
from tests.conformance.transport import eventually

PATIENCE = 60.0


class Told(logging.Handler):
    """Notes who blocks, and tells who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "blocks the event loop" in record.getMessage():
            self.texts.append(record.getMessage())
            self.event.set()


@pytest.mark.only("PostgreSQL", reason="nothing of it is the database's")
async def test_a_handler_that_blocks_the_loop_is_named(endpoints: Endpoints) -> None:
    sales, told = endpoints.make("Sales"), Told()
    handled = list[bool]()

    @sales.handler
    async def place(_order: PlaceOrder, _context: rowbus.Context) -> None:
        handled.append(told.event.wait(PATIENCE))

    logger = logging.getLogger("rowbus.endpoint")
    logger.addHandler(told)
    try:
        async with sales:
            await sales.send("Sales", PlaceOrder("1"))
            await eventually(lambda: bool(handled), PATIENCE)
    finally:
        logger.removeHandler(told)
    line = place.__code__.co_firstlineno + 2
    assert handled == [True]
    assert told.texts == [
        f"{__name__}.test_a_handler_that_blocks_the_loop_is_named.<locals>.place blocks the event loop for more than a "  # noqa: ISC004
        f"second, and with it all other handlers, at {__file__}, line {line}. Await what it waits for, or make it a "
        "`def`, which runs in a thread"
    ]
