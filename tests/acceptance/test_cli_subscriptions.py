"""`rowbus subscriptions`: who gets which events is looked at and changed as an operator would."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.conftest import Ask, CommandLine

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
    shop("subscriptions", "add", "Audit", PLACED, "--queue", '"ops"."Audit.Events"')

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
    assert empty.stderr == "rowbus: nobody subscribes to anything\n"


def test_an_address_nobody_can_read_is_listed_as_it_is(shop: CommandLine, ask: Ask) -> None:
    ask("insert into \"SubscriptionRouting\" values ('\"\"', 'Odd', 'Event')")

    assert listed(shop) == [{"endpoint": "Odd", "topic": "Event", "queue": '""', "queue_exists": False}]


def test_a_name_that_does_not_fit_is_bad_usage(shop: CommandLine) -> None:
    assert shop("subscriptions", "add", "Billing", "E" * 201).returncode == 2
