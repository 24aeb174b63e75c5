"""Lanes on the command line: installed, printed, granted, verified, changed and dropped with their endpoint."""

from __future__ import annotations

import json
import secrets

import pytest

from tests.fixtures.command_line import Ask, CommandLine, as_role

pytestmark = pytest.mark.one_version

ENDPOINT = """
import rowbus

sales = rowbus.Endpoint("Sales", lanes=rowbus.by_key({lanes}))

@sales.handler("Shop.PlaceOrder")
async def place_order(message: dict, context: rowbus.Context) -> None: ...
"""
TABLES = "select relname from pg_class where relkind = 'r' and relname like 'Sales%' order by 1"


def write(rowbus: CommandLine, lanes: int) -> None:
    longer = "#" * lanes  # of one size and second, the file would be taken for what is compiled already
    (rowbus.folder / "shop.py").write_text(ENDPOINT.format(lanes=lanes) + longer)


def test_lanes_are_installed_and_verified_changed_and_dropped(rowbus: CommandLine, ask: Ask) -> None:
    write(rowbus, 3)
    printed = rowbus("schema", "sql", "shop:sales").stdout
    missing = rowbus("schema", "verify", "shop:sales")
    ask(printed)
    installed = rowbus("schema", "install", "shop:sales")
    there = rowbus("schema", "verify", "shop:sales")
    for number in range(4):
        rowbus(
            "queue", "send", "Sales", "{}", "--type", "Shop.PlaceOrder", "--header", f"Rowbus.Key={number}"
        )
    write(rowbus, 2)
    other = rowbus("schema", "verify", "shop:sales")
    changed = rowbus("endpoint", "lanes", "shop:sales")

    assert (missing.returncode, installed.returncode, there.returncode) == (1, 0, 0), there.stdout
    assert "3 lanes by key, not 2 lanes by key" in other.stdout
    assert changed.stdout == '"public"."Sales" has 2 lanes by key; 4 messages moved.\n'
    assert [name for (name,) in ask(TABLES)] == ["Sales", "Sales#0", "Sales#1", "Sales.Delayed"]
    assert ask('select (select count(*) from "Sales#0") + (select count(*) from "Sales#1")') == [(4,)]
    dropped = rowbus("endpoint", "drop", "Sales", "--yes")
    assert dropped.returncode == 0, dropped.stderr
    assert ask(TABLES) == []


def test_a_role_is_granted_what_the_lanes_need(rowbus: CommandLine, ask: Ask) -> None:
    write(rowbus, 2)
    rowbus("schema", "install", "shop:sales")
    sender = f"sender_{secrets.token_hex(4)}"
    ask(f"create role {sender}")
    try:
        as_sender = ("--database", as_role(rowbus.database, sender))
        send = ("queue", "send", "Sales", "{}", "--type", "Shop.PlaceOrder", "--header", "Rowbus.Key=1")
        refused = rowbus(*send, *as_sender)
        ask(rowbus("schema", "grants", "shop:sales", "--send", "--role", sender).stdout)
        sent = rowbus(*send, *as_sender)
    finally:
        ask(f"drop owned by {sender}; drop role {sender}")

    assert (refused.returncode, sent.returncode) == (1, 0), sent.stderr
    assert ask('select (select count(*) from "Sales#0") + (select count(*) from "Sales#1")') == [(1,)]


def test_an_endpoint_with_lanes_is_one_thing_that_opens(rowbus: CommandLine) -> None:
    write(rowbus, 2)
    rowbus("schema", "install", "shop:sales")
    rowbus("queue", "create", "C#", "A#1")
    for number in range(4):
        rowbus("queue", "send", "Sales", "{}", "--type", "Shop.A", "--header", f"Rowbus.Key={number}")

    listed, opened = rowbus("queue", "list").stdout, rowbus("queue", "list", "--lanes").stdout
    as_json = {one["table"]: one for one in json.loads(rowbus("queue", "list", "--json").stdout)}
    measured = rowbus("metrics").stdout.splitlines()

    assert '"public"."Sales" and 2 lanes      4 ' in listed
    assert "Sales#0" not in listed
    assert "A#1" in listed
    assert "C#" in listed
    assert "Sales#0" in opened
    assert as_json["Sales#1"]["lane_of"] == '"public"."Sales"'
    assert as_json["Sales"]["lane_of"] is as_json["A#1"]["lane_of"] is None
    assert as_json["Sales#0"]["depth"] + as_json["Sales#1"]["depth"] == 4
    labels = r'queue="\"public\".\"Sales#1\"",kind="queue",endpoint="\"public\".\"Sales\"",lane="1"'
    assert f"rowbus_queue_depth{{{labels}}} {as_json['Sales#1']['depth']}" in measured


def test_the_doctor_says_one_thing_of_an_endpoint_with_its_lanes(rowbus: CommandLine, ask: Ask) -> None:
    write(rowbus, 3)
    rowbus("schema", "install", "shop:sales")
    rowbus("queue", "create", "A#1")
    queues = [one for one in json.loads(rowbus("doctor", "--json").stdout) if "Sales" in one["subject"]]
    own = [one for one in queues if "Delayed" not in one["subject"]]
    assert [one["subject"] for one in own] == ['"public"."Sales" and 3 lanes']

    headers = {"NServiceBus.TimeSent": "2026-01-01 00:00:00:000000 Z"}
    for lane in ("Sales#0", "Sales#2"):
        ask(
            f"""insert into "{lane}" (id, headers, body) values (gen_random_uuid(), '{json.dumps(headers)}', '')"""
        )
    ask('alter table "Sales#1" alter column body type text using null')
    found = [
        (one["subject"], one["level"], one["text"]) for one in json.loads(rowbus("doctor", "--json").stdout)
    ]
    lanes = [one for one in found if "Sales" in one[0] and "Delayed" not in one[0]]

    assert [one[:2] for one in lanes] == [
        ('"public"."Sales#1"', "fail"),
        ('"public"."Sales" and 2 lanes', "ok"),
        ('"public"."Sales" and 2 lanes', "warn"),
    ], lanes
    assert lanes[2][2].startswith("2 wait, the oldest for")


def test_a_purge_says_that_there_are_lanes_and_empties_them_when_told(rowbus: CommandLine, ask: Ask) -> None:
    write(rowbus, 2)
    rowbus("schema", "install", "shop:sales")
    rowbus("queue", "create", "Sales#old")  # no lane, though it is called like one
    rowbus("queue", "send", "Sales#old", "{}", "--type", "Shop.A")
    for number in range(4):
        rowbus("queue", "send", "Sales", "{}", "--type", "Shop.A", "--header", f"Rowbus.Key={number}")

    alone = rowbus("queue", "purge", "Sales", "--yes").stdout
    together = rowbus("queue", "purge", "Sales", "--lanes", "--yes").stdout

    assert alone == 'Deleted 0 messages of "public"."Sales".\nIts 2 lanes keep theirs: add --lanes.\n'
    assert together == 'Deleted 4 messages of "public"."Sales" and 2 lanes.\n'
    assert ask('select count(*) from "Sales#old"') == [(1,)]
