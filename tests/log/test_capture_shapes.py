"""Changes of a captured table's shape are events in the order of the log, by event triggers or without them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from rowbus.log.catalog import ShapeChange
from tests.fixtures.every import every

Connection = psycopg.Connection[Any]

AT_ONCE = "select 1"
BY_ROWS = """
    drop event trigger pgq_table_changed; drop event trigger pgq_table_rewritten; drop event trigger pgq_table_dropped
"""
CAPTURED = """
    select pgq.create_queue('q');
    create schema shop; create table shop.orders (id int primary key, note text); insert into shop.orders values (0);
    select pgq.capture_table('shop.orders', 'q')
"""


def told(connection: Connection) -> list[tuple[str, str, str]]:
    """Give operation, table and what changed, of the events in their order; of a row its data."""
    events = connection.execute(
        "select null, ev_id, ev_extra1, ev_data, ev_type from pgq.event_template order by ev_id"
    ).fetchall()
    found = []
    for time, number, table, data, type_ in events:
        kind, is_change = json.loads(type_), "oid" in json.loads(data)
        assert table == ".".join(kind["table"])
        said = (
            "; ".join(ShapeChange(time, number, table, json.loads(data)).sentences()) if is_change else data
        )
        found.append((kind["op"], table, said))
    return found


@pytest.mark.parametrize("without", [AT_ONCE, BY_ROWS], ids=["at once", "by rows"])
def test_rows_follow_the_event_of_the_shape_that_they_are_in(pgq: Connection, without: str) -> None:
    pgq.execute(without.encode())
    pgq.execute(CAPTURED.encode())
    pgq.execute("insert into shop.orders values (1, 'a')")
    pgq.execute("alter table shop.orders add total numeric(4, 1) default 7")
    pgq.execute("insert into shop.orders values (2, 'b')")
    pgq.execute("alter table shop.orders rename note to remark")
    with pgq.transaction():
        pgq.execute("alter table shop.orders rename to parked")
        pgq.execute("delete from shop.parked where id = 1")
        pgq.execute("alter table shop.parked rename to orders")
    pgq.execute("alter table shop.orders drop total, alter id type bigint")
    pgq.execute("update shop.orders set remark = null where id = 2")
    pgq.execute("truncate shop.orders")

    assert [one[:2] for one in told(pgq) if one[0] != "ALTER"] == [
        ("INSERT", "shop.orders"), ("INSERT", "shop.orders"), ("DELETE", "shop.parked"), ("UPDATE", "shop.orders"),
        ("TRUNCATE", "shop.orders"),
    ]  # fmt: skip
    expected = [
        ("shop.orders", "+ total numeric(4,1), filled with 7.0"),
        ("shop.orders", "note text → remark text"),
        ("shop.orders", "table shop.orders → shop.parked"),
        ("shop.parked", "table shop.parked → shop.orders"),
        ("shop.orders", "id integer not null → id bigint not null; - total numeric(4,1); rows written anew"),
    ]
    if without == BY_ROWS:  # what happened between two rows is told at once
        expected[1:3] = [("shop.orders", "table shop.orders → shop.parked; note text → remark text")]
        expected[2:] = [
            (
                "shop.parked",
                f"table shop.parked → shop.orders; {expected[-1][1]}",
            )
        ]
    assert [one[1:] for one in told(pgq) if one[0] == "ALTER"] == expected


@every(
    "change, said",
    [
        ("add at timestamptz default '2026-02-03 04:05+06'", "+ at timestamp with time zone, filled with 2026-02-02 22:05:00+00"),  # noqa: E501 - a row of the table
        ("add serial bigint generated always as identity", "+ serial bigint not null, filled with values"),
        ("add twice int generated always as (id * 2) stored", "+ twice integer, filled with values"),
        ("add span daterange default '[2026-02-03,2026-02-05)'", "+ span daterange, filled with [2026-02-03,2026-02-05)"),  # noqa: E501 - a row of the table
        ("add plain text", "+ plain text"),
        ("alter note type text using upper(note)", "note text → note text"),
        ("alter note set not null", "note text → note text not null"),
        ("drop constraint orders_pkey", "key id → id,note"),
    ],
)  # fmt: skip
def test_an_event_says_what_earlier_rows_hold(pgq: Connection, change: str, said: str) -> None:
    with pgq.transaction(force_rollback=True):
        pgq.execute(CAPTURED.encode())
        pgq.execute(
            "update shop.orders set note = ''; set local datestyle = 'German'; set local timezone = 'Asia/Kathmandu'"
        )
        pgq.execute(f"alter table shop.orders {change}".encode())
        events = [one[2] for one in told(pgq) if one[0] == "ALTER"]

    expected = "rows written anew" if "using" in change else said
    assert events == [expected]


@pytest.mark.parametrize("without", [AT_ONCE, BY_ROWS], ids=["at once", "by rows"])
def test_a_dropped_table_is_told_and_missed_until_it_is_released(pgq: Connection, without: str) -> None:
    pgq.execute(without.encode())
    pgq.execute(CAPTURED.encode())
    pgq.execute("drop table shop.orders; create table shop.orders (id int primary key)")
    pgq.execute("select pgq.maint_capture()")
    pgq.execute("select pgq.maint_capture()")

    assert told(pgq) == [("DROP", "shop.orders", "dropped")]
    state = "select cs_state from pgq.capture_shape order by cs_id desc limit 1"
    assert pgq.execute(state).fetchone() == ("dropped",)
    pgq.execute("select pgq.release_table('shop.orders', 'q')")
    assert pgq.execute(state).fetchone() == ("released",)


def test_a_table_that_is_captured_again_after_a_restore_is_not_told_as_dropped(pgq: Connection) -> None:
    pgq.execute(CAPTURED.encode())
    pgq.execute("update pgq.capture_shape set cs_table = 1")  # the number that it had in the other database

    pgq.execute("select pgq.maint_capture()")
    pgq.execute("insert into shop.orders values (1)")

    assert [one[0] for one in told(pgq)] == ["INSERT"]


def test_generated_code_waits_for_the_row_that_tells_the_shape(
    pgq: Connection, connect: Callable[[], psycopg.Connection]
) -> None:
    pgq.execute(BY_ROWS.encode())
    pgq.execute(CAPTURED.encode())
    pgq.execute("alter table shop.orders add total int")
    holder = connect()
    holder.execute("lock table shop.orders in access exclusive mode")
    pgq.execute("select pgq.maint_capture()")  # makes the code, and cannot tell the shape
    holder.rollback()
    pgq.execute("insert into shop.orders values (1)")

    assert [one[0] for one in told(pgq)] == ["ALTER", "INSERT"]


BY_HAND = "for each row execute function pgq.jsontriga('q', 'exact')"
WITHOUT_A_LOG = "update pgq.queue set queue_disable_insert = true where queue_name = 'q'"
CHANGES = [
    ("set rowbus.rewritten = 'no oid'", "alter table shop.orders add total int"),
    (WITHOUT_A_LOG, "alter table shop.orders add total int"),
    (WITHOUT_A_LOG, "drop table shop.orders"),
    ("drop trigger capture_q on shop.orders", f"create trigger t instead of insert on seen {BY_HAND}"),
    ("drop trigger capture_q on shop.orders", f"create trigger t after insert on far {BY_HAND}"),
]


OTHERS = """
    select pgq.create_queue('p'); create table shop.bills (id int primary key);
    create view seen as select 1 as id;
    create foreign data wrapper w; create server s foreign data wrapper w; create foreign table far (id int) server s;
    select pgq.capture_table('shop.bills', 'p')
