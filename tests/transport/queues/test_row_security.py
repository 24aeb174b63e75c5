"""Row security that hides a queue: without an error messages would wait for ever, so it is said wherever one looks."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

import rowbus as bus
from rowbus.errors import ConfigurationError
from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.every import every

SHOP = """
import rowbus
sales = rowbus.Endpoint("Sales")

@sales.handler("Shop.PlaceOrder")
async def place_order(message: dict, context: rowbus.Context) -> None: ...
"""
READ = ["Sales", "Sales.Delayed", "SubscriptionRouting"]
HIDDEN = "row security applies to this role"


@pytest.fixture
def shop(rowbus: CommandLine, ask: Ask, role: str) -> CommandLine:
    """Give a command line in a folder with an endpoint, all of whose tables a role may receive from."""
    (rowbus.folder / "shop.py").write_text(SHOP)
    installed = rowbus("schema", "install", "shop:sales")
    assert installed.returncode == 0, installed.stderr
    ask(rowbus("schema", "grants", "shop:sales", "--receive", "--view", "--role", role).stdout)
    return rowbus


async def start(database: str, *, install: bool) -> None:
    settings = bus.EndpointSettings(install=install)
    async with bus.Endpoint("Sales", database=database, settings=settings):
        pass


@every("table", READ)
async def test_an_endpoint_does_not_start_where_row_security_hides_a_table_that_it_reads(
    table: str, shop: CommandLine, role: str
) -> None:
    secured = sql.SQL("alter table {} {} row level security")
    with psycopg.connect(shop.database, autocommit=True) as owner:
        owner.execute(secured.format(sql.Identifier(table), sql.SQL("enable")))
        with pytest.raises(ConfigurationError, match=f'"{table}".*{HIDDEN}.* Use a role that has BYPASSRLS'):
            await start(as_role(shop.database, role), install=False)
        await start(shop.database, install=True)  # it is not subject to row security

        owner.execute(secured.format(sql.Identifier(table), sql.SQL("disable")))
        await start(as_role(shop.database, role), install=False)


def test_verify_and_doctor_tell_of_row_security(shop: CommandLine, ask: Ask, role: str) -> None:
    ask('alter table "Sales" enable row level security')
    hidden = {"ROWBUS_DATABASE": as_role(shop.database, role)}

    for arguments in ([], ["shop:sales"], ["--queue", "Sales"]):
        verified = shop("schema", "verify", *arguments, "--json", **hidden)
        assert verified.returncode == 1
        assert HIDDEN in verified.stdout
        assert shop("schema", "verify", *arguments).returncode == 0
    told = shop("doctor", "--json", **hidden).stdout
    assert "it has row security policies" in told
    assert "BYPASSRLS" in told
    assert "trusted_owners" not in told
