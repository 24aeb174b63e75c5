"""`rowbus schema grants`: each role of docs/security.md does its work with what is printed, and nothing beside."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.acceptance.conftest import Ask, CommandLine, as_role

AwaitRows = Callable[[str, int], None]

ENDPOINT = """
from datetime import timedelta

import rowbus

endpoint = rowbus.Endpoint(
    "Sales",
    recoverability=rowbus.Recoverability(immediate=1, delayed=1, increase=timedelta(milliseconds=20)),
    settings=rowbus.EndpointSettings(audit_queue="audit", deduplicate_for=timedelta(hours=1)),
)


@endpoint.handler("Shop.PlaceOrder")
async def place_order(message: dict, context: rowbus.Context) -> None:
    if message.get("bad"):
        raise ValueError("no such article")
    await context.publish({"id": message["id"]}, type="Shop.OrderPlaced")
    await context.send("Billing", {"id": message["id"]}, type="Shop.Charge", delay=timedelta(milliseconds=20))
    await context.reply({"id": message["id"]}, type="Shop.Thanks")


@endpoint.handler("Shop.OrderShipped", subscribe=True)
async def order_shipped(message: dict, context: rowbus.Context) -> None:
    pass
"""


@pytest.fixture
def shop(rowbus: CommandLine, ask: Ask) -> CommandLine:
    """Give a command line in a folder with an endpoint, whose tables and neighbours are there."""
    (rowbus.folder / "shop.py").write_text(ENDPOINT)
    done = rowbus("schema", "install", "shop:endpoint")
    assert done.returncode == 0, done.stderr
    rowbus("queue", "create", "Billing", "Web", "Other")
    ask("create table bystander (id int)")
    return rowbus


def grant(rowbus: CommandLine, ask: Ask, role: str, *arguments: str) -> None:
    """Grant a role what the command line prints."""
    printed = rowbus("schema", "grants", "--role", role, *arguments)
    assert printed.returncode == 0, printed.stderr
    ask(printed.stdout)


def test_an_endpoint_does_all_its_work_with_what_is_granted(
    shop: CommandLine, ask: Ask, role: str, await_rows: AwaitRows
) -> None:
    grant(shop, ask, role, "shop:endpoint")
    grant(shop, ask, role, "--queue", "Billing", "--queue", "Web", "--send")
    shop("subscriptions", "add", "Billing", "Shop.OrderPlaced")
    serving = shop.start("run", "shop:endpoint", "--no-install", ROWBUS_DATABASE=as_role(shop.database, role))

    shop("queue", "send", "Sales", '{"id": 1}', "--type", "Shop.PlaceOrder", "--reply-to", "Web")
    shop("queue", "send", "Sales", '{"id": 2, "bad": true}', "--type", "Shop.PlaceOrder")

    await_rows('select count(*) from "Web"', 1)
    await_rows('select count(*) from "Billing"', 2)  # the event's copy, and the command that was delayed
    await_rows("select count(*) from audit", 1)
    await_rows("select count(*) from error", 1)
    serving.process.terminate()
    assert serving.wait() == 0
    (failed,) = (json.loads(headers) for (headers,) in ask("select headers from error"))
    assert failed["NServiceBus.ExceptionInfo.Message"] == "no such article"
    assert "NServiceBus.Retries.Timestamp" in failed, "it was not retried later"
