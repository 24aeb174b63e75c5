"""One search finds a key wherever a message or a saga holds it, and says what it did not look into."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeVar

import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.database.statements import Statement
from rowbus.web import search
from rowbus.web.settings import WebSettings
from tests.fixtures.command_line import CommandLine
from tests.web.conftest import browser
from tests.web.failures import ErrorQueue, text_of
from tests.web.shop import SALES, Shop
from tests.web.test_processes import begin

T = TypeVar("T")

HAS_SHOP = True  # in `database`


async def test_a_key_is_found_in_every_place(
    database: str, rowbus: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SECONDS", 60.0)
    assert rowbus("queue", "create", "error", "audit").returncode == 0
    shop = Shop(database)
    shop.delay(timedelta(hours=1), "A-17")
    begin(database, "A-17", "B-1")
    queue = ErrorQueue(database)
    for to in ("error", "Sales", "audit"):
        queue.add(f"in {to}", to=to, body=b'{"order": "A-17", "card": "4111"}')
    queue.connection.close()
    shop.append(("order_placed", '{"order": "A-17", "card": "4111"}'))
    shop.give_up("revenue", "no total")
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
    assert re.search(r"/logs/dead-letter\?[^>]*>orders, revenue: order_placed<", shown)
    assert "dead_letter&#34; is not looked at: this role may not read it" in little
    assert "B-1" not in shown
    assert "Nothing holds no such &lt;b&gt;" in nothing
    assert "in Sales" in little
    assert "error this role may not read it" in little
    assert "Nothing holds 4111" in masked


async def test_many_queues_are_searched_together_and_one_that_is_locked_hides_no_other(
    database: str, rowbus: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"Q{number}" for number in range(search.TOGETHER)]
    assert rowbus("queue", "create", "error", *names).returncode == 0
    queue = ErrorQueue(database)
    for name in names:
        queue.add(f"in {name}", to=name, body=b"A-17")
    asked: list[str] = []
    run = Session.run

    def noted(session: Session, statement: Statement[T]) -> T:
        asked.append(statement.query.failing)
        return run(session, statement)

    monkeypatch.setattr(search, "SECONDS", 60.0)
    async with browser(database, WebSettings(period=60)) as client:
        await client.get("/")
        monkeypatch.setattr(Session, "run", noted)
        await client.get("/search", params={"text": "no such"})
        monkeypatch.setattr(Session, "run", run)
        with queue.connection.transaction():
            queue.connection.execute('lock table "Q7"')
            shown = text_of((await client.get("/search", params={"text": "A-17"})).text)
    queue.connection.close()

    assert 0 < len([failing for failing in asked if '"Q' in failing]) < len(names)
    assert [name for name in names if f"in {name} " not in shown] == ["Q7"]
    assert re.search(r"Not searched.* Q7 .*locked", shown)
