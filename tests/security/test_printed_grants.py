"""`rowbus schema grants`: each role of docs/security.md does its work with what is printed, and nothing beside."""

from __future__ import annotations

import json
from collections.abc import Callable
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors

from rowbus import Client
from rowbus.database.backends import addresses_of, open_database
from rowbus.errors import ConfigurationError
from rowbus.web.operations import Note, Operation, begin
from tests.fixtures.command_line import Ask, CommandLine, as_role

AwaitRows = Callable[[str, int], None]

ENDPOINT = """
from datetime import timedelta

import rowbus

endpoint = rowbus.Endpoint(
    "Sales",
    recoverability=rowbus.Recoverability(immediate=1, delayed=1, increase=timedelta(milliseconds=20)),
    settings=rowbus.EndpointSettings(audit_queue="audit", deduplicate_for=timedelta(hours=1)),
)


@endpoint.handler("Shop.PlaceOrder", limit=rowbus.RateLimit("100/second", by=str))
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


CLAIMS = """
import rowbus

check = rowbus.ClaimCheck(properties={"Shop.SendInvoice": ["scan"]})
endpoint = rowbus.Endpoint("Invoices")
endpoint.use(check)


@endpoint.handler("Shop.SendInvoice")
async def send_invoice(message: dict, context: rowbus.Context) -> None:
    assert message["scan"] == "x" * 10_000
    await context.send("Billing", message, type="Shop.SendInvoice")
"""
SENDER = """
import psycopg, rowbus
from invoices import check

with psycopg.connect(rowbus.resolve_dsn()) as connection:
    rowbus.Client(connection, mutators=[check]).send("Invoices", {"scan": "x" * 10_000}, type="Shop.SendInvoice")
"""


def test_values_are_kept_by_senders_and_read_and_swept_by_endpoints_with_what_is_granted(
    rowbus: CommandLine, ask: Ask, role: str, another_role: str, await_rows: AwaitRows
) -> None:
    (rowbus.folder / "invoices.py").write_text(CLAIMS)
    assert rowbus("schema", "install", "invoices:endpoint").returncode == 0
    assert rowbus("schema", "verify", "invoices:endpoint").returncode == 0
    rowbus("queue", "create", "Billing")
    grant(rowbus, ask, role, "invoices:endpoint")
    grant(rowbus, ask, role, "--queue", "Billing", "--send")
    grant(rowbus, ask, another_role, "invoices:endpoint", "--send")
    ask(
        'insert into "ClaimedValues" (id, part, parts, keep_until, content) '
        "values (gen_random_uuid(), 0, 1, now() - interval '1 hour', '\\x00')"
    )
    sender = as_role(rowbus.database, another_role)
    serving = rowbus.start(
        "run", "invoices:endpoint", "--no-install", ROWBUS_DATABASE=as_role(rowbus.database, role)
    )
    assert rowbus.start_python(SENDER, ROWBUS_DATABASE=sender).wait() == 0

    await_rows('select count(*) from "Billing"', 1)
    await_rows('select count(*) from "ClaimedValues"', 2)  # one received, one sent on; the old one is swept
    serving.process.terminate()
    assert serving.wait() == 0
    with psycopg.connect(sender, autocommit=True) as connection:
        for refused in ('select from "ClaimedValues"', 'delete from "ClaimedValues"'):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(refused.encode())


STORE = """
from datetime import timedelta

import rowbus
from rowbus import DelayedDeliverySettings

endpoint = rowbus.Endpoint(
    "Keeper",
    recoverability=rowbus.Recoverability(immediate=0, delayed=1, increase=timedelta(milliseconds=20)),
    delayed_delivery=DelayedDeliverySettings(rowbus.PostgresDelayedMessageStore()),
)


@endpoint.handler("Shop.PlaceOrder")
async def place_order(message: dict, context: rowbus.Context) -> None:
    raise ValueError("no such article")
