"""`rowbus doctor`: finds what hurts, says what to do, and ends with 1 only for what is broken."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import psycopg
import pytest

import rowbus as bus
from tests.fixtures.command_line import Ask, CommandLine, as_role
from tests.fixtures.every import every
from tests.fixtures.pooler import Pooled


def put(queue: str, headers: str) -> str:
    row = f"(gen_random_uuid(), '{headers}', '')"
    return f'insert into "{queue}" (id, headers, body) values {row}'


def examined(rowbus: CommandLine, **environment: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = rowbus("doctor", "--json", **environment)
    return done.returncode, {finding["subject"]: finding for finding in json.loads(done.stdout)}


def test_a_database_in_order_fails_nothing(rowbus: CommandLine, ask: Ask, database: str) -> None:
    quote = "execute format('alter database %I set quote_all_identifiers to on', current_database())"
    ask(f"do $$ begin {quote}; end $$")
    sales = bus.Endpoint("Sales", database=database)

    @sales.handler("Shop.Pack", long=True)
    def pack(message: dict[str, Any]) -> None: ...

    asyncio.run(sales.install())

    code, findings = examined(rowbus)

    assert code == 0
    assert set(findings) >= {"server", "connection", "durability", "time zone", "connections", "snapshots"}
    assert findings["server"]["level"] == "ok"
    assert findings['"public"."Sales"']["level"] == "ok"
    assert '"public"."Sales.Running"' not in findings
    shown = rowbus("doctor")
    assert shown.returncode == 0
    assert findings["server"]["text"] in shown.stdout


@pytest.mark.one_version
def test_a_queue_that_somebody_changed_fails_and_ends_with_1(rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales")
    ask('alter table "Sales" drop constraint "Sales_seq_key"')

    code, findings = examined(rowbus)

    assert code == 1
    assert findings['"public"."Sales"']["level"] == "fail"
    assert "no unique index on the column seq" in findings['"public"."Sales"']["text"]
    assert findings['"public"."Sales"']["advice"]


SENT = '{"NServiceBus.TimeSent": "2026-01-01 00:00:00:000000 Z", "NServiceBus.FailedQ": "Sales"}'
OLD = SENT.replace("NServiceBus.FailedQ", "Any")
AHEAD = SENT.replace("2026", "2126").replace("NServiceBus.FailedQ", "NServiceBus.OriginatingMachine")
MISSED = """
    create table "Keeper.Recurring" (
        name text primary key, schedule text not null, next_due timestamptz not null, last_sent timestamptz
    );
    insert into "Keeper.Recurring" values ('nightly', 'every 1:00:00', now() - interval '1 minute'),
    ('weekly', 'every 168:00:00', now())
"""
HEAP = """
    delete from "Sales";
    insert into "Sales" (id, headers, body)
    select gen_random_uuid(), format('{"NServiceBus.TimeSent": "%s"}', to_char(now(), 'YYYY-MM-DD HH24:MI:SS:US Z')), ''
    from generate_series(1, 1000)
