"""A body is compared with what its queue's endpoint published, before it is sent and when it has failed."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import rowbus
from rowbus.web.settings import WebSettings
from tests.web.conftest import browser, confirm, token_of
from tests.web.failures import ErrorQueue

if TYPE_CHECKING:
    from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

BODY = '{"order_id": "42"}'
MISFIT = "Sales takes another: `amount` is required"


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str
    amount: int


@pytest.fixture
async def _sales(database: str) -> None:
    """Have Sales publish its contract, and end."""
    sales = rowbus.Endpoint("Sales", database=database)

    @sales.handler
    async def place(message: PlaceOrder) -> None: ...

    async with sales:
        pass


@pytest.mark.usefixtures("_sales")
def test_what_does_not_fit_is_sent_only_when_that_is_said(rowbus: CommandLine, ask: Ask) -> None:
    send = ("queue", "send", "Sales", "--type", "Shop.PlaceOrder")
    refused = rowbus(*send, BODY)
    of_lines = rowbus(*send, "--lines", input=f'{{"order_id": "1", "amount": 2}}\n{BODY}')
    assert ask('select count(*) from "Sales"') == [(0,)]
    sent = rowbus(*send, "--anyway", BODY)
    other = rowbus("queue", "send", "Sales", "--type", "Shop.Other", BODY)

    for done, what in ((refused, "The body"), (of_lines, "Line 2")):
        assert done.returncode == 2
        assert " ".join(done.stderr.replace("│", "").split()).endswith(
            f"{what} does not fit Shop.PlaceOrder. {MISFIT}. Else say --anyway."
        )
    assert (sent.returncode, other.returncode) == (0, 0)
    assert ask('select count(*) from "Sales"') == [(2,)]


@pytest.mark.usefixtures("_sales")
def test_a_failed_message_is_shown_with_the_field_that_does_not_fit(
    rowbus: CommandLine, database: str
) -> None:
    errors = ErrorQueue(database)
    errors.add("one", body=BODY.encode())
    errors.add("two", body=b'{"order_id": "42", "amount": 1}')
    errors.connection.close()

    shown, fitting = (rowbus("errors", "show", name) for name in ("one", "two"))

    assert f"does not fit: {MISFIT}\n" in shown.stdout
    assert "does not fit" not in fitting.stdout
    assert json.loads(rowbus("errors", "show", "one", "--json").stdout)[0]["misfits"] == [MISFIT]


@pytest.mark.usefixtures("_sales")
async def test_the_page_says_it_and_asks_before_an_edited_message_is_sent(database: str) -> None:
    errors = ErrorQueue(database)
    row = errors.add("one", body=BODY.encode())
    errors.connection.close()
    query = {"queue": "error"}
    async with browser(database) as client:
        shown = html.unescape((await client.get(f"/failed/message/{row}", params=query)).text)
        form = {"csrf": token_of(client), "row": row, **query}
        bad = html.unescape(
            (await client.post("/failed/send", data={**form, "body": '{"amount": "x"}'})).text
        )
        good = '{"order_id": "42", "amount": 1}'
        mended = html.unescape((await client.post("/failed/send", data={**form, "body": good})).text)

    assert "<li>Sales takes another: <code>amount</code> is required</li>" in shown
    assert (
        'It does not fit: Sales takes another: `order_id` is required; `amount` is "x", and has to be integer'
        in bad
    )
    assert "Send the edited message?" in mended
    assert "does not fit" not in mended


@pytest.mark.usefixtures("_sales")
def test_an_example_is_printed_and_a_body_is_completed(rowbus: CommandLine, ask: Ask) -> None:
    send = ("queue", "send", "Sales", "--example", "--type")
    whole = rowbus(*send, "Shop.PlaceOrder, Shop")
    completed = rowbus(*send, "Shop.PlaceOrder", '{"order_id": "42", "price": 1.10, "note": "\x85"}')
    other = rowbus(*send, "Shop.Other")

    assert json.loads(whole.stdout) == {"order_id": "", "amount": 0}
    assert json.loads(completed.stdout) == {"order_id": "42", "price": 1.1, "note": "\x85", "amount": 0}
    assert '"price": 1.10,\n  "note": "\\u0085"' in completed.stdout
    assert (other.returncode, other.stderr) == (
        1,
        'rowbus: no endpoint of "public"."Sales" has published that it handles Shop.Other\n',
    )
    assert ask('select count(*) from "Sales"') == [(0,)]


@pytest.mark.usefixtures("_sales")
async def test_a_message_is_composed_on_the_page_from_what_was_published(database: str, ask: Ask) -> None:
    query = {"name": '"public"."Sales"', "type": "Shop.PlaceOrder"}
    async with browser(database) as client:
        shown = html.unescape((await client.get("/queue/compose", params=query)).text)
        form = {"csrf": token_of(client), **query, "body": BODY}
        asked = html.unescape((await client.post("/queue/send", data=form)).text)
        not_json = await client.post("/queue/send", data={**form, "body": "{"})
        without_type = await client.post("/queue/send", data={**form, "type": " "})
        assert ask('select count(*) from "Sales"') == [(0,)]
        done = await confirm(client, "/queue/send", {**query, "body": BODY})

    assert '<option value="Shop.PlaceOrder">' in shown
    assert '{\n  "order_id": "",\n  "amount": 0\n}' in shown
    assert f"It does not fit: {MISFIT}" in asked
    assert "Sent to" in done.text
    assert "nothing was sent" in not_json.text
    assert "nothing was sent" in without_type.text
    assert ask("select convert_from(body, 'utf8') from \"Sales\"") == [(BODY,)]


@pytest.mark.usefixtures("_sales")
async def test_a_viewer_composes_nothing(database: str, ask: Ask) -> None:
    query = {"name": '"public"."Sales"', "type": "Shop.PlaceOrder"}
    async with browser(database, WebSettings(read_only=True)) as client:
        shown = await client.get("/queue/compose", params=query)
        form = {"csrf": token_of(client), **query, "body": BODY, "confirmed": "yes"}
        sent = await client.post("/queue/send", data=form)

    assert (shown.status_code, sent.status_code) == (403, 403)
    assert ask('select count(*) from "Sales"') == [(0,)]


@pytest.mark.usefixtures("_sales")
async def test_an_edited_body_is_completed_when_that_is_asked_for(database: str) -> None:
    errors = ErrorQueue(database)
    row = errors.add("one", body=BODY.encode())
    fitting = errors.add("two", body=b'{"order_id": "42", "amount": 1}')
    errors.connection.close()
    async with browser(database) as client:
        pages = [
            html.unescape((await client.get(f"/failed/message/{one}/edit", params=query)).text)
            for one, query in ((row, {}), (row, {"complete": "yes"}), (fitting, {}))
        ]

    assert ["Fill them in" in page for page in pages] == [True, False, False]
    assert ['"amount": 0' in page for page in pages] == [False, True, False]


@pytest.mark.usefixtures("_sales")
async def test_an_endpoints_page_shows_the_versions_that_run(database: str, ask: Ask) -> None:
    ask("""insert into "Rowbus.Contracts" (endpoint, version, document, seen)
    select endpoint, 'older', document, seen - interval '3 days' from "Rowbus.Contracts"
    union all select endpoint, 'beside', document, seen from "Rowbus.Contracts" returning 1""")
    async with browser(database) as client:
        page = (await client.get("/endpoint", params={"name": "Sales"})).text

    assert 'Versions that run <span class="faint">2</span>' in page
    assert "beside</span> since" in page
    assert "older</span> since" not in page
