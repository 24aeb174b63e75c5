"""Words of a consumer about itself: that it runs, that nothing ticks its log, and that it is not registered."""

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
    log, again = orders.log(), "start its program again, which registers it"

    @log.consumer("one", settings=QUICK)
    async def one(_event: rowbus.Event) -> None: ...

    async with log:
        await until(lambda: "No ticker" in caplog.text)
        assert log.unregister("one")
        await until(lambda: again in caplog.text)
        orders.register("one")
        await until(lambda: "works again" in caplog.text)

    said = [record.getMessage() for record in caplog.records if record.name == "rowbus.log"]
    failed = "orders/one failed; trying again until it works: Could not take a batch for orders/one"
    assert said[:3] == [
        "orders/one is at work",
        "No ticker is at work on this database, so the consumers of log orders get no events: start `rowbus ticker`, "  # noqa: ISC004
        "unless pgqd or cron ticks it",
        f"{failed}: Not subscriber to queue: orders/one. It was unregistered, or its log dropped: {again} from then on",
    ]
    assert said.count(said[0]) == 1
