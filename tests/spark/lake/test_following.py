"""Tables in a lake follow those of the database, whatever is done to them: by the steps of Spark, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, LogNotFoundError
from rowbus.log.consumers.table import ConsumerTable
from rowbus.spark.lake.tables import net_changes, writer
from rowbus.spark.lake.tables.folder import Copy, LakeFolder
from rowbus.spark.lake.tables.followed_table import FollowedTable
from rowbus.spark.lake.tables.history.table import VersionedTable
from rowbus.spark.lake.tables.upkeep import vacuum_tables
from rowbus.spark.lake.tables.writer import TablesSettings, followed_tables
from rowbus.spark.pipelines import lake_tables
from rowbus.spark.pipelines.lake_tables import ask, check_tables, copy_new_tables
from tests.spark.lake.following import CAPTURED_ORDERS, KEY_CHANGE, Following

pytestmark = [
    pytest.mark.one_version,
    pytest.mark.filterwarnings("ignore"),  # of the libraries, about themselves
]


VIRTUAL_COLUMNS = 180000
"""The first version of PostgreSQL that has them."""

IN_EACH_FORMAT = pytest.mark.parametrize("lake", ["delta", "iceberg", "ducklake"], indirect=True)
"""For what the formats do each in its own way; the rest is the same code for all."""


@pytest.fixture
def log_script(log_script: str) -> str:
    return f"{log_script}; {CAPTURED_ORDERS}"


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> Following:
    return Following(log_database, pgq, tmp_path / "lake", request.param)


@IN_EACH_FORMAT
def test_a_table_without_a_key_is_followed_by_its_rows(
    lake: Following, caplog: pytest.LogCaptureFixture
) -> None:
    lake.run(
        "create table bare (a int, b text, seen int)", "insert into bare values (1, 'x', 1), (2, null, 1)"
    )
    lake.run("select pgq.capture_table('bare', 'changes', 'json', '{ignore=seen}')")
    for name, columns in (("often", "a int, b int"), ("once", "a int, b int, unique (a) include (b)")):
        lake.run(f"create table {name} ({columns})")
        lake.run(f"select pgq.capture_table('{name}', 'changes', 'json', '{{\"pkey=a, b\"}}')")
    lake.copy()
    assert "public.bare has no primary key: the lake takes equal rows for one" in caplog.text
    assert (
        "public.often has no unique index on its pkey=…: of rows with the same a, b the lake" in caplog.text
    )
    assert "public.once has no" not in caplog.text
    lake.run(
        "insert into bare values (3, null), (null, 'y'), (4, 'z')", "update bare set b = 'w' where a = 2"
    )
    lake.apply()
    lake.run("update bare set a = 5 where a is null", "delete from bare where a in (1, 3)")
    lake.run("update bare set seen = 7")
    lake.apply()
    assert lake.rows("public.bare") == [(2, "w"), (4, "z"), (5, "y")]


def test_masked_columns_are_masked_in_the_copy_and_in_changes(lake: Following) -> None:
    lake.make(
        "people",
        "id int primary key, mail text, n int not null, v varchar(70)",
        "mask=mail:hash",
        "mask=n:null",
    )
    lake.run(
        "select pgq.capture_table('people', 'changes', 'json', '{mask=mail:hash,mask=n:null,mask=v:truncate:2}')"
    )
    lake.run("insert into people values (1, 'a@b', 5, 'secret'), (2, null, 6, null)")
    lake.copy()
    lake.run("insert into people select id + 2, mail, n, v from people")
    lake.apply()
    hashed = sha256(b"a@b").hexdigest()
    rows = [(1, hashed, None, "se"), (2, None, None, None), (3, hashed, None, "se"), (4, None, None, None)]
    assert lake.rows("public.people") == rows


def test_a_job_outlives_the_end_of_its_last_table(lake: Following) -> None:
    lake.make("notes", "id int primary key")
    lake.settings = replace(lake.settings, tables=("public.notes",))
    lake.copy()
    lake.run("alter table notes rename to parked", "insert into parked values (1)")
    lake.apply()
    lake.run("alter table parked rename to notes", "insert into notes values (2)")
    lake.apply()
    assert lake.rows("public.notes") == [(1,), (2,)]


def test_partitions_are_one_table_as_root(lake: Following) -> None:
    lake.run("create table parts (id int primary key, v text) partition by range (id)")
    lake.run("create table low partition of parts for values from (0) to (10)")
    lake.run("select pgq.capture_table('parts', 'changes', 'json', '{as-root}')")
    lake.run("insert into parts values (1, 'a')")
    lake.copy()
    lake.run("create table high (v text, id int not null)")
    lake.run("alter table parts attach partition high for values from (10) to (99)")
    lake.run("insert into parts values (2, 'b'), (11, 'c'), (12, 'd')")
    lake.run("update parts set id = 13 where id = 2")
    lake.apply()
    assert lake.rows("public.parts") == [(1, "a"), (11, "c"), (12, "d"), (13, "b")]
    lake.run("truncate high", "insert into parts values (14, 'e')")
    lake.apply()
    assert lake.rows("public.parts") == [(1, "a"), (14, "e")]


PARTS = """
    drop table if exists parts, high, top;
    create table parts (id int primary key, v text default 'v', twice int generated always as (id * 2) stored)
    partition by range (id);
    create table low partition of parts for values from (0) to (10);
    create table high partition of parts for values from (10) to (20);
    select pgq.capture_table('parts', 'changes', 'json', '{as-root}');
    insert into parts values (1, 'a'), (11, 'b')
