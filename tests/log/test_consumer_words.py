"""Words of a consumer about itself: that it runs, and that nothing ticks its log."""

from __future__ import annotations

import logging

import pytest

import rowbus
from rowbus.log.consumers import life
from tests.log.orders import QUICK, Orders, until


async def test_a_consumer_says_that_it_runs_and_that_its_log_has_no_ticker(
    orders: Orders, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(life, "WAIT", 0)
    caplog.set_level(logging.INFO, "rowbus.log")
    log = orders.log()

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None: ...

    async with log:
        await until(lambda: "No ticker" in caplog.text)

    said = [record.getMessage() for record in caplog.records if record.name == "rowbus.log"]
    assert said == [
        "orders/one is at work",
        "No ticker is at work on this database, so the consumers of log orders get no events: start `rowbus ticker`, "  # noqa: ISC004
        "unless pgqd or cron ticks it",
    ]