"""
FORGET = "delete from pgq.capture_shape where cs_shape -> 'table' ->> 1 in ('bills', 'far', 'seen')"


@every("state, change", CHANGES)
def test_what_no_log_can_be_told_fails_no_command_and_no_maintenance(
    pgq: Connection, state: str, change: str
) -> None:
    with pgq.transaction(force_rollback=True):
        pgq.execute(CAPTURED.encode())
        pgq.execute(OTHERS.encode())
        pgq.execute(state.encode())
        pgq.execute(change.encode())
        pgq.execute(FORGET.encode())
        pgq.execute("select pgq.maint_capture()")

        told = pgq.execute("select 1 from pgq.capture_shape where cs_queue = 'p'").fetchall()
    assert told == [(1,)]


@every("call", ["select pgq.tell_change('shop.orders', 'capture_q', true)", "table pgq.capture_shape"])
def test_a_writer_tells_nothing_that_did_not_happen_and_reads_nothing_that_was_told(
    pgq: Connection, call: str
) -> None:
    with pgq.transaction(force_rollback=True):
        pgq.execute(CAPTURED.encode())
        pgq.execute("alter table shop.orders add total int")
        pgq.execute("grant usage on schema shop to pgq_writer; set local role pgq_writer")
        pgq.execute("select pgq.tell_shape('shop.orders', 'capture_q')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), pgq.transaction():
            pgq.execute(call.encode())
        pgq.execute("reset role")

        assert [one[0] for one in told(pgq)] == ["ALTER"]
