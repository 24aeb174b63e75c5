"""The support person's day, in a real browser: find, read, retry, cancel, replay; and a viewer can do none of it.

The pictures of the docs are made here, when `ROWBUS_TEST_PICTURES=1` asks for them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python import base as axe  # type: ignore[import-untyped] # it has no annotations
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from rowbus import contracts
from rowbus.database.backends import open_database
from rowbus.messages.address import PostgresAddresses
from rowbus.transport.published_contracts.table import contracts_address, contracts_table
from tests.contracts.shop import billing, sales
from tests.fixtures.command_line import CommandLine
from tests.web.failures import ErrorQueue
from tests.web.shop import DELAYED, LOG, SALES, Shop, stock
from tests.web.test_command import served
from tests.web.test_processes import SAGAS, begin, declare

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("day", 1),
    pytest.mark.one_version,
    pytest.mark.timeout(900),  # two cores, both busy
]

PATIENCE = 90_000  # ms until a step of the browser counts as never coming; `expect` would give up after 5 s
expect.set_options(timeout=PATIENCE)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PICTURES = Path(__file__).parents[2] / "docs" / "how-to"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
RULES_OF_COLOUR = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
MOST_STEPS = 80  # of the Tab key, to what a page has
PHONE, DESK = ViewportSize(width=390, height=844), ViewportSize(width=1280, height=900)
WIDE = ViewportSize(width=1440, height=900)

HAS_SHOP = True  # in `database`


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser is installed to look at the page with (Debian: chromium)")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=[*root, "--disable-dev-shm-usage", "--disable-gpu"], timeout=PATIENCE
        )
        yield browser
        browser.close()


@pytest.fixture
def shop(database: str, rowbus: CommandLine) -> Shop:
    """Give a shop with failures, reminders, dead subscriptions and dead letters."""
    shop = Shop(database)
    assert rowbus("queue", "create", "error", "audit").returncode == 0
    stock(shop)
    begin(database, "A-17")
    declare(database)
    publish(database)
    errors = ErrorQueue(database)
    for number in range(4107, 4112):
        errors.add(f"place-R{number}", body=json.dumps({"order_id": f"R{number}", "total": 80}).encode())
    errors.add(
        "charge-R4020", exception="bank.DeclinedError", reason="the card has expired", type="Shop.ChargeCard"
    )
    errors.connection.close()
    return shop


def publish(dsn: str) -> None:
    """Have the contract of two endpoints, as if they had published it."""
    table = contracts_table(contracts_address(PostgresAddresses()))
    document = contracts.to_asyncapi(contracts.describe(sales, billing))
    with open_database(dsn).session() as session:
        for statement in table.create():
            session.run(statement)
        session.run(table.publish("Sales", "1", json.dumps(document)))


def enter(browser: Browser, rowbus: CommandLine, *options: str) -> tuple[Page, str]:
    """Return a page that is let in, and the address of the site."""
    _, address, path = served(rowbus, *options)
    page = browser.new_context(
        viewport=DESK,
        color_scheme="light",
        locale="en-GB",
        reduced_motion="reduce",  # axe would judge a colour on its way to another
    ).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"{address}{path}")
    page.wait_for_url(f"{address}/")
    return page, address


def picture(page: Page, name: str) -> None:
    """Make a picture for the docs, if it is asked for."""
    if os.environ.get("ROWBUS_TEST_PICTURES") == "1":
        page.screenshot(path=PICTURES / f"{name}.png")


@contextmanager
def still(page: Page) -> Generator[None]:
    """Have a page that updates itself stay as it is."""
    pause = page.get_by_role("button", name="Pause updates")
    updates = pause.is_visible()
    if updates:
        pause.click()
    yield
    if updates:
        page.get_by_role("button", name="Resume updates").click()


def judge(page: Page) -> None:
    """Require that axe finds nothing, in light, and in dark nothing of what depends on colours."""
    with still(page):
        page.evaluate(axe.AXE_SCRIPT)
        for scheme, rules in (("light", RULES), ("dark", RULES_OF_COLOUR)):
            page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
            found = axe.AxeResults(page.evaluate("rules => axe.run(rules)", rules))
            assert found.violations_count == 0, f"{page.url} ({scheme}): {found.generate_report()}"
        page.emulate_media(color_scheme="light")


def answer(page: Page, button: str) -> None:
    """Answer the question of an action, and wait for the end of the operation."""
    judge(page)
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.get_by_role("heading", name=re.compile(": done$"))).to_be_visible()
    judge(page)


def test_the_day_of_a_support_person(chromium: Browser, rowbus: CommandLine, shop: Shop) -> None:
    page, address = enter(chromium, rowbus)

    page.get_by_role("link", name="Failed", exact=False).first.click()
    page.get_by_role("searchbox").fill("R4109")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=re.compile("PlaceOrder")).click()
    expect(page.get_by_role("main")).to_contain_text("no tents")
    expect(page.get_by_role("main")).to_contain_text("R4109")
    page.goto(f"{address}/failed")
    page.get_by_role("button", name=re.compile("^Retry: .*OutOfStock")).click()
    answer(page, "Send them back")
    assert shop.ask('select count(*) from "Sales"') == [(5,)]
    assert shop.ask('select count(*) from "error"') == [(1,)]

    page.get_by_role("link", name="Delayed", exact=True).click()
    page.get_by_role("link", name=str(DELAYED)).click()
    picture(page, "look-at-delayed-messages")
    page.get_by_role("searchbox").fill("R4103")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="reminder-R4103").click()
    expect(page.get_by_role("main")).to_contain_text("R4103")
    page.get_by_role("button", name="Cancel …").click()
    answer(page, "Cancel it")
    assert shop.ask("select from \"Sales.Delayed\" where headers like '%%R4103%%'") == []

    page.get_by_role("link", name="Logs", exact=True).click()
    page.get_by_role("link", name=LOG, exact=True).click()
    picture(page, "look-at-logs")
    page.get_by_role("link", name="1 dead letter of revenue").click()
    expect(page.get_by_role("main")).to_contain_text("R1 has no total")
    page.get_by_role("link", name="order_placed").click()
    picture(page, "look-at-a-dead-letter")
    page.get_by_role("button", name="Replay …", exact=True).click()
    answer(page, "Replay")
    assert shop.ask("select count(*) from pgq.dead_letter") == [(0,)]


def press(page: Page, role: Literal["link", "button", "checkbox"], name: str, key: str = "Enter") -> None:
    """Walk to an element with the Tab key alone, from where the focus is, and press a key there."""
    wanted = page.get_by_role(role, name=name, exact=True)
    expect(wanted).to_be_visible()
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one === document.activeElement"):
            page.keyboard.press(key)
            return
    raise AssertionError(f"The Tab key does not lead to {name} on {page.url}.")


def test_the_keyboard_alone_leads_to_a_dead_letter_and_discards_it(
    chromium: Browser, rowbus: CommandLine, shop: Shop
) -> None:
    page, _ = enter(chromium, rowbus)
    press(page, "link", "Logs")
    page.wait_for_url("**/logs")
    press(page, "link", LOG)
    press(page, "link", "1 dead letter of revenue")
    page.wait_for_url("**/logs/dead-letters?*")
    press(page, "button", "Pause updates")
    press(page, "checkbox", "Event 1", key="Space")
    press(page, "button", "Discard those ticked …")
    press(page, "button", "Discard it")
    expect(page.get_by_role("heading", name=re.compile(": done$"))).to_be_visible()

    assert shop.ask("select count(*) from pgq.dead_letter") == [(0,)]


def test_events_appear_as_they_come(chromium: Browser, rowbus: CommandLine, shop: Shop) -> None:
    page, address = enter(chromium, rowbus)
    page.goto(f"{address}/logs/tail?log={LOG}")
    expect(page.locator("#tail-state")).to_have_text("live")
    expect(page.locator("#pause")).to_be_hidden()  # nothing here is replaced
    shop.append(("order_shipped", '{"order": "R77"}'))

    expect(page.locator("#tail > li").first).to_contain_text("R77")
    judge(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#tail-state")).to_have_text("paused")


def paths(shop: Shop) -> list[str]:
    ((row,),) = shop.ask("select id::text from \"Sales.Delayed\" where headers like '%%R4105%%'")
    ((failed,),) = shop.ask("select id::text from error order by seq limit 1")
    ((letter,),) = shop.ask("select dl_id from pgq.dead_letter")
    named = f"log={LOG}&consumer=revenue"
    return [
        "/",
        "/doctor",
        f"/queue?name={SALES}",
        f"/queue/compose?name={SALES}",
        f"/queue/compose?name={SALES}&type=Shop.PlaceOrder",
        f"/endpoint?name={SALES}",
        "/search?text=A-17",
        "/sagas",
        f"/sagas/table?table={SAGAS}",
        f"/sagas/saga?table={SAGAS}&key=A-17",
        "/recurring",
        "/pauses",
        "/failed",
        f"/failed/message/{failed}",
        f"/failed/message/{failed}/edit",
        "/delayed",
        f"/delayed/table?table={DELAYED}",
        f"/delayed/table?table={DELAYED}&text=nothing",
        f"/delayed/message?table={DELAYED}&row={row}",
        "/subscriptions",
        "/contracts",
        "/logs",
        f"/logs/log?log={LOG}",
        f"/logs/tail?log={LOG}",
        f"/logs/rewind?{named}&to=start",
        f"/logs/rewind?{named}&to=never",
        f"/logs/dead-letters?{named}",
        f"/logs/dead-letter?{named}&letter={letter}",
        "/operations",
    ]


def test_axe_finds_nothing_and_nothing_is_wider_than_a_phone(
    chromium: Browser, rowbus: CommandLine, shop: Shop
) -> None:
    page, address = enter(chromium, rowbus)
    folder = os.environ.get("ROWBUS_TEST_LOOK")  # where to put pictures of every page, to look at
    for number, path in enumerate(paths(shop)):
        page.goto(f"{address}{path}")
        for scheme in ("light", "dark") if folder else ():
            for size in (PHONE, WIDE):
                page.emulate_media(color_scheme=scheme)
                page.set_viewport_size(size)
                page.screenshot(path=f"{folder}/{number:02}-{scheme}-{size['width']}.png", full_page=True)
        page.set_viewport_size(DESK)
        judge(page)
        page.set_viewport_size(PHONE)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{path} is {wide} pixels wide"
        page.set_viewport_size(DESK)


def test_a_viewer_can_do_none_of_it(chromium: Browser, rowbus: CommandLine, shop: Shop) -> None:
    page, address = enter(chromium, rowbus, "--viewer")
    for path in paths(shop):
        page.goto(f"{address}{path}")
        forms = page.locator("main form[method=post]")
        expect(forms).to_have_count(0)
