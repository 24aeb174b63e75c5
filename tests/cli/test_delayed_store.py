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


OTHERS = """
from pathlib import Path

import rowbus
from rowbus import DelayedMessage


class Other(rowbus.DelayedMessageStore):
    async def initialize(self, endpoint_name, transaction_mode):
        if Path("away").exists():
            raise ConnectionRefusedError("nobody listens")

    async def next(self):
        from datetime import UTC, datetime
        return datetime(2020, 1, 1, tzinfo=UTC)

    async def store(self, message): ...
    async def remove(self, message): ...
    async def increment_failure_count(self, message): ...
    async def fetch_next_due(self, at): ...


endpoint = rowbus.Endpoint("Sales", delayed_delivery=rowbus.DelayedDeliverySettings(Other()))
"""
KEEP = """
insert into "Sales.delayed" (id, destination, state, time, headers)
values ('1', '"public"."Sales"', 'body', now() - interval '2 hours', '{"NServiceBus.MessageId": "m"}')
"""


def test_list_shows_the_table_of_a_store_and_its_messages(shop: CommandLine, ask: Ask) -> None:
    shop("schema", "install", "shop:endpoint")
    ask(KEEP)

    (table,) = json.loads(shop("delayed", "list", "--json").stdout)
    (message,) = json.loads(shop("delayed", "list", "shop:endpoint", "--json").stdout)
    shown = shop("delayed", "list", "shop:endpoint").stdout

    assert table["table"] == '"public"."Sales.delayed"'
    assert (table["waiting"], table["overdue"], table["mover"], table["store"]) == (1, 1, None, True)
    assert "(a store)" in shop("delayed", "list").stdout
    assert (message["row_id"], message["destination"], message["failures"], message["size"]) == (
        "1",
        '"public"."Sales"',
        0,
        4,
    )
    assert message["headers"] == {"NServiceBus.MessageId": "m"}
    assert "-2 h" in shown
    assert ask('select count(*) from "Sales.delayed"') == [(1,)]


def test_list_shows_an_endpoint_without_a_store_too(shop: CommandLine) -> None:
    (shop.folder / "plain.py").write_text('import rowbus\nendpoint = rowbus.Endpoint("Plain")\n')
    shop("delayed", "create", "Plain")

    assert shop("delayed", "list", "plain:endpoint").stdout == "No message waits.\n"


def test_doctor_warns_of_what_is_overdue_in_a_store(shop: CommandLine, ask: Ask) -> None:
    shop("schema", "install", "shop:endpoint")
    ask(KEEP)

    done = shop("doctor", "shop:endpoint", "--json")
    findings = {finding["subject"]: finding for finding in json.loads(done.stdout)}

    for subject in ('"public"."Sales.delayed"', "store of Sales"):
        assert findings[subject]["level"] == "warn"
        assert "1 of 1 messages of a store are overdue, the first for 2 h" in findings[subject]["text"]
    assert done.returncode == 0


def test_a_store_that_is_not_ours_is_asked_for_its_next_due_time_and_doctor_says_when_it_is_away(
    shop: CommandLine,
) -> None:
    (shop.folder / "other.py").write_text(OTHERS)

    assert (
        "The next message of the store Other is due 2020-01-01"
        in shop("delayed", "list", "other:endpoint").stdout
    )
    late = {one["subject"]: one for one in json.loads(shop("doctor", "other:endpoint", "--json").stdout)}
    (shop.folder / "away").touch()
    done = shop("doctor", "other:endpoint", "--json")
    away = {one["subject"]: one for one in json.loads(done.stdout)}

    assert late["store of Sales"]["level"] == "warn"
    assert away["store of Sales"]["level"] == "fail"
    assert "nobody listens" in away["store of Sales"]["text"]
    assert done.returncode == 1


BLOCKING = """
import time
from pathlib import Path

import rowbus


class Blocking(rowbus.DelayedMessageStore):
    async def initialize(self, endpoint_name, transaction_mode):
        if not Path("there").exists():
            raise rowbus.StoreUnavailableError("it is not there")

    async def next(self):
        await rowbus.run_in_thread(time.sleep, 3600)

    async def store(self, message): ...
    async def remove(self, message): ...
    async def increment_failure_count(self, message): ...
    async def fetch_next_due(self, at):
        print("fetching", flush=True)


endpoint = rowbus.Endpoint("Sales", delayed_delivery=rowbus.DelayedDeliverySettings(Blocking()))


@endpoint.handler("Shop.NeverSent")
async def ignore(message: dict) -> None: ...
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_run_waits_for_a_store_that_is_away_and_ends_though_its_thread_hangs(
    rowbus: CommandLine, workers: str
) -> None:
    (rowbus.folder / "blocking.py").write_text(BLOCKING)

    serving = rowbus.start("run", "blocking:endpoint", "--workers", workers)
    serving.wait_for("The delayed message store of Sales is away: it is not there")
    (rowbus.folder / "there").touch()
    serving.wait_for("fetching")
    serving.process.terminate()

    assert serving.wait() == 0