"""


def test_an_endpoint_with_a_store_retries_later_with_what_is_granted(
    rowbus: CommandLine, ask: Ask, role: str, await_rows: AwaitRows
) -> None:
    (rowbus.folder / "keeper.py").write_text(STORE)
    rowbus("schema", "install", "keeper:endpoint")
    grant(rowbus, ask, role, "keeper:endpoint")
    serving = rowbus.start(
        "run", "keeper:endpoint", "--no-install", ROWBUS_DATABASE=as_role(rowbus.database, role)
    )

    rowbus("queue", "send", "Keeper", "{}", "--type", "Shop.PlaceOrder")

    await_rows("select count(*) from error", 1)
    serving.process.terminate()
    assert serving.wait() == 0
    (failed,) = (json.loads(headers) for (headers,) in ask("select headers from error"))
    assert failed["NServiceBus.ExceptionInfo.Message"] == "no such article"
    assert "NServiceBus.Retries.Timestamp" in failed, "it was not retried later"


def test_an_endpoint_reaches_no_table_but_its_own(shop: CommandLine, ask: Ask, role: str) -> None:
    grant(shop, ask, role, "shop:endpoint")
    grant(shop, ask, role, "--queue", "Billing", "--send")
    with psycopg.connect(as_role(shop.database, role), autocommit=True) as connection:
        for refused in (
            'select from "Billing"',
            'delete from "Billing"',
            "select from error",
            "delete from audit",
            "insert into \"Other\" (id, headers) values (gen_random_uuid(), '{}')",
            'select from "Other"',
            "select from bystander",
            "create table mine ()",
            'drop table "Sales"',
            'alter table "Sales" add column mine int',
            'truncate "Sales"',
            'create trigger mine after insert on "Sales" execute function mine()',
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(refused.encode())


def test_an_operator_puts_failed_messages_back_and_a_viewer_only_sees_them(
    shop: CommandLine, ask: Ask, role: str
) -> None:
    headers = json.dumps({"NServiceBus.FailedQ": '"public"."Sales"'})
    ask("insert into error (id, headers) values (gen_random_uuid(), %s)", [headers])
    person = {"ROWBUS_DATABASE": as_role(shop.database, role)}

    grant(shop, ask, role, "shop:endpoint", "--view")
    assert shop("errors", "list", "--json", **person).returncode == 0
    assert shop("doctor", **person).returncode == 0
    refused = shop("errors", "retry", "--all", **person)
    assert refused.returncode == 1
    assert "permission denied" in refused.stderr

    grant(shop, ask, role, "shop:endpoint", "--operate", "--web")
    assert shop("errors", "retry", "--all", **person).returncode == 0
    assert ask('select count(*) from "Sales"') == [(1,)]
    assert shop("queue", "purge", "Sales", "--yes", **person).returncode == 0
    retried = {"ServiceControl.Retry.UniqueMessageId": str(uuid4()), **json.loads(headers)}
    ask("insert into error (id, headers) values (gen_random_uuid(), %s)", [json.dumps(retried)])
    discarded = shop("errors", "discard", "--all", "--resolve", "--yes", **person)
    assert (discarded.returncode, ask("select count(*) from error")) == (0, [(1,)]), discarded.stderr
    delayed = str(uuid4())
    for act in (("delayed", "send-now"), ("delayed", "cancel"), ("recurring", "remove")):
        done = shop(*act, "Sales", delayed, **person)
        assert done.returncode == 1  # there is none, as far as it may see
        assert "permission denied" not in done.stderr


def test_a_role_without_rights_notes_what_it_does_on_the_web_page(
    shop: CommandLine, ask: Ask, role: str, another_role: str
) -> None:
    dsn = as_role(shop.database, role)
    with pytest.raises(ConfigurationError, match=r"rowbus schema grants --web --role ROLE"):
        note_one(dsn)
    viewer = as_role(shop.database, another_role)

    grant(shop, ask, role, "--web")
    grant(shop, ask, another_role, "--web", "--view", "--queue", "error")
    note_one(dsn)

    assert ask('select person, action from "Rowbus.Operations"') == [("ada", "retry messages")]
    with psycopg.connect(viewer, autocommit=True) as looking:
        assert looking.execute('select count(*) from "Rowbus.Operations"').fetchall() == [(1,)]
    for who, statement in ((dsn, "delete from"), (viewer, "update"), (viewer, "delete from")):
        ending = " set person = 'bob'" if statement == "update" else ""
        with psycopg.connect(who) as person, pytest.raises(errors.InsufficientPrivilege):
            person.execute(f'{statement} "Rowbus.Operations"{ending}'.encode())
    with pytest.raises(ConfigurationError, match="Nothing was done"):
        note_one(viewer)
    with psycopg.connect(dsn) as person, pytest.raises(errors.InsufficientPrivilege):
        person.execute("select * from error")


def note_one(dsn: str) -> None:
    """Note an operation as the page does before it does anything."""
    with open_database(dsn).session() as session:
        begin(session, addresses_of(dsn), Operation("ada", "retry messages", "all", "/"), Note("error", None))


BEATING = """
import rowbus

