"""One search finds a key wherever a message or a saga holds it, and says what it did not look into."""

from __future__ import annotations

from datetime import timedelta

from rowbus.web.settings import WebSettings
from tests.fixtures.command_line import CommandLine
from tests.web.conftest import browser
from tests.web.failures import ErrorQueue, text_of
from tests.web.shop import SALES, Shop
from tests.web.test_processes import begin

HAS_SHOP = True  # in `database`


async def test_a_key_is_found_in_every_place(database: str, rowbus: CommandLine) -> None:
    assert rowbus("queue", "create", "error", "audit").returncode == 0
    shop = Shop(database)
    shop.delay(timedelta(hours=1), "A-17")
    begin(database, "A-17", "B-1")
    queue = ErrorQueue(database)
    for to in ("error", "Sales", "audit"):
        queue.add(f"in {to}", to=to, body=b'{"order": "A-17", "card": "4111"}')
    queue.connection.close()
    async with browser(database, WebSettings(period=0.05)) as client:
        await client.get("/")
        shown = (await client.get("/search", params={"text": "A-17"})).text
        nothing = text_of((await client.get("/search", params={"text": "no such <b>"})).text)
    with shop.viewing(SALES) as dsn:
        async with browser(dsn, WebSettings(period=0.05)) as client:
            await client.get("/")
            little = text_of((await client.get("/search", params={"text": "A-17"})).text)
    async with browser(database, WebSettings(mask=("$.card",))) as client:
        await client.get("/")
        masked = text_of((await client.get("/search", params={"text": "4111"})).text)

    for identity in ("in error", "in Sales", "in audit", "reminder-A-17"):
        assert f">{identity}<" in shown
    assert "/sagas/saga?" in shown
    assert "B-1" not in shown
    assert "Nothing holds no such &lt;b&gt;" in nothing
    assert "in Sales" in little
    assert "error this role may not read it" in little
    assert "Nothing holds 4111" in masked
