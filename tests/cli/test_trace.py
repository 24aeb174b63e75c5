"""`rowbus trace`: who changed a row, and what a message changed and sent; of no other row and no other message."""

from __future__ import annotations

import json
import uuid
from typing import Any

import psycopg
import pytest

import rowbus
from tests.fixtures.command_line import CommandLine

ANN = {
    "message_id": "m-1",
    "conversation_id": "c",
    "message_type": "Shop.PlaceOrder",
    "handler": "shop.place",
}
FORMATS = ["json", "url"]


@pytest.fixture
def database(log_database: str) -> str:
    """Give a database that has the event log."""
    return log_database


def say(connection: psycopg.Connection, **parts: str) -> None:
    """Say what causes the changes of the transaction, as a receiver does."""
    connection.execute("select set_config('rowbus.cause', %s, true)", [json.dumps(parts)])


@pytest.fixture
def shop(pgq: psycopg.Connection) -> psycopg.Connection:
    """Give a captured table of orders, by region and number, with changes of several messages."""
    pgq.execute("select pgq.create_queue('changes')")
    pgq.execute("create table orders (region text, number numeric, note text, primary key (region, number))")
    return pgq


def change(connection: psycopg.Connection, form: str) -> None:
    connection.execute("select pgq.capture_table('orders', 'changes', %s)", [form])
    with connection.transaction():
        say(connection, **ANN)
        connection.execute(
            "insert into orders values ('EU', 42, 'new'), ('EU', 4, '42'), ('a&b \"c\"', 42, 'EU')"
        )
    with connection.transaction():
        say(connection, message_id="m-11", user="bob")
        connection.execute("update orders set note = 'changed' where number = 42 and region = 'EU'")
    connection.execute("delete from orders where number = 42 and region = 'EU'")


def told(rowbus: CommandLine, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    done = rowbus("trace", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("form", FORMATS)
def test_a_row_is_told_by_its_whole_key_with_what_caused_each_change(
    shop: psycopg.Connection, rowbus: CommandLine, form: str
) -> None:
    change(shop, form)
    changes = told(rowbus, "row", "orders", "EU", "42")
    assert [(it["operation"], it["cause"]["message_id"], it["cause"]["user"]) for it in changes] == [
        ("insert", "m-1", None),
        ("update", "m-11", "bob"),
        ("delete", None, None),
    ]
    assert {(it["log"], it["table"], *it["key"].values()) for it in changes} == {
        ("changes", "public.orders", "EU", "42")
    }
    [odd] = told(rowbus, "row", "public.orders", 'a&b "c"', "42")
    assert odd["key"] == {"region": 'a&b "c"', "number": "42"}

    missing = rowbus("trace", "row", "orders", "EU", "2")
    assert missing.returncode == 1
    assert "no log holds a change of orders EU 2" in missing.stderr

    shop.execute("alter table orders rename to sold; create table orders (like sold including all)")
    shop.execute("select pgq.capture_table('orders', 'changes', %s)", [form])
    shop.execute("insert into orders values ('EU', 42, 'another')")
    assert told(rowbus, "row", "sold", "EU", "42") == changes
    assert [it["operation"] for it in told(rowbus, "row", "orders", "EU", "42")] == ["insert"]
    shop.execute("drop table sold; alter table orders rename to sold")
    assert [it["operation"] for it in told(rowbus, "row", "sold", "EU", "42")] == ["insert"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_key_is_given_in_any_form_of_its_types_and_is_found_in_all_partitions(
    shop: psycopg.Connection, rowbus: CommandLine, form: str
) -> None:
    shop.execute(
        "create table parts (b bool, at timestamptz, n numeric, u uuid, c char(3), t text, "
        "primary key (b, at, n, u, c, t)) partition by list (b); create table yes partition of "
        "parts for values in (true) partition by list (b);"
        "create table deep partition of yes default; create table no partition of parts default"
    )
    shop.execute("select pgq.capture_table('parts', 'changes', %s)", [form])
    with shop.transaction():
        say(shop, message_id="m-ż")
        shop.execute(
            "insert into parts select b, '2026-01-02 03:00+01', n, '00000000-0000-0000-0000-00000000000a', 'x', t "
            "from (values (true), (false)) as b (b), (values (1.50), (2)) as n (n), (values ('1.5'), ('1.50')) as t (t)"
        )
    for written in ("t", "2026-01-02 02:00:00+00", "1.50"), ("true", "2026-01-02T03:00:00+01:00", "1.5"):
        arguments = [*written, "00000000-0000-0000-0000-00000000000A", "x", "1.5"]
        [found] = told(rowbus, "row", "parts", *arguments)
        assert (found["table"], found["key"]["t"], found["cause"]["message_id"]) == (
            "public.deep",
            "1.5",
            "m-ż",
        )
    assert len(told(rowbus, "message", "m-ż")["changes"]) == 8
    missing = rowbus("trace", "row", "parts", "t", "2026-01-02")
    assert missing.returncode == 2
    assert "The key of parts is (b, at, n, u, c, t): give as many values" in missing.stderr


def test_what_empties_the_table_changes_each_row(shop: psycopg.Connection, rowbus: CommandLine) -> None:
    change(shop, "json")
    with shop.transaction():
        say(shop, message_id="m-3")
        shop.execute("truncate orders")
    assert [it["operation"] for it in told(rowbus, "row", "orders", "EU", "4")] == ["insert", "truncate"]


def test_a_message_is_told_with_what_it_changed_and_sent(
    shop: psycopg.Connection, rowbus: CommandLine
) -> None:
    change(shop, "json")
    for statement in (f"Billing{number}" for number in range(2)):
        for line in _queue(statement):
            shop.execute(line)
    sent = {
        "NServiceBus.RelatedTo": "m-1",
        "NServiceBus.MessageId": "s",
        "NServiceBus.EnclosedMessageTypes": "Shop.Bill",
    }
    for headers in (sent, {**sent, "NServiceBus.RelatedTo": "m-11"}, {}):
        query = 'insert into "Billing1" (id, headers, body) values (%s, %s, %s)'
        shop.execute(query, [uuid.uuid4(), json.dumps(headers), b"{}"])

    found = told(rowbus, "message", "m-1")
    assert [it["key"]["number"] for it in found["changes"]] == ["42", "4", "42"]
    assert [(it["message_id"], it["type"]) for it in found["sent"]] == [("s", "Shop.Bill")]
    shown = rowbus("trace", "message", "m-1").stdout
    assert "region=EU, number=42" in shown
    assert "Billing1" in shown

    nothing = rowbus("trace", "message", "m")
    assert nothing.returncode == 1
    assert "no log holds a change that message m caused" in nothing.stderr


@pytest.mark.parametrize("what", [("row", "orders", "EU", "4"), ("message", "m-1")])
def test_where_there_is_no_log_it_says_what_to_do(
    pgq: psycopg.Connection, rowbus: CommandLine, what: tuple[str, ...]
) -> None:
    pgq.execute("drop schema pgq cascade")
    done = rowbus("trace", *what)
    assert done.returncode == 1
    assert "install it with `rowbus log install`" in done.stderr


def _queue(name: str) -> list[bytes]:
    return [statement.encode() for statement in rowbus.queue_sql(name)]
