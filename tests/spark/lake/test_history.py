"""The versions of rows in a lake: each change makes one, and what they say of a moment is what the database had."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable

from rowbus.errors import ConfigurationError
from rowbus.spark.lake.tables.comparison import compare_tables
from rowbus.spark.lake.tables.history.table import HistoryTable
from rowbus.spark.lake.tables.upkeep import vacuum_tables
from tests.fixtures.pairs import turn
from tests.spark.lake.following import CAPTURED_ORDERS, KEY_CHANGE, Following
from tests.spark.lake.versions import at, check, told, versions

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]
ORDERS = "public.orders"


@pytest.fixture
def log_script(log_script: str) -> str:
    return f"{log_script}; {CAPTURED_ORDERS}"


@pytest.fixture
def lake(log_database: str, pgq: psycopg.Connection, tmp_path: Path) -> Following:
    return Following(log_database, pgq, tmp_path / "lake", history=True)


def test_each_change_of_a_batch_makes_a_version(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 2)")
    lake.copy()
    lake.run(
        "update orders set customer = 'A' where id = 1", "update orders set customer = 'AA' where id = 1"
    )
    lake.run("delete from orders where id = 2", "insert into orders values (2, 'again', 2)")
    lake.apply()

    check(lake, ORDERS, "id")
    assert told(lake, ORDERS, "id", "customer") == [
        (1, "a", "COPY", "UPDATE"),
        (2, "b", "COPY", "DELETE"),
        (1, "A", "UPDATE", "UPDATE"),
        (1, "AA", "UPDATE", None),
        (2, "again", "INSERT", None),
    ]


def test_a_version_names_the_transaction_and_the_user_that_the_capture_notes(lake: Following) -> None:
    lake.make("prices", "id int primary key, price int", "backup", "ev_extra3=session_user")
    lake.copy()
    lake.run("insert into prices values (1, 5)")
    lake.run("update prices set price = 6")
    lake.apply()

    first, second = versions(lake, "public.prices")
    row = lake.connection.execute("select session_user::text, xmin::text::bigint from prices").fetchone()
    assert row == (second["changed_by"], second["transaction_id"])
    assert (first["ended_by"], first["end_transaction_id"]) == row
    assert first["transaction_id"] < second["transaction_id"]


@pytest.mark.parametrize("settled", [True, False], ids=["whose folder has tables", "in a new folder"])
def test_iceberg_tables_have_no_versions(
    log_database: str, pgq: psycopg.Connection, tmp_path: Path, *, settled: bool
) -> None:
    lake = Following(log_database, pgq, tmp_path / "lake", "iceberg")
    if settled:
        lake.copy()
    lake.settings = replace(lake.settings, format=None if settled else "iceberg", history=True)
    with pytest.raises(ConfigurationError, match="beside Delta tables only"):
        lake.copy()

    assert Path(lake.folder.path).exists() == settled


def test_vacuum_deletes_old_files_of_versions_and_keeps_those_of_the_last_tick(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    for customer in "bcd":
        lake.run(f"update orders set customer = '{customer}'")
        lake.apply()
    before = told(lake, ORDERS, "id", "customer")
    vacuumed = vacuum_tables(
        str(lake.folder.path), older_than=timedelta(0), dry_run=False, tell=lambda _line: None
    )
    found = {table.name: table.files for table in vacuumed}

    assert found[f"{ORDERS}_history"]
    assert told(lake, ORDERS, "id", "customer") == before
    noted = lake.folder.versions()[f"{ORDERS}_history"]
    assert len(lake.rows(f"{ORDERS}_history", version=noted)) == len(before)


def test_a_table_with_an_odd_name_goes_on_to_have_versions(lake: Following) -> None:
    lake.run("drop table orders")
    lake.make('"odd: %/name"', "id int primary key")
    lake.run('insert into "odd: %/name" values (1)')
    lake.copy()

    assert lake.folder.keeps_history()
    assert told(lake, "public.odd: %/name", "id") == [(1, "COPY", None)]


def test_truncate_ends_all_versions(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 1)")
    lake.copy()
    lake.run("update orders set customer = 'A' where id = 1", "insert into orders values (3, 'c', 1)")
    lake.run("truncate orders", "insert into orders values (1, 'after', 1)")
    lake.apply()
    check(lake, ORDERS, "id")
    lake.run("truncate orders")
    lake.apply()

    check(lake, ORDERS, "id")
    assert sorted(told(lake, ORDERS, "id", "customer"), key=repr) == [
        (1, "A", "UPDATE", "TRUNCATE"),
        (1, "a", "COPY", "UPDATE"),
        (1, "after", "INSERT", "TRUNCATE"),
        (2, "b", "COPY", "TRUNCATE"),
        (3, "c", "INSERT", "TRUNCATE"),
    ]


def test_a_changed_key_ends_the_version_of_the_old_one(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    lake.run(KEY_CHANGE)
    lake.apply()

    assert told(lake, ORDERS, "id", "customer") == [(1, "a", "COPY", "DELETE"), (7, "A", "UPDATE", None)]
    check(lake, ORDERS, "id")


def test_rows_without_a_key_have_versions_that_stay(lake: Following) -> None:
    lake.make("readings", "value float8", "insert-only")
    lake.run("insert into readings values (1)")
    lake.copy()
    lake.run("insert into readings values (2), (2)")
    lake.apply()

    assert told(lake, "public.readings", "value") == [
        (1.0, "COPY", None),
        (2.0, "INSERT", None),
        (2.0, "INSERT", None),
    ]


def test_times_that_run_backwards_leave_no_overlap(lake: Following) -> None:
    """A transaction that began first and wrote last: its event has the earlier time."""
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    with psycopg.connect(lake.dsn) as long:
        long.execute("select now()")
        lake.run("update orders set customer = 'first' where id = 1")
        long.execute("update orders set customer = 'second' where id = 1")
    lake.apply()

    check(lake, ORDERS, "id")
    assert [it["customer"] for it in versions(lake, ORDERS) if it["valid_to"] is None] == ["second"]


@pytest.mark.parametrize(
    "altering, said",
    [
        (
            "add column note text default 'x'",
            [
                {"id": 1, "customer": "a", "total": Decimal("1.10"), "note": None},
                {"id": 1, "customer": "a", "total": Decimal("1.10"), "note": "x"},
            ],
        ),
        ("drop column customer", [{"id": 1, "customer": "a", "total": Decimal("1.10")}]),
        (
            "rename customer to client",
            [
                {"id": 1, "customer": "a", "total": Decimal("1.10"), "client": None},
                {"id": 1, "customer": None, "total": Decimal("1.10"), "client": "a"},
            ],
        ),
        (
            "alter total type numeric(20, 4)",
            [{"id": 1, "customer": "a", "total": Decimal("1.1000")}] * 2,
        ),
        (
            "alter total type int using 5",
            [
                {"id": 1, "customer": "a", "total": "1.10"},
                {"id": 1, "customer": "a", "total": "5"},
            ],
        ),
        ("alter id type bigint", [{"id": 1, "customer": "a", "total": Decimal("1.10")}] * 2),
        (
            "rename id to number",
            [
                {"id": 1, "customer": "a", "total": Decimal("1.10"), "number": None},
                {"id": None, "customer": "a", "total": Decimal("1.10"), "number": 1},
            ],
        ),
    ],
)
def test_versions_follow_an_altered_table(
    lake: Following, altering: str, said: list[dict[str, object]]
) -> None:
    lake.run("insert into orders values (1, 'a', 1.10)")
    lake.copy()
    lake.run(f"alter table orders {altering}")
    lake.copy()

    found = versions(lake, ORDERS)
    assert [{name: it[name] for name in said[0]} for it in found] == said
    assert [it["operation"] for it in found] == ["COPY"] * len(said)
    assert [it["valid_to"] is None for it in found] == [False] * (len(said) - 1) + [True]


def test_a_column_that_became_text_stays_text_when_the_table_is_altered_again(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1.10)")
    lake.copy()
    lake.run("alter table orders alter total type int using 5")
    lake.copy()
    lake.run("alter table orders add column note text", "insert into orders values (2, 'b', 7)")
    lake.apply()

    found = sorted(versions(lake, ORDERS), key=lambda it: it["id"])
    assert [it["total"] for it in found if it["valid_to"] is None] == ["5", "7"]
    assert found[0]["total"] == "1.10"


def test_a_value_that_a_column_cannot_hold_makes_it_text(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1.10)")
    lake.copy()
    lake.run("insert into orders values (2, 'b', 'NaN')")
    lake.apply()
    lake.run("update orders set total = 3 where id = 2")
    lake.apply()

    assert [it["total"] for it in versions(lake, ORDERS) if it["id"] == 2] == ["NaN", "3.00"]
    check(lake, ORDERS, "id")


def test_changes_that_a_later_copy_shows_already_come_before_it(lake: Following) -> None:
    """The table is altered while the lake is behind: each change is told, in its place."""
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    lake.copy()
    lake.run("update orders set customer = 'A' where id = 1", "delete from orders where id = 2")
    first = lake.tick()
    lake.run("insert into orders values (4, 'd', 1)", "update orders set customer = 'AA' where id = 1")
    lake.run("alter table orders add column note text", "delete from orders where id = 4")
    lake.run("update orders set customer = 'C' where id = 3", "update orders set customer = 'c' where id = 3")
    second = lake.tick()
    for until in (first, second):
        lake.apply(until)
        check(lake, ORDERS, "id")

    by_id = sorted(told(lake, ORDERS, "id", "customer"), key=lambda it: it[0])
    assert [it for it in by_id if it[0] != 3] == [
        (1, "a", "COPY", "UPDATE"),
        (1, "A", "UPDATE", "UPDATE"),
        (1, "AA", "UPDATE", None),
        (2, "b", "COPY", "DELETE"),
        (4, "d", "INSERT", "DELETE"),
    ]
    assert [it for it in by_id if it[0] == 3] == [
        (3, "c", "COPY", "UPDATE"),
        (3, "C", "UPDATE", "UPDATE"),
        (3, "c", "UPDATE", None),
    ]


def test_a_truncation_that_a_later_copy_shows_already_ends_what_was_before_it(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 1)")
    lake.copy()
    lake.run("truncate orders", "insert into orders values (2, 'b', 1)")
    lake.run("alter table orders add column note text")
    lake.copy()
    lake.apply()

    check(lake, ORDERS, "id")
    assert told(lake, ORDERS, "id") == [
        (1, "COPY", "TRUNCATE"),
        (2, "COPY", "TRUNCATE"),
        (2, "INSERT", None),
    ]


def test_a_batch_that_comes_again_changes_nothing(lake: Following) -> None:
    lake.make("readings", "value float8", "insert-only")
    lake.copy()
    lake.run("insert into readings values (1)", "insert into orders values (1, 'a', 1)")
    lake.run("update orders set customer = 'b'")
    lake.commit(lake.stage(), 0)
    once = (versions(lake, ORDERS), versions(lake, "public.readings"))
    lake.commit(lake.stage(), 0)

    assert (versions(lake, ORDERS), versions(lake, "public.readings")) == once
    assert len(once[0]) == 2
    assert len(once[1]) == 1


@pytest.mark.parametrize("step", ["apply", "follow_copy"])
def test_a_run_killed_between_a_table_and_its_versions_goes_on_with_them(
    lake: Following, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    lake.run("alter table orders add column note text", "update orders set note = 'x'")

    def die(*_given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(HistoryTable, step, die)
        with pytest.raises(KeyboardInterrupt):
            lake.commit(lake.stage(), 0)
    lake.apply()

    check(lake, ORDERS, "id")
    assert told(lake, ORDERS, "note") == [
        (None, "COPY", "UPDATE"),
        ("x", "UPDATE", None),
    ]


def test_versions_begin_with_a_copy_in_a_lake_that_follows_already(
    log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> None:
    lake = Following(log_database, pgq, tmp_path / "lake")
    lake.copy()
    lake.run("insert into orders values (1, 'a')")
    lake.apply()
    lake.run("insert into orders values (2, 'b')")
    lake.settings = lake.settings_with_history()
    assert lake.copy() == {ORDERS: 2}
    lake.apply()

    check(lake, ORDERS, "id")
    assert [it["operation"] for it in versions(lake, ORDERS)] == ["COPY", "COPY"]


def test_versions_that_are_kept_are_kept_in_a_run_that_does_not_ask_for_them(lake: Following) -> None:
    lake.copy()
    lake.settings = lake.settings_with_history(asked=False)
    lake.make("zoo", "id int primary key")
    lake.run("insert into orders values (1, 'a', 1)", "insert into zoo values (1)")
    lake.apply()

    assert told(lake, ORDERS, "id") == [(1, "INSERT", None)]
    assert lake.folder.versions().keys() == {ORDERS, "public.orders_history", "public.zoo"}


def test_the_current_versions_are_compared_with_the_database(lake: Following) -> None:
    lake.make(
        "kinds", "id int primary key, tags text[], at timestamptz, weight real, ok bool, raw bytea, n int"
    )
    lake.run(
        "insert into kinds values (1, '{a,null}', now(), 0.1, true, '\\x00ff', 5)",
        "insert into kinds values (2)",
    )
    lake.copy()
    lake.run("update kinds set n = 6", "insert into orders values (1, 'a', 1)")
    lake.apply()
    assert compared(lake) == {
        "public.kinds": "equal, 2 rows",
        "public.kinds_history": "equal, 2 rows",
        ORDERS: "equal, 1 rows",
        "public.orders_history": "equal, 1 rows",
    }
    lake.run("alter table kinds alter n type text using 'x'", "alter table kinds alter n type int using 7")
    lake.run("alter table kinds alter tags type text using tags::text")
    lake.apply()
    DeltaTable(lake.folder.table("public.orders_history")).delete()

    found = compared(lake)
    assert found["public.kinds_history"] == "equal, 2 rows"
    assert found["public.orders_history"] == "1 rows in the database, 0 in the lake"


def compared(lake: Following) -> dict[str, str]:
    found = compare_tables(str(lake.folder.path), "changes", ("*",), lake.dsn, lambda _line: None)
    return {table.name: table.says for table in found}


@pytest.mark.parametrize(
    "table, definition, said",
    [
        (
            "orders_history",
            "id int primary key",
            "would be public.orders_history, and there is a table of that name",
        ),
        ("odd", "id int primary key, operation text", "public.odd has a column operation"),
    ],
)
def test_names_that_versions_need_are_refused(
    lake: Following, table: str, definition: str, said: str
) -> None:
    lake.make(table, definition)

    with pytest.raises(ConfigurationError, match=said):
        lake.copy()


# ------------------------------------------------------------------------------------------------------ at random


class Story:
    """Changes at random, and what the table held after each of them."""

    def __init__(self, lake: Following, seed: int) -> None:
        self.lake = lake
        self.random = random.Random(seed)
        self.states: list[tuple[datetime, list[tuple[Any, ...]]]] = []
        self.ticks: list[int] = []
        self.columns = 0
        self.written = 0

    def go_on(self) -> None:
        change, *_ = self.random.choices(
            [self.insert, self.update, self.delete, self.transaction, self.truncate, self.alter, self.tick],
            [6, 8, 4, 3, 1, 2, 6],
        )
        change()
        rows = self.lake.connection.execute("select id, customer from orders").fetchall()
        moment = self.lake.connection.execute("select clock_timestamp()").fetchone()
        assert moment is not None
        self.states.append((moment[0], sorted(rows, key=repr)))

    def insert(self) -> None:
        self.write(
            "insert into orders (id, customer) select i, %s from generate_series(%s::int, %s + 2) as i "
            "where i not in (select id from orders)"
        )

    def update(self) -> None:
        self.write("update orders set customer = %s where id between %s and %s + 1")

    def delete(self) -> None:
        self.lake.run(f"delete from orders where id = {self.id()}")

    def transaction(self) -> None:
        with self.lake.connection.transaction():
            for change in self.random.choices([self.insert, self.update, self.delete], k=3):
                change()

    def truncate(self) -> None:
        self.lake.run("truncate orders")

    def alter(self) -> None:
        self.columns += 1
        how = f"add column c{self.columns} text" + self.random.choice(["", " default 'x'"])
        drop = f"drop column c{self.columns - 1}"
        self.lake.run(f"alter table orders {how}")
        if self.columns > 1:
            self.lake.run(f"alter table orders {drop}")

    def tick(self) -> None:
        self.ticks.append(self.lake.tick())

    def write(self, statement: str) -> None:
        at_id = self.id()
        word = f"w{self.random.randrange(10**6)}"
        done = self.lake.connection.execute(statement, [word, at_id, at_id])
        self.written += done.rowcount

    def id(self) -> int:
        return self.random.randrange(12)


@pytest.mark.parametrize("seed", turn(range(28), 1))  # a story a day
def test_versions_say_of_each_moment_what_the_database_had(lake: Following, seed: int) -> None:
    """Also of the time that the lake is behind, with tables altered meanwhile."""
    story = Story(lake, seed)
    for _ in range(5):
        story.go_on()
    lake.copy()
    story.ticks.clear()
    begun, story.written = len(story.states), 0
    for _round in range(4):
        for _ in range(12):
            story.go_on()
        if story.random.random() < 0.5:  # a run begins
            lake.copy()
        story.tick()
        for until in story.ticks:
            lake.apply(until)
            check(lake, ORDERS, "id")
        story.ticks.clear()

    found = versions(lake, ORDERS)
    assert sum(it["operation"] in {"INSERT", "UPDATE"} for it in found) == story.written
    for moment, rows in story.states[begun:]:
        assert at(found, moment, "id", "customer") == rows, (seed, moment)
