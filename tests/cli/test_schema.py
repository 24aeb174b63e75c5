"""`rowbus schema`: what it prints creates what Rowbus creates, and what it verifies is what others count on."""

from __future__ import annotations

import json
import shutil
import subprocess

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.fixtures.command_line import Ask, CommandLine, as_role

pytestmark = pytest.mark.one_version

ENDPOINT = """
import rowbus

endpoint = rowbus.Endpoint("Sales")

@endpoint.handler("Shop.PlaceOrder")
async def place_order(message: dict, context: rowbus.Context) -> None:
    if message.get("bad"):
        raise rowbus.Unrecoverable("no such article")
"""


TABLES = (
    "Sales",
    "Sales.Delayed",
    "error",
    "Billing",
    "Billing.Delayed",
    "Billing.Inbox",
    "Billing.Recurring",
    "Billing.Limits",
    "Billing.OrderSaga",
    "Billing.OrderSaga.History",
    "Billing_SharedSaga",
    "ClaimedValues",
)

SYSTEM = """
from dataclasses import dataclass
from datetime import timedelta

import rowbus
from shop import endpoint as sales

kept = rowbus.EndpointSettings(deduplicate_for=timedelta(days=1))
billing = rowbus.Endpoint("Billing", settings=kept)

billing.limit("100/second")
billing.use(rowbus.ClaimCheck(properties={"Shop.Remind": ["note"]}))

@billing.every(timedelta(hours=1), type="Shop.Remind")
def remind() -> dict[str, str]:
    return {}

@dataclass
class Order:
    order_id: str = ""

class OrderSaga(rowbus.Saga[Order], correlation="order_id", history=True):
    @rowbus.starts(Order, by=lambda message: message.order_id)
    async def begin(self, message: Order) -> None: ...

class SharedSaga(rowbus.Saga[Order], correlation="order_id", layout="nservicebus"):
    @rowbus.starts(Order, by=lambda message: message.order_id)
    async def begin(self, message: Order) -> None: ...

billing.add(OrderSaga)
billing.add(SharedSaga)
"""


@pytest.fixture
def shop(rowbus: CommandLine) -> CommandLine:
    """Give a command line in a folder with an endpoint."""
    (rowbus.folder / "shop.py").write_text(ENDPOINT)
    return rowbus


def verified(rowbus: CommandLine, *arguments: str) -> tuple[int, dict[str, list[str]]]:
    done = rowbus("schema", "verify", "--json", *arguments)
    return done.returncode, {found["queue"]: found["differences"] for found in json.loads(done.stdout)}


def test_the_sql_printed_runs_in_psql_and_makes_queues_that_verify(rowbus: CommandLine, ask: Ask) -> None:
    options = ["--create-schema", "--body-string", "--notify-trigger"]
    printed = rowbus("schema", "sql", "--queue", '"shop"."100% %(x)s"', "--queue", "Sales", *options)
    assert ask("select count(*) from pg_namespace where nspname = 'shop'") == [(0,)], "it executed something"

    psql = shutil.which("psql")
    if psql:
        command = [psql, "--quiet", "--set=ON_ERROR_STOP=1", rowbus.database]
        subprocess.run(command, input=printed.stdout.encode(), check=True, capture_output=True)
    else:
        ask(printed.stdout)

    assert verified(rowbus) == (0, {'"public"."Sales"': [], '"shop"."100% %(x)s"': []})
    assert ask("select count(*) from pg_trigger where tgname = 'rowbus_notify'") == [(2,)]
    assert ask('select bodystring from shop."100% %(x)s"') == []


def test_an_endpoint_names_its_own_queue_and_its_error_queue(shop: CommandLine) -> None:
    printed = shop("schema", "sql", "shop:endpoint").stdout
    installed = shop("schema", "install", "shop:endpoint").stdout
    again = shop("schema", "install", "shop:endpoint").stdout

    assert '"public"."Sales"' in printed
    assert '"public"."Sales.Delayed"' in printed
    tables = [f'"public"."{name}"' for name in ("Sales", "error", "SubscriptionRouting", "Sales.Delayed")]
    assert installed.splitlines() == [f"Created {table}." for table in tables]
    assert again.splitlines() == [f"{table} was there already." for table in tables]
    verifiable = [table for table in tables if "Routing" not in table]
    assert verified(shop, "shop:endpoint") == (0, {table: [] for table in verifiable})


def test_a_module_stands_for_all_its_endpoints(shop: CommandLine) -> None:
    (shop.folder / "system.py").write_text(SYSTEM)

    installed = shop("schema", "install", "system").stdout

    created = {line[8:-1].replace('"', "") for line in installed.splitlines() if line.startswith("Created ")}
    assert created == {f"public.{name}" for name in (*TABLES, "SubscriptionRouting")}


