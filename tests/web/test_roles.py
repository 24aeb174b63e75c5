"""The page with the rights that `rowbus schema grants system --roles roles.toml` prints: they do for each action."""

from __future__ import annotations

import re
from datetime import timedelta

import httpx
import pytest

from tests.fixtures.command_line import CommandLine, as_role
from tests.web.conftest import browser, confirm
from tests.web.failures import ErrorQueue
from tests.web.shop import DELAYED, LOG, Shop

HAS_SHOP = True  # in `database`

SYSTEM = """
from dataclasses import dataclass
from datetime import timedelta

import rowbus


@dataclass
class OrderPlaced:
    order_id: str


class OrderSaga(rowbus.Saga[OrderPlaced], correlation="order_id"):
    @rowbus.starts(OrderPlaced, by=lambda message: message.order_id)
    async def begin(self, message: OrderPlaced) -> None: ...


sales = rowbus.Endpoint("Sales")
sales.add(OrderSaga)


@sales.every(timedelta(hours=9), type="Shop.Report")
def report(): return {}
"""
ROLES = '[{role}]\noperate = ["Sales", "Billing"]\nweb = true\nlog = ["operate"]\n'
STATE = """
    insert into "Sales.OrderSaga" (correlation, state, version, concurrency) values ('A-17', '{}', 1, 1);
    insert into "Sales.Recurring" (name, schedule, next_due) values
    ('nightly', 'every 9:00:00', now() + interval '9 hours'), ('orphan', 'every 9:00:00', now() + interval '9 hours')
"""
CONSUMER = {"log": LOG, "consumer": "revenue"}
SAGAS, RECURRING = '"public"."Sales.OrderSaga"', '"public"."Sales.Recurring"'
ALL = {"queue": "error"}


@pytest.fixture
def shop(database: str, rowbus: CommandLine, role: str) -> Shop:
    """Give a system's database with something for each action, and the rights of a file granted to a role."""
    (rowbus.folder / "system.py").write_text(SYSTEM)
    (rowbus.folder / "roles.toml").write_text(ROLES.format(role=role))
    assert rowbus("schema", "install", "system").returncode == 0
    printed = rowbus("schema", "grants", "system", "--roles", "roles.toml")
    assert printed.returncode == 0, printed.stderr
    shop = Shop(database)
    shop.ask(printed.stdout)
    shop.ask(STATE)
    for number in ("1", "2"):
        shop.delay(timedelta(hours=1), number)
    shop.tick()
    for number in ("1", "2"):
        shop.append(("order", number))
        shop.give_up("revenue", f"no total {number}")
    return shop


async def test_a_role_of_the_file_does_one_of_each_action(
    shop: Shop, database: str, rowbus: CommandLine, role: str
) -> None:
    errors = ErrorQueue(database)
    errors.add("1")
    dsn = as_role(database, role)
    async with browser(dsn) as client:
        said = [
            (await confirm(client, path, form)).text
            for path, form in (
                ("/failed/retry", ALL),
                ("/queue/purge", {"name": "Sales"}),
                ("/pauses/add", {"kind": "endpoint", "name": "Sales", "why": "stock-taking"}),
                ("/pauses/end", {"kind": "endpoint", "name": "Sales"}),
                ("/recurring/send-now", {"table": RECURRING, "name": "nightly"}),
                (
                    "/sagas/end",
                    {"table": SAGAS, "id": str(shop.ask('select id from "Sales.OrderSaga"')[0][0])},
                ),
                ("/delayed/cancel", await waiting(client, "reminder-1")),
                ("/delayed/send-now", await waiting(client, "reminder-2")),
                ("/logs/dead-letters/replay", {**CONSUMER, "letter": await first_letter(client)}),
                ("/logs/dead-letters/discard", {**CONSUMER, "all": "yes"}),
            )
        ]
    errors.add("2")
    async with browser(dsn) as client:  # a page that has seen it: the other looks every four seconds
        discarded = await confirm(client, "/failed/discard", ALL)
        await confirm(client, f"{discarded.url.path}/undo", {})
    removed = rowbus("recurring", "remove", "Sales", "orphan", ROWBUS_DATABASE=dsn)

    assert (removed.returncode, removed.stderr) == (0, "")
    ended = shop.ask('select action, state, done, result from "Rowbus.Operations" order by began')
    assert {told[1:3] for told in ended} == {("done", 1)}, ended
    assert len(ended) == len(said) + 3  # discard, its undoing, the command
    assert errors.ids() == ["2"]
    left = {
        name: shop.ask(f"select count(*) from {name}")[0][0]
        for name in (DELAYED, SAGAS, RECURRING, '"Billing"', '"Sales"', "pgq.dead_letter", "pgq.retry_queue")
    }
    assert list(left.values()) == [0, 0, 1, 1, 0, 0, 1], left
    errors.connection.close()


LOOKS = """[{role}]
view = ["Sales", "Billing", "error"]
web = true
"""


async def test_a_right_that_is_missing_disables_its_button_and_the_grant_stands_beside_it(
    shop: Shop, database: str, rowbus: CommandLine, role: str, another_role: str
) -> None:
    errors = ErrorQueue(database)
    failed = errors.add("1")
    errors.connection.close()
    (rowbus.folder / "roles.toml").write_text(LOOKS.format(role=another_role))
    shop.ask(rowbus("schema", "grants", "system", "--roles", "roles.toml").stdout)
    saga = {"table": SAGAS, "key": "A-17"}
    pages: tuple[tuple[str, dict[str, str] | None, str, str], ...] = (
        ("/queue", {"name": '"public"."Sales"'}, "Delete all …", "--operate --queue Sales"),
        ("/failed", {}, "Retry", "--operate --web --queue"),
        (f"/failed/message/{failed}", ALL, "Edit and retry", "--operate --web --queue error"),
        ("/delayed/message", None, "Send now …", "MODULE:ENDPOINT --operate"),
        ("/sagas/saga", saga, "End …", "MODULE:ENDPOINT --operate"),
        ("/recurring", {}, "Send now …", "MODULE:ENDPOINT --operate"),
    )
    for dsn, lacks in ((as_role(database, another_role), True), (as_role(database, role), False)):
        async with browser(dsn) as client:
            await client.get("/")
            for path, query, button, grants in pages:
                asked = await waiting(client, "reminder-1") if query is None else query
                answer = await client.get(path, params=asked)
                shown = answer.text
                assert answer.status_code == 200, (path, shown)
                assert (f'<button type="button" disabled>{button}</button>' in shown) is lacks, path
                assert (f"<code>rowbus schema grants {grants}" in shown) is lacks, path


async def waiting(client: httpx.AsyncClient, text: str) -> dict[str, str]:
    """Return the form of the one delayed message that a search finds."""
    form = {"table": str(DELAYED)}
    shown = (await client.get("/delayed/table", params={**form, "text": text})).text
    (row,) = set(re.findall(r"row=([0-9a-f-]{36})", shown))
    return {**form, "row": row}


async def first_letter(client: httpx.AsyncClient) -> str:
    """Return the number of the first dead letter."""
    shown = (await client.get("/logs/dead-letters", params=CONSUMER)).text
    first, *_ = re.findall(r'name="letter" value="(\d+)"', shown)
    return str(first)