QUEUE = '"public"."Particular.ServiceControl"'
endpoint = rowbus.Endpoint(
    "Beating",
    settings=rowbus.EndpointSettings(
        service_platform={
            "Heartbeats": {"Enabled": True, "HeartbeatsQueue": QUEUE, "Frequency": "00:00:01"},
            "CustomChecks": {"Enabled": True, "CustomChecksQueue": QUEUE},
            "Metrics": {"Enabled": True, "MetricsQueue": '"public"."Particular.Monitoring"'},
        }
    ),
)


@endpoint.handler("Shop.PlaceOrder")
async def place_order(message: dict) -> None: ...
"""
OWN_QUEUES = (
    "Particular.ServiceControl",
    "Particular.ServiceControl.Errors",
    "Particular.ServiceControl.staging",
    "Particular.ServiceControl.Audit",
    "Particular.ServiceControl.Audit.Errors",
    "Particular.Monitoring",
    "ServiceControl.ThroughputData",
)


def test_an_endpoint_reports_to_the_platform_with_what_is_granted(
    rowbus: CommandLine, ask: Ask, role: str, await_rows: AwaitRows
) -> None:
    (rowbus.folder / "beating.py").write_text(BEATING)
    rowbus("schema", "install", "beating:endpoint")
    rowbus("queue", "create", *(f'"{name}"' for name in OWN_QUEUES))
    grant(rowbus, ask, role, "beating:endpoint")
    serving = rowbus.start(
        "run", "beating:endpoint", "--no-install", ROWBUS_DATABASE=as_role(rowbus.database, role)
    )

    await_rows('select least(count(*), 2) from "Particular.ServiceControl"', 2)  # the start, and a heartbeat
    await_rows('select least(count(*), 1) from "Particular.Monitoring"', 1)
    serving.process.terminate()
    assert serving.wait() == 0
    with psycopg.connect(as_role(rowbus.database, role), autocommit=True) as connection:
        for refused in ("select from", "delete from"):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(f'{refused} "Particular.ServiceControl"'.encode())


QUEUES_OF_THE_USAGE_REPORT = b"""
    select table_name from information_schema.columns
    where (column_name, data_type) in (('id', 'uuid'), ('expires', 'timestamp without time zone'), ('headers', 'text'),
        ('body', 'bytea'), ('seq', 'integer'))
    group by table_schema, table_name having count(*) = 5
"""
SUBSCRIBED = b"""
    insert into "SubscriptionRouting" (queueaddress, endpoint, topic)
    values ('"public"."error"', 'Particular.ServiceControl', 'Shop.OrderPlaced')
"""


def test_servicecontrol_imports_retries_and_measures_with_what_is_granted(
    shop: CommandLine, ask: Ask, role: str
) -> None:
    shop("queue", "create", *(f'"{name}"' for name in OWN_QUEUES))
    grant(shop, ask, role, "shop:endpoint", "--queue", "Web", "--servicecontrol")
    row = "(id, headers, body) values (gen_random_uuid(), '{}', '')"
    take = (
        'delete from "{0}" where seq in (select seq from "{0}" for update skip locked limit 1) returning id'
    )
    with psycopg.connect(as_role(shop.database, role), autocommit=True) as connection:
        for queue in (*OWN_QUEUES, "error", "audit"):
            connection.execute(f'insert into "{queue}" {row}'.encode())
            assert len(connection.execute(take.format(queue).encode()).fetchall()) == 1, queue
        for queue in ("Sales", "Web"):
            connection.execute(f'insert into "{queue}" {row}'.encode())  # a retry
            length = (
                f'select max(seq) - min(seq) + 1 from (select seq from "{queue}" for update skip locked) rows'
            )
            assert connection.execute(length.encode()).fetchall() == [(1,)]
        queues = {name for (name,) in connection.execute(QUEUES_OF_THE_USAGE_REPORT)}
        assert queues == {*OWN_QUEUES, "error", "audit", "Sales", "Web"}
        for queue in queues:
            connection.execute(f'select last_value from "{queue}_seq_seq"'.encode())
        connection.execute('select queueaddress from "SubscriptionRouting"')
        connection.execute(SUBSCRIBED)
        for refused in (
            'delete from "Sales"',
            'select from "Billing"',
            f'insert into "Billing" {row}',
            'select from "Sales.Delayed"',
            "select from bystander",
            'truncate "Sales"',
            'drop table "Sales"',
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(refused.encode())


DOTNET = """
    insert into "public"."Sales" (Id, Expires, Headers, Body)
    values (%s, (now() at time zone 'UTC') + (%s::int || ' ms')::interval, %s, %s)
