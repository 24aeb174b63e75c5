"""`rowbus subscriptions`: who gets which events is looked at and changed as an operator would."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.command_line import Ask, CommandLine, as_role

pytestmark = pytest.mark.one_version

PLACED = "Shop.Messages.OrderPlaced"
CANCELLED = "Shop.Messages.OrderCancelled"


@pytest.fixture
def shop(rowbus: CommandLine) -> CommandLine:
    assert rowbus("queue", "create", "Billing").returncode == 0
    assert rowbus("subscriptions", "create").returncode == 0
    return rowbus


def listed(rowbus: CommandLine, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(rowbus("subscriptions", "list", "--json", *arguments).stdout)
    return found


def test_what_is_added_is_listed_with_whether_its_queue_exists(shop: CommandLine) -> None:
    added = shop("subscriptions", "add", "Billing", PLACED, CANCELLED)
    absent = shop("subscriptions", "add", "Audit", PLACED, "--queue", '"ops"."Audit.Events"')

    assert (added.stderr, absent.returncode) == ("", 0)
    assert 'there is no queue "ops"."Audit.Events": publishing fails' in absent.stderr
    assert added.stdout.splitlines() == [
        f'Billing subscribes to {PLACED}; the copies go to "public"."Billing".',
        f'Billing subscribes to {CANCELLED}; the copies go to "public"."Billing".',
    ]
    assert listed(shop, "--event", PLACED) == [
        {"endpoint": "Audit", "topic": PLACED, "queue": '"ops"."Audit.Events"', "queue_exists": False},
        {"endpoint": "Billing", "topic": PLACED, "queue": '"public"."Billing"', "queue_exists": True},
    ]
    table = shop("subscriptions", "list").stdout.splitlines()
    assert table[0].split() == ["endpoint", "event", "queue", "state"]
    assert table[1].endswith("no such queue")
    assert table[2].split() == ["Billing", CANCELLED, '"public"."Billing"', "ok"]


def test_adding_again_says_that_nothing_changed_and_another_queue_changes_it(shop: CommandLine) -> None:
    shop("subscriptions", "add", "Billing", PLACED)
    again = shop("subscriptions", "add", "Billing", PLACED)
    shop("subscriptions", "add", "Billing", PLACED, "--queue", "Elsewhere")

    assert again.stdout.splitlines()[-1] == "It did so already."
    assert [one["queue"] for one in listed(shop)] == ['"public"."Elsewhere"']


def test_what_is_removed_is_said_and_what_was_not_there_is_an_exit_code(shop: CommandLine) -> None:
    shop("subscriptions", "add", "Billing", PLACED, CANCELLED)
    done = shop("subscriptions", "remove", "Billing", PLACED)
    partly = shop("subscriptions", "remove", "Billing", PLACED, CANCELLED)
    nothing = shop("subscriptions", "remove", "Billing", "--all")

    assert (done.returncode, done.stdout) == (0, f"Billing no longer subscribes to {PLACED}.\n")
    assert (partly.returncode, partly.stdout) == (1, f"Billing no longer subscribes to {CANCELLED}.\n")
    assert PLACED in partly.stderr
    assert (nothing.returncode, nothing.stderr) == (1, "rowbus: Billing did not subscribe to anything\n")


def test_all_of_an_endpoint_is_removed_and_nothing_of_others(shop: CommandLine) -> None:
    shop("subscriptions", "add", "Billing", PLACED, CANCELLED)
    shop("subscriptions", "add", "Shipping", PLACED)

    assert shop("subscriptions", "remove", "Billing", "--all").returncode == 0
    assert [one["endpoint"] for one in listed(shop)] == ["Shipping"]


def test_remove_wants_to_know_what(shop: CommandLine) -> None:
    assert shop("subscriptions", "remove", "Billing").returncode == 2
    assert shop("subscriptions", "remove", "Billing", PLACED, "--all").returncode == 2


def test_a_table_of_another_name_and_schema_is_worked_on_when_named(rowbus: CommandLine, ask: Ask) -> None:
    ask("create schema shared")
    where = ["--schema", "shared", "--table", "Events"]

    assert rowbus("subscriptions", "create", *where).stdout == 'Created "shared"."Events".\n'
    rowbus("subscriptions", "add", "Billing", PLACED, *where)

    assert ask('select queueaddress::text from shared."Events"') == [('"shared"."Billing"',)]


def test_an_empty_table_is_an_exit_code_and_a_missing_one_says_what_to_do(rowbus: CommandLine) -> None:
    missing = rowbus("subscriptions", "list")
    rowbus("subscriptions", "create")
    empty = rowbus("subscriptions", "list")

    assert missing.returncode == empty.returncode == 1
    assert "`rowbus subscriptions create`" in missing.stderr
    assert empty.stderr == "rowbus: there are no subscriptions\n"


def test_an_address_nobody_can_read_is_listed_as_it_is(shop: CommandLine, ask: Ask) -> None:
    ask("insert into \"SubscriptionRouting\" values ('\"\"', 'Odd', 'Event')")

    assert listed(shop) == [{"endpoint": "Odd", "topic": "Event", "queue": '""', "queue_exists": False}]


def test_a_name_that_does_not_fit_is_bad_usage(shop: CommandLine) -> None:
    assert shop("subscriptions", "add", "Billing", "E" * 201).returncode == 2


ENDPOINT = """
from datetime import timedelta

import rowbus

endpoint = rowbus.Endpoint("Billing", settings=rowbus.EndpointSettings(deduplicate_for=timedelta(days=7)))

@endpoint.handler("Shop.OrderPlaced", subscribe=True)
async def note(event: dict, context: rowbus.Context) -> None:
    print("noted", event["order_id"], flush=True)
    if event["order_id"] == 1:
        await context.publish({"order_id": 2}, type="Shop.OrderPlaced")
"""


def test_an_endpoint_that_subscribes_publishes_and_remembers_needs_no_more_than_what_is_granted(
    rowbus: CommandLine, ask: Ask, role: str
) -> None:
    (rowbus.folder / "billing.py").write_text(ENDPOINT)
    installed = rowbus("schema", "install", "billing:endpoint").stdout
    ask(rowbus("schema", "grants", "billing:endpoint", "--role", role).stdout)
    ask(rowbus("schema", "grants", "--queue", "Billing", "--role", role, "--send").stdout)

    serving = rowbus.start(
        "run", "billing:endpoint", "--no-install", ROWBUS_DATABASE=as_role(rowbus.database, role)
    )
    serving.wait_for("Billing subscribes to Shop.OrderPlaced")
    for _ in range(2):
        again = ["--header", "NServiceBus.MessageId=again"]
        rowbus("queue", "send", "Billing", '{"order_id": 1}', "--type", "Shop.OrderPlaced", *again)
    serving.wait_for("noted 2")
    serving.wait_for("Message again was processed before")
    serving.process.terminate()

    assert serving.wait() == 0
    assert [line for line in serving.lines if line.startswith("noted")] == ["noted 1", "noted 2"]
    assert 'Created "public"."SubscriptionRouting".' in installed
    assert 'Created "public"."Billing.Inbox".' in installed


def test_the_sql_printed_for_an_endpoint_makes_its_tables(rowbus: CommandLine, ask: Ask) -> None:
    (rowbus.folder / "billing.py").write_text(ENDPOINT)

    ask(rowbus("schema", "sql", "billing:endpoint").stdout)

    assert rowbus("schema", "install", "billing:endpoint").stdout.count("was there already") == 5