"""
TOP = "create table top (like parts including all); insert into top values (21, 'c')"
ATTACHED = "alter table parts attach partition top for values from (20) to (30)"


@pytest.mark.parametrize(
    "change, rows",
    [
        ("alter table parts detach partition high", [1]),
        ("drop table high", [1]),
        (
            "alter table parts detach partition high; delete from high;"  # noqa: ISC004 - one text
            " alter table parts attach partition high for values from (10) to (20)",
            [1],
        ),
        (f"{TOP}; {ATTACHED}", [1, 11, 21]),
        ("create table top (id int not null, v text, twice int generated always as (id * 2) stored); "  # noqa: ISC004 - one text
         f"insert into top values (21, 'c'); {ATTACHED}", [1, 11, 21]),
        ("create table top partition of parts for values from (20) to (40) partition by range (id);"  # noqa: ISC004 - one text
         " create table deep (like parts including generated); insert into deep values (21, 'c');"
         " alter table top attach partition deep for values from (20) to (30)", [1, 11, 21]),
    ],
)  # fmt: skip
def test_rows_come_and_go_with_partitions(lake: Following, change: str, rows: list[int]) -> None:
    lake.run(PARTS)
    lake.copy()
    lake.run(change)
    lake.apply()
    lake.run("insert into parts values (2)")
    lake.apply()

    assert {number for (number,) in lake.rows("public.parts", "id")} == {*rows, 2}


def test_a_partition_that_is_made_in_its_place_needs_no_copy(lake: Following) -> None:
    lake.run(PARTS)
    lake.copy()
    held = lake.folder.copies("public.parts")
    lake.run(
        "create table top partition of parts for values from (20) to (40) partition by range (id);"
        " create table deep partition of top default; insert into parts values (21)"
    )
    lake.apply()

    assert lake.rows("public.parts", "id") == [(1,), (11,), (21,)]
    moments = {copy.snapshot for copy in lake.folder.copies("public.parts").values()}
    assert moments == {copy.snapshot for copy in held.values()}


def test_inserts_updates_and_deletes_follow(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1.10), (2, 'b', null)")
    assert lake.copy() == {"public.orders": 2}
    lake.run("insert into orders values (3, 'c', 3)", "update orders set customer = 'B' where id = 2")
    lake.run("delete from orders where id = 1")
    lake.apply()

    assert lake.rows("public.orders", "id", "customer") == [(2, "B"), (3, "c")]


@IN_EACH_FORMAT
def test_more_changes_than_memory_is_for_are_read_in_parts(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "GROUP", 0)
    monkeypatch.setattr(net_changes, "PIECE", 0)
    lake.make("things", "id int primary key, note text")
    lake.make("notes", "note text", "insert-only")
    lake.run("insert into things select i, 'old' from generate_series(1, 6) i")
    lake.copy()

    lake.run("update things set note = 'new' where id > 2", "delete from things where id = 4")
    lake.run("update things set note = 'newer' where id = 3", "insert into notes values ('a'), ('a')")
    lake.apply()
    assert lake.rows("public.things") == [(1, "old"), (2, "old"), (3, "newer"), (5, "new"), (6, "new")]
    assert lake.rows("public.notes") == [("a",), ("a",)]

    lake.run("truncate things", "insert into things values (4, 'again')", "delete from things where id = 5")
    lake.apply()
    assert lake.rows("public.things") == [(4, "again")]


def test_a_changed_key_moves_its_row(lake: Following) -> None:
    """Triggers delete and insert; those of PgQ's users, with the old row in `extra2`, may tell of an update."""
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 2)")
    lake.copy()
    lake.run(KEY_CHANGE, "update orders set id = 5 where id = 2")
    lake.apply()

    assert lake.rows("public.orders", "id", "customer") == [(5, "b"), (7, "A")]