"""  # as NServiceBus's endpoints send
HEADERS = '{"NServiceBus.MessageId": "1"}'
NEXT_PLACES = """
    insert into "Sales" (id, headers, body, seq)
    select gen_random_uuid(), '{}', '', n from generate_series(1, 1000) as n
"""


def test_a_sender_chooses_no_places_for_whose_transaction_the_others_would_wait(
    rowbus: CommandLine, ask: Ask, role: str
) -> None:
    rowbus("queue", "create", "Sales", "Billing")
    ask(f'grant insert on "Sales" to {role}')  # what earlier versions printed
    whole = f"{role} may choose the place"
    assert whole in rowbus("schema", "verify").stdout
    assert whole in rowbus("doctor").stdout

    grant(rowbus, ask, role, "--queue", "Sales", "--send")

    assert whole not in rowbus("schema", "verify").stdout
    with psycopg.connect(as_role(rowbus.database, role), autocommit=True) as connection:
        for attack in (NEXT_PLACES, """select setval('"Sales_seq_seq"', 1)"""):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(attack.encode())
        connection.execute(DOTNET.encode(), [uuid4(), None, HEADERS, b"1"])
        client = Client(connection)
        client.send("Sales", b"2", type="Shop.Message")
        client.send_many("Sales", [b"3", b"4"], type="Shop.Message")
        client.send_many("Sales", (b"5" for _ in range(1_500)), type="Shop.Message")
    assert ask('select count(*) from "Sales"') == [(1_504,)]


def test_what_servicecontrol_needs_is_printed_without_an_endpoint(rowbus: CommandLine) -> None:
    printed = rowbus("schema", "grants", "--servicecontrol", "--role", "monitor", "--schema", "shop")
    assert printed.returncode == 0, printed.stderr
    tables = {
        line.split('"shop".')[1].partition('"')[2].partition('"')[0]
        for line in printed.stdout.splitlines()
        if "on table" in line
    }
    assert tables == {*OWN_QUEUES, "error", "audit", "SubscriptionRouting"}


def test_one_file_gives_what_the_commands_for_each_role_give(shop: CommandLine) -> None:
    (shop.folder / "roles.toml").write_text(
        '[sales]\nreceive = ["Sales"]\nsend = ["Billing"]\n'
        '[people]\noperate = ["Sales"]\nweb = true\nlog = ["receive"]\n'
        '[guests]\nview = ["Sales"]\nweb = true\n'
    )
    (shop.folder / "wrong.toml").write_text('[sales]\nrecieve = ["Sales"]\n')

    printed = shop("schema", "grants", "shop", "--roles", "roles.toml").stdout
    wrong = shop("schema", "grants", "shop", "--roles", "wrong.toml")

    for role, *asked in (
        ("sales", "shop:endpoint", "--receive"),
        ("sales", "--queue", "Billing", "--send"),
        ("people", "shop:endpoint", "--operate"),
        ("people", "--web"),
        ("people", "--log", "--receive"),
        ("guests", "shop:endpoint", "--view", "--web"),
    ):
        single = shop("schema", "grants", *asked, "--role", role).stdout
        assert set(single.splitlines()) <= set(printed.splitlines()), asked
    assert not [
        line for line in printed.splitlines() if "guests" in line and ("insert" in line or "delete" in line)
    ]
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "recieve" in wrong.stderr


@pytest.mark.one_version
def test_servicecontrol_takes_from_an_audit_queue_that_an_endpoint_does_not_name(rowbus: CommandLine) -> None:
    (rowbus.folder / "plain.py").write_text('import rowbus\nplain = rowbus.Endpoint("Plain")\n')
    for which in (("plain:plain",), ("plain:plain", "--queue", "audit"), ("--queue", "audit")):
        printed = rowbus("schema", "grants", *which, "--servicecontrol", "--role", "monitor")
        assert printed.returncode == 0, printed.stderr
        assert 'grant select, update, delete on table "public"."audit" to "monitor"' in printed.stdout, which
