"""`rowbus schema` and `rowbus run` for an endpoint that keeps delayed messages in a store."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.fixtures.command_line import Ask, CommandLine, as_role

pytestmark = pytest.mark.one_version

ENDPOINT = """
from datetime import timedelta

import rowbus

store = rowbus.PostgresDelayedMessageStore()
endpoint = rowbus.Endpoint("Sales", delayed_delivery=rowbus.DelayedDeliverySettings(store))

@endpoint.handler("Shop.PlaceOrder")
async def place_order(message: dict, context: rowbus.Context) -> None:
    await context.send("Sales", message, type="Shop.Remind", delay=timedelta(milliseconds=200))

@endpoint.handler("Shop.Remind")
async def remind(message: dict, context: rowbus.Context) -> None:
    await context.send("error", message, type="Shop.Reminded")
"""
TABLES = [f'"public"."{name}"' for name in ("Sales", "Sales.Timeouts", "error", "SubscriptionRouting")]


@pytest.fixture
def shop(rowbus: CommandLine) -> CommandLine:
    """Give a command line in a folder with an endpoint."""
    (rowbus.folder / "shop.py").write_text(ENDPOINT)
    return rowbus


def test_schema_makes_what_a_store_in_the_same_database_needs(shop: CommandLine, ask: Ask) -> None:
    printed = shop("schema", "sql", "shop:endpoint").stdout
    installed = shop("schema", "install", "shop:endpoint").stdout.splitlines()

    assert 'create table if not exists "public"."Sales.delayed"' in printed
    assert installed == [
        *(f"Created {table}." for table in TABLES),
        "The delayed message store of Sales is set up.",
    ]
    assert ask('select count(*) from "Sales.delayed"') == [(0,)]
    verified = shop("schema", "verify", "shop:endpoint", "--json")
    assert [found["queue"] for found in json.loads(verified.stdout)] == TABLES[:3]
    assert verified.returncode == 0


def test_the_sql_printed_makes_the_same(shop: CommandLine, ask: Ask) -> None:
    ask(shop("schema", "sql", "shop:endpoint").stdout)

    assert shop("schema", "verify", "shop:endpoint").returncode == 0
    assert ask('select count(*) from "Sales.delayed"') == [(0,)]


def test_an_endpoint_with_a_store_needs_no_more_than_what_is_granted(
    shop: CommandLine, ask: Ask, await_rows: Callable[[str, int], None], role: str
) -> None:
    shop("schema", "install", "shop:endpoint")
    ask(shop("schema", "grants", "shop:endpoint", "--role", role).stdout)
    ask(shop("schema", "grants", "--queue", "Sales", "--role", role, "--send").stdout)
    shop("queue", "send", "Sales", '{"id": 1}', "--type", "Shop.PlaceOrder")

    serving = shop.start("run", "shop:endpoint", "--no-install", ROWBUS_DATABASE=as_role(shop.database, role))
    await_rows('select count(*) from "error"', 1)
    serving.process.terminate()

    assert serving.wait() == 0
    assert ask('select count(*) from "Sales.delayed"') == [(0,)]
    assert ask("select headers::json ->> 'NServiceBus.EnclosedMessageTypes' from error") == [
        ("Shop.Reminded",)
    ]


def test_purging_at_the_start_leaves_what_is_delayed(
    shop: CommandLine, ask: Ask, await_rows: Callable[[str, int], None]
) -> None:
    (shop.folder / "shop.py").write_text(
        ENDPOINT.replace(
            'Endpoint("Sales", ',
            'Endpoint("Sales", settings=rowbus.EndpointSettings(purge_on_startup=True), ',
        )
    )
    shop("schema", "install", "shop:endpoint")
    ask(
        'insert into "Sales.delayed" (id, destination, state, time, headers)'
        " values ('1', 'error', '{}', now() - interval '1 second', '{}')"
    )

    serving = shop.start("run", "shop:endpoint")
    await_rows('select count(*) from "error"', 1)
    serving.process.terminate()

    assert serving.wait() == 0
