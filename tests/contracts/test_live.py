"""A contract is compared with what endpoints published in a database, and with messages that wait there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rowbus import contracts

if TYPE_CHECKING:
    from tests.fixtures.command_line import CommandLine

pytestmark = pytest.mark.one_version

SALES = """
from dataclasses import dataclass

import rowbus


@rowbus.command("Shop.PlaceOrder")
@dataclass
class PlaceOrder:
    order_id: str
    {field}


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced:
    order_id: str
    {published}


endpoint = rowbus.Endpoint("Sales")


@endpoint.handler
async def place(order: PlaceOrder, context: rowbus.Context) -> None:
    await context.publish({event})
"""
BILLING = """
from dataclasses import dataclass

import rowbus


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced:
    order_id: str
    amount: int


endpoint = rowbus.Endpoint("Billing")


@endpoint.handler
async def bill(placed: OrderPlaced) -> None: ...
"""


@pytest.fixture
def shop(rowbus: CommandLine) -> CommandLine:
    """Give a command line in a folder with Sales as it runs, as it is to be, and with Billing; both have run."""
    (rowbus.folder / "sales.py").write_text(
        SALES.format(field="", published="amount: int", event="OrderPlaced(order.order_id, 1)")
    )
    (rowbus.folder / "sales_next.py").write_text(
        SALES.format(field="currency: str", published="", event="OrderPlaced(order.order_id)")
    )
    (rowbus.folder / "billing.py").write_text(BILLING)
    for name in ("sales", "billing"):
        rowbus.start("run", f"{name}:endpoint").wait_for("is receiving")
    return rowbus


def test_what_the_code_would_break_of_what_runs_is_told(shop: CommandLine) -> None:
    found = shop("contracts", "check", "sales_next", "--live")
    same = shop("contracts", "check", "sales", "--live")

    assert found.returncode == 1
    assert found.stdout.splitlines() == [
        "Shop.OrderPlaced: old handlers refuse new messages: `amount` is required, and not there",
        "Shop.PlaceOrder: new handlers refuse old messages: `currency` is required, and not there",
        "Shop.OrderPlaced: Billing handles it, and Sales publishes another: `amount` is required, and not there",
    ]
    assert (same.returncode, same.stdout, same.stderr) == (0, "Nothing breaks.\n", "")


def test_messages_that_the_code_would_refuse_are_counted(shop: CommandLine) -> None:
    shop("queue", "create", "audit")
    send = ("queue", "send", "audit", "--type", "Shop.PlaceOrder", "--lines")
    shop(
        *send,
        input='{"order_id": "0"}\n{"order_id": "1"}\n{"order_id": "2", "currency": "EUR"}\n{"order_id": "3"}',
    )

    found = shop("contracts", "check", "sales_next", "--live", "--queue", "audit", "--last", "3").stdout
    missing = shop("contracts", "check", "sales_next", "--live", "--queue", "nowhere")

    told = 'Shop.PlaceOrder: 2 of the last 3 messages of "public"."audit": Sales takes another: `currency` is required'
    assert told in found.splitlines()
    assert missing.returncode == 1
    assert '"public"."nowhere"' in missing.stderr


def test_who_has_published_nothing_is_told(rowbus: CommandLine) -> None:
    (rowbus.folder / "billing.py").write_text(BILLING)

    found = rowbus("contracts", "check", "billing", "--live")

    assert (found.returncode, found.stdout) == (0, "Nothing breaks.\n")
    assert "Billing has published no contract in this database" in found.stderr


def test_what_endpoints_published_is_printed_as_one_document(shop: CommandLine) -> None:
    printed = shop("contracts", "export", "--live", "--title", "Shop")
    both = shop("contracts", "export", "billing", "sales", "--title", "Shop")

    found, told = (contracts.from_asyncapi(json.loads(one.stdout)) for one in (printed, both))
    assert found.parties == told.parties
    assert set(found.uses) == set(told.uses)
    assert shop("contracts", "export").returncode == 2
    assert shop("contracts", "export", "sales", "--live").returncode == 2
    assert shop("contracts", "check", "sales").returncode == 2