def test_a_key_is_the_same_in_whatever_time_zone_it_was_written(lake: Following) -> None:
    lake.make("moments", "at timestamptz primary key, what text")
    lake.run("insert into moments values ('2026-11-24 00:00:00+00', 'copied')")
    lake.copy()
    lake.run("set timezone = 'Asia/Tokyo'", "update moments set what = 'Tokyo'")
    lake.run("set timezone = 'UTC'", "update moments set what = 'UTC'")
    lake.apply()
    assert lake.rows("public.moments", "what") == [("UTC",)]


@IN_EACH_FORMAT
def test_rows_follow_when_another_key_is_made(lake: Following) -> None:
    """A batch in which the key changes has changes by the old key, which the new one would not find."""
    lake.make("parts", "id int primary key, part int not null")
    lake.run("insert into parts values (1, 0), (2, 0)")
    lake.copy()
    lake.run("update parts set part = 5 where id = 1")
    lake.run("alter table parts drop constraint parts_pkey, add primary key (id, part)")
    lake.run("insert into parts values (1, 6)", "delete from parts where id = 2")
    lake.apply()
    assert lake.rows("public.parts") == [(1, 5), (1, 6)]


@IN_EACH_FORMAT
def test_truncate_empties_what_was_before_it(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    lake.run(
        "insert into orders values (2, 'b', 1)", "truncate orders", "insert into orders values (3, 'c', 1)"
    )
    lake.apply()
    assert lake.rows("public.orders", "id") == [(3,)]
    lake.run("truncate orders")
    lake.apply()
    assert lake.rows("public.orders", "id") == []


def test_what_the_copy_shows_is_not_applied_again(lake: Following) -> None:
    lake.make("readings", "value float8", "insert-only")
    lake.run("insert into readings values (1)")
    lake.copy()
    lake.run("insert into readings values (2)")
    lake.apply()

    assert lake.rows("public.readings") == [(1.0,), (2.0,)]


def test_a_copy_stays_known_by_its_own_snapshot_when_another_process_begins_one_meanwhile(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker of a killed job may still copy while the next job does."""
    lake.run("insert into orders values (1, 'a', 1)")
    assert lake.settings.format is not None
    lake.folder.settle(lake.settings.format)
    stored: Any = type(lake.folder.stored("public.orders"))
    begun, write = list[object](), stored.replace

    def replace(*arguments: Any) -> None:  # noqa: ANN401 - those of the method
        begun.append(arguments)
        if len(begun) > 1:
            raise RuntimeError("killed")
        lake.run("insert into orders values (2, 'b', 2)")
        with pytest.raises(RuntimeError, match="killed"):
            lake.copy()
        write(*arguments)

    monkeypatch.setattr(stored, "replace", replace)
    lake.copy()
    monkeypatch.undo()
    lake.apply()

    assert lake.rows("public.orders", "id") == [(1,), (2,)]


@pytest.mark.parametrize(
    "altering, row",
    [
        ("drop column total", (1, "a")),
        ("alter total type text using 'none'", (1, "a", "none")),
        ("alter id type text using 'one'", ("one", "a", Decimal("1.00"))),
        ("add column note text; update orders set note = 'N'", (1, "a", Decimal("1.00"), "N")),
    ],
)
def test_a_table_that_is_altered_between_its_description_and_its_copy_is_copied(
    lake: Following, monkeypatch: pytest.MonkeyPatch, altering: str, row: tuple[object, ...]
) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    once = iter([f"alter table orders {altering}"])

    def describe(settings: TablesSettings, folder: LakeFolder) -> dict[str, FollowedTable | VersionedTable]:
        found = followed_tables(settings, folder)
        lake.run(*once)
        return found

    monkeypatch.setattr(lake_tables, "followed_tables", describe)
    lake.copy()
    monkeypatch.undo()
    lake.copy()

    assert lake.rows("public.orders") == [row]


def test_a_transaction_that_was_open_during_the_copy_is_applied(lake: Following) -> None:
    with psycopg.connect(lake.dsn) as writer:
        writer.execute("insert into orders values (1, 'open', 1)")
        assert lake.copy() == {"public.orders": 0}
    lake.apply()

    assert lake.rows("public.orders", "id") == [(1,)]


@pytest.mark.parametrize(
    "altering, expected",
    [
        (
            "add column note text default 'x'",
            [(1, "a", Decimal("1.10"), "x"), (2, "b", Decimal("2.00"), "x")],
        ),
        ("drop column customer", [(1, Decimal("1.10")), (2, Decimal("2.00"))]),
        ("alter total type numeric(20, 4)", [(1, "a", Decimal("1.1000")), (2, "b", Decimal("2.0000"))]),
        ("alter total type text using total || '!'", [(1, "a", "1.10!"), (2, "b", "2")]),
        ("alter id type bigint using id * 10", [(10, "a", Decimal("1.10")), (2, "b", Decimal("2.00"))]),
    ],
)
@pytest.mark.parametrize("written", [True, False], ids=["then written", "and no more"])
def test_an_altered_table_is_copied_anew(
    lake: Following, altering: str, expected: list[object], *, written: bool
) -> None:
    lake.run("insert into orders values (1, 'a', 1.10)")
    lake.copy()
    lake.run(f"alter table orders {altering}")
    if written:
        customer = "" if "drop" in altering else "'b', "
        lake.run(f"insert into orders values (2, {customer}'2')")
        lake.apply()
    else:
        lake.copy()

    assert lake.rows("public.orders") == sorted(expected if written else expected[:1], key=repr)


FOUR_IN_THE_MORNING = datetime(2026, 2, 3, 4, 5)  # noqa: DTZ001 - a time without a zone
ALTERED = [
    ("add column note text", True, [("a", "1.10", None), ("b", "2.00", None), ("c", "3.00", None)]),
    (
        "add column n int default 7, alter total set not null",
        True,
        [("a", "1.10", 7), ("b", "2.00", 7), ("c", "3.00", 7)],
    ),
    ("drop column customer", True, [("1.10",), ("2.00",), ("3.00",)]),
    ("rename customer to client", True, [("a", "1.10"), ("b", "2.00"), ("c", "3.00")]),
    ("rename id to ident", True, [("a", "1.10"), ("b", "2.00"), ("c", "3.00")]),
    ("alter total type numeric(20, 2)", True, [("a", "1.10"), ("b", "2.00"), ("c", "3.00")]),
    ("alter customer type varchar(9)", True, [("a", "1.10"), ("b", "2.00"), ("c", "3.00")]),
    (
        "drop column customer, add column customer text",
        False,
        [("1.10", None), ("2.00", None), ("3.00", "c")],
    ),
    ("alter total type numeric(20, 4)", False, [("a", "1.1000"), ("b", "2.0000"), ("c", "3.0000")]),
    (
        "alter total type numeric(12, 2) using total + 1",
        False,
        [("a", "2.10"), ("b", "3.00"), ("c", "3.00")],
    ),
    (
        "add column at timestamp default '2026-02-03 04:05'",
        False,
        [
            ("a", "1.10", FOUR_IN_THE_MORNING),
            ("b", "2.00", FOUR_IN_THE_MORNING),
            ("c", "3.00", FOUR_IN_THE_MORNING),
        ],
    ),
    ("add column ats timestamp[]", True, [("a", "1.10", None), ("b", "2.00", None), ("c", "3.00", None)]),
    ("add column f float8 default 0.5", False, [("a", "1.10", 0.5), ("b", "2.00", 0.5), ("c", "3.00", 0.5)]),
]
"""A change to a table, whether it follows in place, and its rows then but for their keys."""


@IN_EACH_FORMAT
def test_an_altered_table_follows_in_place_where_that_is_sure(lake: Following) -> None:
    """The second row was written before the table was altered, and is merged after that was seen."""
    tables = [f"t{number}" for number in range(len(ALTERED))]
    for table in tables:
        lake.make(table, "id int primary key, customer varchar(5), total numeric(12, 2)")
        lake.run(f"insert into {table} values (1, 'a', 1.10)")
    lake.copy()
    snapshots = [_snapshot(lake, table) for table in tables]
    columns = list[list[str]]()
    for table, (altering, _, _) in zip(tables, ALTERED, strict=True):
        lake.run(f"insert into {table} values (2, 'b', 2)", f"alter table {table} {altering}")
        columns.append(_columns(lake, table))
        given = {"client": "'c'", "customer": "'c'", "total": "3"}
        names = [name for name in columns[-1] if name in given]
        values = ", ".join(["3", *(given[name] for name in names)])
        lake.run(f"insert into {table} ({', '.join([columns[-1][0], *names])}) values ({values})")
    lake.apply()

    told = zip(tables, snapshots, columns, ALTERED, strict=True)
    found = [
        (altering, before == _snapshot(lake, table), _texts(lake.rows(f"public.{table}", *names)))
        for table, before, names, (altering, _, _) in told
    ]
    assert found == ALTERED


@IN_EACH_FORMAT
def test_a_renamed_value_of_an_enum_is_copied_and_a_new_one_needs_no_copy(lake: Following) -> None:
    lake.run("create type mood as enum ('good')")
    lake.make("moods", "id int primary key, m mood, all_of_them mood[]")
    lake.run("insert into moods values (1, 'good', '{good}')")
    lake.copy()
    before = _snapshot(lake, "moods")
    lake.run("alter type mood add value 'bad'", "insert into moods values (2, 'bad', '{good,bad}')")
    lake.apply()
    assert _snapshot(lake, "moods") == before
    lake.run("alter type mood rename value 'good' to 'fine'", "insert into orders values (1, 'a', 1)")
    lake.apply()

    assert lake.rows("public.moods") == [(1, "fine", ["fine"]), (2, "bad", ["fine", "bad"])]


@IN_EACH_FORMAT
def test_what_rows_looked_like_is_forgotten_once_they_look_otherwise(lake: Following) -> None:
    lake.copy()
    before = _snapshot(lake, "orders")
    for name in ("note", "note", "more"):
        lake.run(f"alter table orders add column {name} text", "insert into orders (id) values (1)")
        lake.apply()
        lake.run("delete from orders", f"alter table orders drop column {name}")
        lake.apply()
        lake.run("insert into orders values (1, 'x', 1)", "delete from orders")
        lake.apply()
    assert lake.rows("public.orders") == []
    assert _snapshot(lake, "orders") == before


def _snapshot(lake: Following, table: str) -> str:
    copies = lake.folder.copies(f"public.{table}")
    return copies[max(copies)].snapshot


def _columns(lake: Following, table: str) -> list[str]:
    query = (
        "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped"
    )
    return [name for (name,) in lake.connection.execute(f"{query} order by attnum", [table])]


def _ids(lake: Following, table: str) -> list[tuple[int]]:
    return lake.connection.execute(f"select id from {table} order by 1").fetchall()


def _texts(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Give rows without their keys, and numbers as text, which shows their digits."""
    return [tuple(str(it) if isinstance(it, Decimal) else it for it in row[1:]) for row in rows]


def test_columns_that_are_computed_when_they_are_read_stay_out(lake: Following) -> None:
    if lake.connection.info.server_version < VIRTUAL_COLUMNS:
        pytest.skip("this server has no virtual columns")
    lake.make("doubled", "id int primary key, kept int generated always as (id * 2) stored")
    lake.run("alter table doubled add column shown int generated always as (id * 2) virtual")
    lake.run("insert into doubled values (1)")
    lake.copy()
    copies = lake.folder.copies("public.doubled")
    lake.run("insert into doubled values (2)")
    lake.apply()

    assert lake.rows("public.doubled") == [(1, 2), (2, 4)]
    assert lake.folder.copies("public.doubled") == copies


@pytest.mark.parametrize("told", ["at once", "by rows"])
def test_what_is_written_while_a_table_has_another_name_follows(lake: Following, told: str) -> None:
    if told == "by rows":
        lake.run("drop event trigger pgq_table_changed")
    lake.run("create schema other", "insert into orders values (1, 'a', 1), (2, 'b', 2)")
    lake.copy()
    for leaving, name, returning in (
        ("rename to parked", "parked", "rename to orders"),
        ("set schema other", "other.orders", "set schema public"),
    ):
        for change in ("insert into {} values (3, 'c', 3)", "delete from {} where id < 3", "truncate {}"):
            lake.run(f"alter table orders {leaving}", change.format(name), f"alter table {name} {returning}")
            if told == "by rows":
                lake.run("insert into orders values (4)", "delete from orders where id = 4")
            lake.apply()
            assert lake.rows("public.orders", "id") == _ids(lake, "orders")
        lake.run("insert into orders values (1), (2)")


def test_what_was_written_while_a_table_was_not_captured_is_copied(lake: Following) -> None:
    """A partition that is detached has no trigger of its parent's, until it is attached again."""
    lake.run("create table parted (id int primary key) partition by list (id)")
    lake.run("create table part partition of parted for values in (1, 2)")
    lake.run("select pgq.capture_table('parted', 'changes')")
    lake.copy()
    lake.run("insert into orders values (1)", "insert into parted values (1)")
    lake.run("alter table parted detach partition part", "select pgq.release_table('orders', 'changes')")
    lake.run("insert into orders values (2)", "insert into part values (2)")
    lake.run("alter table parted attach partition part for values in (1, 2)")
    lake.run("select pgq.capture_table('orders', 'changes')")
    lake.apply()
    assert [*map(len, (lake.rows("public.part"), lake.rows("public.orders")))] == [2, 2]
    lake.run("alter table orders disable trigger all", "insert into orders values (3)")
    lake.run("alter table orders enable trigger all", "delete from parted")
    lake.apply()
    assert len(lake.rows("public.orders")) == 3
    lake.run("select pgq.capture_table('orders', 'changes')", "insert into orders values (4)")
    lake.apply()
    copies = lake.folder.copies("public.orders")
    lake.run("select pgq.capture_table('orders', 'changes', 'json', '{backup}')")
    lake.apply()
    assert lake.folder.copies("public.orders") == copies


def test_a_renamed_column_and_one_renamed_back_within_a_batch_follow(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    lake.run("alter table orders rename customer to client", "insert into orders values (2, 'b', 2)")
    lake.apply()
    assert lake.rows("public.orders", "id", "client") == [(1, "a"), (2, "b")]
    lake.run("alter table orders rename client to customer", "insert into orders values (3, 'c', 3)")
    lake.run("alter table orders rename customer to client", "update orders set client = 'C' where id = 3")
    lake.apply()
    assert lake.rows("public.orders", "id", "client") == [(1, "a"), (2, "b"), (3, "C")]


def test_a_table_that_is_captured_later_is_copied_when_a_change_comes(lake: Following) -> None:
    lake.copy()
    lake.make("late", "id int primary key")
    lake.run("insert into late values (1)")
    lake.apply()

    assert lake.rows("public.late") == [(1,)]


@IN_EACH_FORMAT
def test_a_batch_that_spark_commits_again_changes_nothing(lake: Following) -> None:
    lake.make("readings", "value float8", "insert-only")
    lake.copy()
    lake.run("insert into readings values (1)")
    staged = lake.stage()
    lake.commit(staged, 0)
    lake.commit(lake.stage(), 0)

    assert lake.rows("public.readings") == [(1.0,)]

    lake.run("insert into readings values (2)")
    lake.commit(lake.stage(), 1)
    lake.run("insert into readings values (3)")
    lake.commit(lake.stage(), 0)  # as a checkpoint does that is older than the table

    assert lake.rows("public.readings") == [(1.0,), (2.0,), (3.0,)]


def test_a_run_killed_between_two_tables_goes_on_with_the_other(
    lake: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits fail from the second table on, as when the process dies; the batch then comes again."""
    lake.make("readings", "value float8", "insert-only")
    lake.make("zoo", "id int primary key")
    lake.copy()
    lake.run("insert into readings values (1)", "insert into zoo values (1)")
    with monkeypatch.context() as patched:
        apply = FollowedTable.apply

        def die(table: FollowedTable, *given: object) -> None:
            if table.path.endswith("zoo"):
                raise KeyboardInterrupt
            apply(table, *given)  # type: ignore[arg-type]  # passed on as they are

        patched.setattr(FollowedTable, "apply", die)
        with pytest.raises(KeyboardInterrupt):
            lake.commit(lake.stage(), 0)
    assert (lake.rows("public.readings"), lake.rows("public.zoo")) == ([(1.0,)], [])
    lake.commit(lake.stage(), 0)

    assert (lake.rows("public.readings"), lake.rows("public.zoo")) == ([(1.0,)], [(1,)])


def test_a_running_job_copies_a_table_anew_when_another_process_asks(lake: Following) -> None:
    lake.make("others", "id int primary key")
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 2)", "insert into others values (1), (2)")
    lake.copy()
    for table in ("public.orders", "public.others"):
        lake.lose(table, "id = 1")
    assert ask(lake.settings, "lake", ["orders"]) == []
    with Database(lake.dsn).session() as stream:
        assert stream.run(ConsumerTable("changes", "lake").try_lead())
        assert ask(lake.settings, "lake", ["orders"]) == ["public.orders"]
    lake.apply()  # without an event
    assert (len(lake.rows("public.orders")), len(lake.rows("public.others"))) == (2, 1)
    lake.lose("public.orders", "id = 1")
    lake.run("insert into orders values (3, 'c', 3)", "insert into others values (3)")
    lake.apply()
    assert (lake.rows("public.orders", "id"), lake.rows("public.others", "id")) == ([(2,), (3,)],) * 2


def test_a_copy_that_was_killed_before_its_commit_is_made_again(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1)")
    lake.copy()
    ((number, held),) = lake.folder.copies("public.orders").items()
    lake.folder.note_copy("public.orders", number + 1, Copy("9:9:", "other", []), instead_of=number)
    lake.run("insert into orders values (2, 'b', 2)")
    lake.apply()

    assert lake.folder.copies("public.orders")[number] == held
    assert lake.rows("public.orders", "id") == [(1,), (2,)]


def test_the_noted_versions_are_the_database_at_one_tick(lake: Following) -> None:
    lake.make("zoo", "id int primary key")
    lake.copy()
    lake.run("insert into orders values (1, 'a', 1)", "insert into zoo values (1)")
    lake.apply()
    noted = lake.folder.versions()
    lake.run("insert into zoo values (2)")
    lake.apply()

    assert lake.rows("public.zoo", version=noted["public.zoo"]) == [(1,)]
    assert lake.folder.versions()["public.orders"] == noted["public.orders"]


@IN_EACH_FORMAT
def test_an_older_version_is_as_it_was_after_columns_changed(lake: Following) -> None:
    lake.run("insert into orders values (1, 'a', 1.10)")
    lake.copy()
    before = lake.version("public.orders")
    lake.run(
        "alter table orders drop column customer", "alter table orders add column customer int default 7"
    )
    lake.run("alter table orders alter total type numeric(14, 2)", "alter table orders alter id type bigint")
    lake.copy()

    assert lake.rows("public.orders") == [(1, Decimal("1.10"), 7)]
    assert lake.rows("public.orders", version=before) == [(1, "a", Decimal("1.10"))]


def test_a_key_of_several_columns_is_followed(lake: Following) -> None:
    lake.make("lines", "order_id bigint, line text, amount int, primary key (line, order_id)")
    lake.run("insert into lines select i, l, 0 from generate_series(1, 3) i, unnest(array['a', 'b']) l")
    lake.copy()
    lake.run(
        "update lines set amount = 5 where order_id = 2 and line = 'b'", "delete from lines where line = 'a'"
    )
    lake.apply()

    assert lake.rows("public.lines") == [(1, "b", 0), (2, "b", 5), (3, "b", 0)]


@IN_EACH_FORMAT
def test_a_key_is_followed_when_its_columns_are_renamed_or_swapped(lake: Following) -> None:
    lake.make("parts", "id int, part int, note text, primary key (id) include (note)")
    lake.run("insert into parts values (1, 10, 'a'), (2, 20, 'b')")
    lake.copy()
    lake.run("alter table parts rename id to ident", "update parts set note = 'A' where ident = 1")
    lake.apply()
    assert lake.rows("public.parts") == [(1, 10, "A"), (2, 20, "b")]
    lake.run(
        "alter table parts rename part to id", "update parts set id = 5", "delete from parts where ident = 2"
    )
    lake.run("insert into orders values (1, 'a', 1)")
    lake.apply()
    assert lake.rows("public.parts") == [(1, 5, "A")]
    assert lake.rows("public.orders", "id") == [(1,)]


def test_a_key_that_a_capture_names_is_followed_until_the_table_lacks_it(lake: Following) -> None:
    lake.make("parts", "id int, part int", "pkey=id , part")
    lake.run("insert into parts values (1, 10)")
    lake.copy()
    lake.run("delete from parts")
    lake.apply()
    assert lake.rows("public.parts") == []
    lake.run("alter table parts rename part to other")
    with pytest.raises(ConfigurationError, match="by a key whose column part it does not have"):
        lake.copy()


def test_iceberg_columns_keep_their_identity_while_they_widen(
    log_database: str, pgq: psycopg.Connection, tmp_path: Path
) -> None:
    lake = Following(log_database, pgq, tmp_path / "lake", "iceberg")
    lake.copy()

    def columns() -> dict[str, int]:
        with lake.iceberg("public.orders") as table:
            return {field.name: field.field_id for field in table.schema().fields}

    before = columns()
    lake.run(
        "alter table orders alter total type numeric(14, 2), alter id type bigint, alter customer type int using 1"
    )
    lake.copy()
    after = columns()

    assert (after["id"], after["total"]) == (before["id"], before["total"])
    assert after["customer"] not in before.values()


@IN_EACH_FORMAT
def test_one_table_is_copied_anew_and_the_others_go_on(lake: Following) -> None:
    lake.make("goods", "id int primary key, name text")
    lake.run("insert into orders values (1, 'a', 1), (2, 'b', 2)", "insert into goods values (1, 'x')")
    lake.copy()
    lake.run("begin; set local session_replication_role = replica; delete from orders where id = 1; commit")
    lake.run("insert into orders values (3, 'c', 3)", "insert into goods values (2, 'y')")
    with pytest.raises(
        ConfigurationError, match=r"No table of public.goods, public.orders is named public.nope"
    ):
        copy_new_tables(lake.settings, str, ["public.nope"])
    assert copy_new_tables(lake.settings, str, ["ord*"]) == {"public.orders": 2}
    lake.run("update orders set customer = 'C' where id = 3")
    lake.apply()
    assert lake.rows("public.orders", "id", "customer") == [(2, "b"), (3, "C")]
    assert lake.rows("public.goods", "id", "name") == [(1, "x"), (2, "y")]


def test_a_folder_is_of_one_consumer_and_wrong_tables_leave_nothing_behind(lake: Following) -> None:
    for settings, kind in (
        (replace(lake.settings, tables=("nope",)), ConfigurationError),
        (replace(lake.settings, log="nolog"), LogNotFoundError),
    ):
        with pytest.raises(kind, match=r"nope|nolog"):
            check_tables(settings, "lake")
    with pytest.raises(ConfigurationError, match="no lake"):
        vacuum_tables(lake.settings.path, older_than=timedelta(0), dry_run=True, tell=str)
    assert not Path(lake.folder.path).exists()

    check_tables(lake.settings, "lake")
    check_tables(lake.settings, "lake")
    with pytest.raises(
        ConfigurationError, match="follow log changes as consumer lake, not log changes as other"
    ):
        check_tables(lake.settings, "other")


@IN_EACH_FORMAT
def test_a_folder_has_one_format(lake: Following) -> None:
    lake.copy()
    held = lake.folder.format()
    lake.folder.settle(held)
    lake.folder.settle(None)
    assert lake.settings.format == held
    with pytest.raises(ConfigurationError, match=f"are {held} tables, not"):
        lake.folder.settle("delta" if held == "iceberg" else "iceberg")