"""


@every(
    "subject, trouble, level, words",
    [
        ('"public"."Sales"', put("Sales", OLD), "warn", ["1 wait", "nobody receives", "rowbus run"]),
        ('"public"."Sales"', HEAP, "warn", ["1,000 wait", "nobody receives"]),
        (
            '"public"."Sales"',
            f'delete from "Sales"; {put("Sales", AHEAD)}',
            "warn",
            ["from now", "the machine that sent it, Sales", "NTP"],
        ),
        (
            '"public"."Keeper.Recurring"',
            MISSED,
            "warn",
            ["nightly is due since 1 min", "rowbus recurring remove"],
        ),
        ('"public"."error"', put("error", SENT), "warn", ["1 failed message", "1 group", "rowbus errors"]),
        ('"public"."audit"', put("audit", OLD), "warn", ["only grows", "rowbus log from-queue"]),
        ("ticker", "select pgq.create_queue('orders')", "warn", ["none leads", "rowbus ticker"]),
        (
            "ticker",
            (
                "select pgq.ticker('orders');"
                "select pgq.insert_event('orders', 'placed', '{}');"
                "update pgq.tick set tick_time = tick_time - interval '20 seconds'"
            ),
            "fail",
            ["events wait"],
        ),
    ],
)
def test_what_is_wrong_is_said_and_what_to_do(
    rowbus: CommandLine, ask: Ask, subject: str, trouble: str, level: str, words: list[str]
) -> None:
    rowbus("queue", "create", "Sales", "error", "audit")
    rowbus("log", "install")
    ask(trouble)

    _, findings = examined(rowbus)

    assert findings[subject]["level"] == level
    assert all(word in findings[subject]["text"] + findings[subject]["advice"] for word in words)


def test_what_a_role_cannot_read_is_a_warning_and_a_gauge(rowbus: CommandLine, role: str) -> None:
    rowbus("queue", "create", "Sales")
    strange = as_role(rowbus.database, role)

    _, findings = examined(rowbus, ROWBUS_DATABASE=strange)
    measured = rowbus("metrics", ROWBUS_DATABASE=strange)

    assert findings['"public"."Sales"']["level"] == "warn"
    assert "rowbus schema grants" in findings['"public"."Sales"']["advice"]
    assert 'rowbus_queue_unreadable{queue="\\"public\\".\\"Sales\\""} 1' in measured.stdout
    assert measured.stderr.count("cannot read") == 1


@pytest.mark.one_version
def test_an_outbox_of_dotnet_beside_a_python_endpoint_is_watched(rowbus: CommandLine, ask: Ask) -> None:
    (rowbus.folder / "shop.py").write_text('import rowbus\nsales = rowbus.Endpoint("Shop.Sales")\n')
    subject = '"public"."Shop_Sales_OutboxData"'

    def finding() -> dict[str, Any] | None:
        findings = json.loads(rowbus("doctor", "shop:sales", "--json").stdout)
        return {one["subject"]: one for one in findings}.get(subject)

    assert finding() is None
    ask(f'create table {subject} ("MessageId" varchar(200) primary key, "Dispatched" boolean not null)')
    ask(f"insert into {subject} values ('m-1', true)")
    assert (finding() or {})["level"] == "ok"
    ask(f"insert into {subject} values ('m-2', false)")
    assert (finding() or {})["level"] == "warn"
    assert "1 messages of NServiceBus's outbox" in (finding() or {})["text"]


@pytest.mark.one_version
def test_the_sequence_is_watched(rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales")
    ask("select setval('\"Sales_seq_seq\"', 2147483000)")

    code, findings = examined(rowbus)

    assert code == 1
    assert "100% of its sequence" in findings['"public"."Sales"']["text"]


def test_an_open_transaction_is_named_by_its_process(rowbus: CommandLine, database: str, ask: Ask) -> None:
    """Its age decides how bad that is; a second is nothing to complain of (the unit tests have the thresholds)."""
    with psycopg.connect(database, application_name="report") as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")
        _, findings = examined(rowbus)

    assert findings["snapshots"]["level"] == "ok"
    assert "the oldest has lasted" in findings["snapshots"]["text"]


@pytest.mark.one_version
def test_what_a_role_cannot_see_is_said(rowbus: CommandLine, role: str) -> None:
    code, findings = examined(rowbus, ROWBUS_DATABASE=as_role(rowbus.database, role))

    assert code == 0
    assert findings["snapshots"]["level"] == "warn"
    assert "pg_read_all_stats" in findings["snapshots"]["advice"]


def test_a_pooler_in_between_is_told_of(rowbus: CommandLine, pooled: Pooled) -> None:
    assert "notifications" not in examined(rowbus)[1]

    code, findings = examined(rowbus, ROWBUS_DATABASE=pooled.dsn)

    assert code == 0
    assert findings["notifications"]["level"] == "warn"
    assert "LISTEN heard nothing, so there is a pooler in between" in findings["notifications"]["text"]


@pytest.mark.one_version
def test_the_time_zone_that_sessions_have_by_default_is_shown(rowbus: CommandLine) -> None:
    warsaw = psycopg.conninfo.make_conninfo(rowbus.database, options="-c TimeZone=Europe/Warsaw")

    _, findings = examined(rowbus, ROWBUS_DATABASE=warsaw)

    assert findings["time zone"]["level"] == "warn"
    assert "Europe/Warsaw" in findings["time zone"]["text"]


@pytest.mark.one_version
def test_delayed_messages_whose_time_a_time_zone_moved_fail(rowbus: CommandLine, ask: Ask) -> None:
    rowbus("queue", "create", "Sales")
    rowbus("delayed", "create", "Sales")
    ask(
        "insert into \"Sales.Delayed\" (headers, due) select json_build_object('NServiceBus.DeliverAt',"
        " to_char(now() at time zone 'UTC' + interval '1 hour', 'YYYY-MM-DD HH24:MI:SS:US \"Z\"')),"
        " now() + interval '4 hours'"
    )

    done = rowbus("doctor")

    assert done.returncode == 1
    assert "later than NServiceBus.DeliverAt says" in done.stdout


@pytest.mark.one_version
def test_acknowledgements_for_servicecontrol_are_no_failures_to_metrics(
    rowbus: CommandLine, ask: Ask
) -> None:
    rowbus("queue", "create", "error")
    failure = '{"NServiceBus.FailedQ": "Sales"}'
    acknowledgement = '{"NServiceBus.ControlMessage": "True", "ServiceControl.Retry.Successful": "now"}'
    for headers in (failure, acknowledgement, acknowledgement):
        ask(f"""insert into "error" (id, headers, body) values (gen_random_uuid(), '{headers}', '')""")

    lines = rowbus("metrics").stdout.splitlines()

    (depth,) = [line for line in lines if line.startswith("rowbus_error_queue_depth{")]
    assert depth.endswith(" 1")
    assert any(line.startswith("rowbus_queue_depth{") and line.endswith(" 3") for line in lines)


@pytest.mark.one_version
def test_a_captured_table_that_was_made_anew_is_told_to_who_may_read_the_log(
    rowbus: CommandLine, ask: Ask, role: str
) -> None:
    rowbus("schema", "install", "--log")
    rowbus("log", "create", "changes")
    ask("create table orders (id int primary key)")
    rowbus("log", "capture", "orders", "--log", "changes")
    ask("drop table orders; create table orders (id int primary key)")
    stranger = as_role(rowbus.database, role)

    assert "rowbus log capture public.orders --log changes" in rowbus("doctor", "--json").stdout
    _, findings = examined(rowbus, ROWBUS_DATABASE=stranger)
    assert 'log "changes"' in findings
    assert "made anew" not in str(findings)


CONFLICT = """
from dataclasses import dataclass

