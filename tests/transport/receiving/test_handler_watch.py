"""Handlers that run for long are warned of, by name, message and since when; those that are new are left alone."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from rowbus.messages.address import QueueAddress
from rowbus.messages.message import MessageRow
from rowbus.running.critical import Alarm
from rowbus.running.telemetry import instruments
from rowbus.transport.receiving.handler_watch import HandlerWatch, is_slow
from tests.fixtures.every import every

HEADERS = '{"NServiceBus.MessageId": "the id", "NServiceBus.EnclosedMessageTypes": "Shop.Order"}'
SALES = QueueAddress("public", "Sales")


class Slot:
    """A slot with a message in hand."""

    called: MessageRow | None = MessageRow("7", None, HEADERS, b"{}", 1)


@every(
    "seconds, warnings, slow",
    [(29.9, 0, False), (30.0, 0, True), (31.0, 1, False), (300.0, 1, True), (2999.0, 2, False)],
)
def test_a_call_is_slow_after_half_a_minute_and_then_ten_times_later(
    seconds: float, warnings: int, *, slow: bool
) -> None:
    assert is_slow(seconds, warnings) is slow


async def test_a_slow_handler_is_named_with_its_message_and_measured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slot, now = Slot(), [0.0]
    receiver: Any = SimpleNamespace(address=SALES, at_work={0: slot})
    alarm = Alarm(lambda *_: None)
    nobody: Any = None
    watch = HandlerWatch(
        "Sales",
        lambda: [receiver],
        lambda types: [SimpleNamespace(name=f"shop.handle {types}")],
        pool=nobody,
        pauses=None,
        alarm=alarm,
        clock=lambda: now[0],
    )
    monkeypatch.setattr(watch, "pause", _at_once)
    measured = instruments.turn_on()

    try:
        with caplog.at_level(logging.WARNING, logger="rowbus.receiving"):
            await watch.work()
            now[0] = 29.0
            await watch.work()
            early = list(caplog.messages)
            now[0] = 31.0
            await watch.work()
            await watch.work()
            longest = measured.longest_in_hand.values["Sales",]
            slot.called = None
            await watch.work()
            after = measured.longest_in_hand.values["Sales",]
    finally:
        instruments.turn_off()

    (said,) = caplog.messages
    assert early == []
    assert said.startswith("Message 'the id' (Shop.Order in shop.handle Shop.Order) is in hand since ")
    assert "for 31 s" in said
    assert (longest, after) == (31.0, 0.0)


async def _at_once(_seconds: float) -> None:
    """Wait for nothing."""
