"""`rowbus recurring`: what is sent when is looked at, and what no program has any more is removed."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.command_line import Ask, CommandLine

pytestmark = pytest.mark.one_version

PROGRAM = """
import rowbus
from datetime import timedelta

sales = rowbus.Endpoint("Sales")

@sales.every("0 7 * * mon-fri", tz="Europe/Berlin", type="Shop.Report")
def report():
    return {}
"""
DECLARE = """
insert into "Sales.Recurring" (name, schedule, next_due, last_sent) values
    ('orphan', 'every 1:00:00', now() - interval '2 hours', '2026-01-01 06:00+00'),
    ('report', '0 7 * * mon-fri Europe/Berlin', '2099-01-02 06:00+00', null)
"""


@pytest.fixture
def shop(rowbus: CommandLine) -> CommandLine:
    """Give a command line in a folder with an endpoint."""
    (rowbus.folder / "shop.py").write_text(PROGRAM)
    return rowbus


def test_schema_prints_and_installs_the_table_and_grants_its_use(shop: CommandLine) -> None:
    printed = shop("schema", "sql", "shop:sales").stdout
    installed = shop("schema", "install", "shop:sales").stdout
    granted = shop("schema", "grants", "shop:sales", "--role", "service").stdout

    assert 'create table if not exists "public"."Sales.Recurring" (' in printed
    assert 'Created "public"."Sales.Recurring".' in installed
    assert 'on table "public"."Sales.Recurring" to "service"' in granted


def test_recurring_messages_are_listed_and_removed(shop: CommandLine, ask: Ask) -> None:
    shop("schema", "install", "shop:sales")
    nothing = shop("recurring", "list", "Sales")
    ask(DECLARE)
    table = shop("recurring", "list", "Sales").stdout.splitlines()
    found = json.loads(shop("recurring", "list", "Sales", "--json").stdout)
    removed = shop("recurring", "remove", "Sales", "orphan")
    again = shop("recurring", "remove", "Sales", "orphan")

    assert (nothing.returncode, nothing.stderr) == (1, "rowbus: Sales has no recurring message\n")
    assert table[0].split() == ["name", "schedule", "next", "due", "in", "last", "sent"]
    assert "-2 h" in table[1]
    assert table[1].endswith("2026-01-01 06:00:00+00:00")
    assert found[1] == {
        "name": "report",
        "schedule": "0 7 * * mon-fri Europe/Berlin",
        "next_due": "2099-01-02T06:00:00+00:00",
        "last_sent": None,
    }
    assert removed.stdout == "Removed orphan.\n"
    assert (again.returncode, again.stderr) == (1, "rowbus: Sales has no recurring message orphan\n")


def test_an_endpoint_without_the_table_says_how_to_get_it(rowbus: CommandLine) -> None:
    missing = rowbus("recurring", "list", "Billing")
    assert missing.returncode == 1
    assert (
        "the table does not exist; starting an endpoint with recurring messages creates it" in missing.stderr
    )