import rowbus


@rowbus.event("Shop.OrderPlaced")
@dataclass
class OrderPlaced:
    order_id: int
    {field}


endpoint = rowbus.Endpoint("{name}")


@endpoint.handler("Shop.Place{name}")
async def place(message: dict[str, object], context: rowbus.Context) -> None:
    {does}
"""
BILLING = "pass\n\n\n@endpoint.handler\nasync def bill(message: OrderPlaced) -> None: ..."


@pytest.mark.one_version
def test_an_endpoint_that_refuses_what_another_sends_is_told_of(rowbus: CommandLine) -> None:
    (rowbus.folder / "sales.py").write_text(
        CONFLICT.format(name="Sales", field="", does="await context.publish(OrderPlaced(1))")
    )
    (rowbus.folder / "billing.py").write_text(
        CONFLICT.format(name="Billing", field="amount: int", does=BILLING)
    )
    other = CONFLICT.format(name="Other", field="", does="pass").replace(
        'Endpoint("Other")', 'Endpoint("Sales")'
    )
    (rowbus.folder / "other.py").write_text(other)
    for name in ("sales", "billing", "other"):
        rowbus.start("run", f"{name}:endpoint").wait_for("is receiving")

    code, findings = examined(rowbus)

    assert code == 0
    assert findings["Shop.OrderPlaced"]["level"] == "warn"
    assert re.sub(r" \(version \w+\)", "", findings["Shop.OrderPlaced"]["text"]) == (
        "Billing handles it, and Sales publishes another: `amount` is required, and not there"
    )
    assert sorted(re.sub("version [0-9a-f]+", "one", findings["Sales"]["text"]).split(", ")) == [
        "one alone handles Shop.PlaceOther",
        "one alone handles Shop.PlaceSales",
    ]
