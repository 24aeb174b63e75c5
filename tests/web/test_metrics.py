"""`/metrics` of the page, as Prometheus asks for it."""

from __future__ import annotations

import pytest

from rowbus.errors import ConfigurationError
from rowbus.web.settings import WebSettings
from tests.fixtures.command_line import CommandLine
from tests.web.conftest import browser

TOKEN = "a-token-that-nobody-guesses-0123456789"


@pytest.mark.one_version
async def test_it_has_the_series_of_rowbus_metrics(database: str, rowbus: CommandLine) -> None:
    rowbus("queue", "create", "Sales")
    rowbus("queue", "send", "Sales", "{}", "--type", "Shop.PlaceOrder")
    rowbus("log", "install")
    rowbus("log", "create", "orders")

    async with browser(database) as client:
        answer = await client.get("/metrics")
    printed = rowbus("metrics").stdout

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'rowbus_queue_depth{queue="\\"public\\".\\"Sales\\"",kind="queue"} 1\n' in answer.text
    assert _names(answer.text) == _names(printed)


def _names(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("# TYPE")]


@pytest.mark.one_version
async def test_a_scrape_needs_the_token_or_somebody_signed_in(database: str) -> None:
    async with browser(database, WebSettings(metrics_token=TOKEN), enter=False) as client:
        for given in ({}, {"authorization": "Bearer "}, {"authorization": f"Bearer {TOKEN}x"}):
            answer = await client.get("/metrics", headers=given)
            assert answer.status_code == 401
            assert "rowbus_" not in answer.text
        with_token = {"authorization": f"Bearer {TOKEN}"}
        assert (await client.get("/metrics", headers=with_token)).status_code == 200
        assert (await client.get("/", headers=with_token)).status_code == 401  # it opens nothing else

    async with browser(database, enter=False) as client:
        assert (await client.get("/metrics", headers={"authorization": "Bearer "})).status_code == 401


@pytest.mark.one_version
async def test_a_database_that_is_away_is_a_gauge() -> None:
    async with browser("postgresql://ada:sesame@127.0.0.1:1/shop") as client:
        answer = await client.get("/metrics")

    assert answer.status_code == 200
    assert "rowbus_database_up 0\n" in answer.text
    assert "sesame" not in answer.text


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="32 characters"):
        WebSettings(metrics_token="guess")