def test_what_is_printed_for_a_module_is_all_that_its_endpoints_need(
    shop: CommandLine, ask: Ask, role: str
) -> None:
    (shop.folder / "system.py").write_text(SYSTEM)

    printed = shop("schema", "sql", "system").stdout
    ask(printed)
    granted = shop("schema", "grants", "system", "--role", role).stdout
    ask(granted)

    assert verified(shop, "system") == (0, {f'"public"."{name}"': [] for name in TABLES})
    assert printed.count('create table if not exists "public"."error"') == 1, "the endpoints share it"
    for name in ("Sales", "Billing", "Billing.Inbox", "Billing.Recurring"):
        assert ask(f"select has_table_privilege('{role}', '\"{name}\"', 'delete')") == [(True,)], name


def test_verify_misses_an_endpoints_own_tables(shop: CommandLine, ask: Ask) -> None:
    (shop.folder / "system.py").write_text(SYSTEM)
    shop("schema", "install", "system")
    ask('drop table "Billing.Inbox"')

    code, differences = verified(shop, "system:billing")

    assert code == 1
    wrong = {name: found for name, found in differences.items() if found}
    assert wrong == {'"public"."Billing.Inbox"': ["there is no such table"]}


def test_a_module_without_endpoints_is_named(shop: CommandLine) -> None:
    (shop.folder / "empty.py").write_text("")

    done = shop("schema", "install", "empty")

    assert done.returncode != 0
    assert "empty names no rowbus.Endpoint; import there those of your system." in done.stderr


def test_verify_says_what_differs_and_ends_with_1(rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales", "Billing")
    ask('alter table "Sales" alter column seq type bigint, alter column headers drop not null')

    code, differences = verified(rowbus)

    assert code == 1
    assert differences == {
        '"public"."Billing"': [],
        '"public"."Sales"': [
            "the column headers takes null",
            "the column seq is bigint instead of integer",
        ],
    }
    assert "bigint" in rowbus("schema", "verify").stdout


def test_verify_misses_a_queue_that_was_named(shop: CommandLine) -> None:
    missing = ["there is no such table"]

    assert verified(shop, "--queue", "Nowhere") == (1, {'"public"."Nowhere"': missing})
    code, differences = verified(shop, "shop:endpoint")
    assert code == 1
    assert (differences['"public"."Sales"'], differences['"public"."error"']) == (missing, missing)
    assert "no table of delayed messages" in differences['"public"."Sales.Delayed"'][0]


def test_verify_ends_with_1_when_there_is_nothing_to_verify(rowbus: CommandLine) -> None:
    assert verified(rowbus) == (1, {})


def test_verify_can_be_limited_to_a_schema(rowbus: CommandLine) -> None:
    rowbus("queue", "create", "Sales", '"shop"."Sales"', "--create-schema")

    assert verified(rowbus, "--schema", "shop") == (0, {'"shop"."Sales"': []})


def test_a_sender_needs_no_more_than_what_is_granted(rowbus: CommandLine, ask: Ask, role: str) -> None:
    rowbus("queue", "create", "Sales", "--schema", "shop", "--create-schema", "--notify-trigger")
    ask("create table shop.orders ()")
    ask(rowbus("schema", "grants", "--role", role, "--queue", "Sales", "--schema", "shop", "--send").stdout)

    one = ["queue", "send", "Sales", "1", "--type", "T", "--schema", "shop"]
    many = ["queue", "send", "Sales", "--lines", "--type", "T", "--schema", "shop", "--ttbr", "1h"]
    sender = as_role(rowbus.database, role)
    assert rowbus(*one, ROWBUS_DATABASE=sender).returncode == 0
    assert rowbus(*many, input="2\n3", ROWBUS_DATABASE=sender).returncode == 0
    refused = rowbus("queue", "peek", "Sales", "--schema", "shop", ROWBUS_DATABASE=sender)

    assert ask('select count(*) from shop."Sales"') == [(3,)]
    assert refused.returncode == 1
    assert "permission denied" in refused.stderr


def test_a_receiver_needs_no_more_than_what_is_granted(shop: CommandLine, ask: Ask, role: str) -> None:
    shop("schema", "install", "shop:endpoint")
    ask(shop("schema", "grants", "shop:endpoint", "--role", role).stdout)
    orders = '{"id": 1}\n{"id": 2, "bad": true}'
    shop("queue", "send", "Sales", "--lines", "--type", "Shop.PlaceOrder", input=orders)

    receiver = as_role(shop.database, role)
    serving = shop.start("run", "shop:endpoint", "--no-install", ROWBUS_DATABASE=receiver)
    serving.wait_for("no such article")
    serving.process.terminate()

    assert serving.wait() == 0
    assert ask('select count(*) from "Sales"') == [(0,)]
    assert ask('select count(*) from "error"') == [(1,)]
    with psycopg.connect(receiver) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute('select from "error"')


def test_grants_for_a_receiver_include_purging(rowbus: CommandLine, ask: Ask, role: str) -> None:
    rowbus("queue", "create", "Sales")
    ask(rowbus("schema", "grants", "--role", role, "--queue", "Sales", "--receive").stdout)

    done = rowbus("queue", "purge", "Sales", "--yes", ROWBUS_DATABASE=as_role(rowbus.database, role))

    assert done.returncode == 0, done.stderr
    assert (
        rowbus(
            "queue", "send", "Sales", "1", "--type", "T", ROWBUS_DATABASE=as_role(rowbus.database, role)
        ).returncode
        == 1
    )
