"""A replica is the source, row by row, whatever happened to it: by the same steps as in Spark, without Spark."""

from __future__ import annotations

import random
import re
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from rowbus.database.postgresql.arrow import Access
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import raw_source
from rowbus.errors import ConfigurationError, LogNotFoundError, StorageError
from rowbus.log.consumers.table import ConsumerTable
from rowbus.log.examination import examine_logs
from rowbus.spark.captured import describe_source_tables, reading_rows
from rowbus.spark.pipelines.replica import OF_A_TABLE, copy_beside, copy_tables, list_replica_tables
from tests.fixtures.log import FOREIGN_SETTINGS
from tests.fixtures.processes import await_that
from tests.spark.pipelines.shop import PLAN, Shop

FILL = """
insert into orders (id, customer, total, at, facts, tags, mood, code, picture, nick, done, span)
select
    i, 'customer ' || i, i * 1.10, '2026-11-21 07:00+00'::timestamptz + i * '1.5 s'::interval,
    jsonb_build_object('a', i, 'b', array['x', 'ł "q"', null]), array['t', 'a,b', null], 'good', 'ab', '\\x00ff',
    'é' || i, i % 2 = 0, '1 day 02:03:04'::interval
from generate_series(1, {count}) as i;
insert into "Line items" select i, 1, E'a & b = c\\n\\t\\\\' from generate_series(1, {count}) as i;
insert into readings select i + 0.1 from generate_series(1, {count}) as i;
"""
in_both_formats = pytest.mark.parametrize("form", ["json", "url"])
NULLS = "insert into orders (id) values (-1)"


@in_both_formats
def test_copy_and_changes_make_the_source(shop: Shop) -> None:
    shop.connection.execute(FILL.format(count=50))
    assert shop.copy() == {"public.Line items": 50, "public.orders": 50, "public.readings": 50}
    assert shop.differences() == []
    shop.connection.execute(NULLS)
    shop.connection.execute(
        "update orders set facts = '[1.50]', tags = null, total = null, code = 'x' where id % 3 = 0"
    )
    shop.connection.execute("delete from orders where id % 5 = 0")
    shop.connection.execute("insert into readings values ('nan'), (1e-7), (null)")
    assert shop.apply()
    assert shop.differences() == []


def test_types_lengths_and_keys_are_those_of_the_source(shop: Shop) -> None:
    shop.copy()
    columns = (
        "select array_agg((attname, format_type(atttypid, atttypmod), attnotnull)::text order by attnum) "
        "from pg_attribute where attnum > 0 and attrelid = '{}.orders'::regclass"
    )
    assert shop.one(columns.format("copy")) == shop.one(columns.format("public"))
    key = (
        "select pg_get_constraintdef(oid) from pg_constraint "
        "where contype = 'p' and conrelid = '{}.\"Line items\"'::regclass"
    )
    assert shop.one(key.format("copy")) == shop.one(key.format("public"))


def test_a_transaction_that_the_copy_sees_is_not_applied_again(shop: Shop) -> None:
    """Registered, written, copied: it is in the copy and in the batch. A table without a key would have it twice."""
    with Database(shop.dsn).session() as session:
        session.run(ConsumerTable("changes", "copier").register())
    shop.connection.execute("insert into readings values (1)")
    assert shop.copy()["public.readings"] == 1
    assert shop.apply()
    assert shop.differences() == []


def test_a_transaction_that_was_open_during_the_copy_is_applied(shop: Shop) -> None:
    with psycopg.connect(shop.dsn) as writer:
        writer.execute("insert into readings values (1)")
        writer.execute("insert into orders (id) values (1)")
        assert shop.copy()["public.readings"] == 0
        assert shop.apply()  # its events are not in there: no tick shows them
    assert shop.apply()
    assert shop.differences() == []


def test_the_last_change_of_a_row_counts_whichever_task_has_it(shop: Shop) -> None:
    shop.copy()
    for number in range(7):
        shop.connection.execute(
            f"insert into orders (id, customer) values (1, '{number}') "
            "on conflict (id) do update set customer = excluded.customer"
        )
    shop.connection.execute("insert into orders (id) values (2)")
    shop.connection.execute("delete from orders where id = 2")
    shop.connection.execute("insert into orders (id) values (2)")
    shop.connection.execute("insert into orders (id) values (3)")
    shop.connection.execute("delete from orders where id = 3")
    shop.apply(tasks=3)
    assert shop.differences() == []


def test_truncate_empties_the_copy_of_what_was_before_it(shop: Shop) -> None:
    shop.connection.execute(FILL.format(count=5))
    shop.copy()
    shop.connection.execute("insert into orders (id) values (100)")
    shop.connection.execute("truncate orders")
    shop.connection.execute("insert into orders (id) values (3)")
    shop.connection.execute(
        "truncate readings"
    )  # its trigger writes inserts only: no event, so nothing happens
    shop.apply()
    shop.connection.execute("insert into readings select 0.1 + generate_series(1, 5)")
    shop.connection.execute("delete from copy.readings")
    shop.apply()
    assert shop.differences() == []


def test_all_tables_of_a_batch_change_in_one_transaction(shop: Shop) -> None:
    shop.copy()
    shop.connection.execute("create table seen (number text)")
    shop.connection.execute("""
        create function see() returns trigger language plpgsql as $$
        begin insert into public.seen values (pg_current_xact_id()); return null; end $$
    """)
    for table in ("orders", '"Line items"'):
        shop.connection.execute(f"create trigger see after insert on copy.{table} execute function see()")
    shop.connection.execute("insert into orders (id) values (1)")
    shop.connection.execute("insert into \"Line items\" values (1, 1, 'x')")
    shop.apply()
    assert shop.one("select (count(*), count(distinct number))::text from seen") == "(2,1)"


def test_a_batch_is_applied_once(shop: Shop) -> None:
    shop.copy()
    shop.connection.execute("insert into readings values (1)")
    assert shop.apply()
    shop.connection.execute("insert into readings values (2)")
    shop.batches -= 1  # Spark repeats it: the ledger has it
    with shop.batch() as commit:
        assert not commit()
    assert shop.one("select count(*) from copy.readings") == 1


def test_a_batch_missing_between_is_noticed(shop: Shop) -> None:
    shop.copy()
    shop.apply()
    shop.batches += 1
    shop.connection.execute("insert into readings values (1)")
    with pytest.raises(StorageError, match="older than the checkpoint"):
        shop.apply()


def test_another_checkpoint_is_noticed_until_the_tables_are_copied_again(shop: Shop) -> None:
    shop.copy()
    shop.connection.execute("insert into readings values (1)")
    shop.apply()
    shop.query, shop.batches = "another", 0
    shop.connection.execute("insert into readings values (2)")
    with pytest.raises(StorageError, match="another checkpoint"):
        shop.apply()
    shop.copy(PLAN._replace(again=True))
    shop.batches = 0
    assert shop.apply()
    assert shop.differences() == []


def test_a_table_captured_later_is_added_with_what_it_has(shop: Shop) -> None:
    shop.copy(PLAN._replace(tables=["orders", "Line items"]))
    shop.connection.execute("insert into readings values (1)")
    shop.connection.execute("insert into orders (id) values (1)")
    assert shop.apply()
    shop.connection.execute("insert into readings values (2)")
    assert shop.copy() == {"public.readings": 2}
    shop.connection.execute("insert into readings values (3)")
    assert shop.apply()
    assert shop.differences() == []


@pytest.mark.parametrize(
    "change",
    [
        "add column more int not null default 1",
        "drop column note",
        "rename column note to remark",
        'rename column "position" to place',
        'drop constraint "Line items_pkey", add primary key ("position")',
    ],
)
def test_an_altered_table_alone_is_reshaped_and_copied_at_the_next_run(shop: Shop, change: str) -> None:
    shop.connection.execute('insert into "Line items" values (1, 1), (2, 2)')
    shop.copy()
    shop.connection.execute('create index of_mine on copy."Line items" ("order id")')
    shop.connection.execute(f'alter table "Line items" {change}')
    shop.connection.execute('insert into "Line items" values (3, 3)')
    with pytest.raises(StorageError, match=r"public\.Line items was altered"):
        shop.apply()
    assert shop.copy() == {"public.Line items": 3}
    shop.connection.execute('update "Line items" set "order id" = 4 where "order id" = 1')
    assert shop.apply()
    assert shop.differences() == []
    assert shop.one("select count(*) from pg_class where relname = 'of_mine'") == 1


@pytest.mark.parametrize("change", ["code type char(5)", "id type bigint", "customer type varchar(20)"])
def test_another_type_is_taken_over_at_the_next_run(shop: Shop, change: str) -> None:
    shop.connection.execute("insert into orders (id, code) values (2, 'ab')")
    shop.copy()
    shop.connection.execute("alter table orders drop column twice")
    shop.copy()
    shop.connection.execute(f"alter table orders alter column {change}")
    shop.connection.execute("insert into orders (id, code) values (1, 'ab')")
    with pytest.raises(StorageError, match="altered"):
        shop.apply()
    assert shop.copy() == {"public.orders": 2}
    assert shop.apply()
    assert shop.differences() == []


def test_one_table_is_copied_anew_and_the_others_go_on(shop: Shop) -> None:
    shop.connection.execute(FILL.format(count=5))
    shop.copy()
    shop.connection.execute("alter table orders drop column nick")
    shop.connection.execute("update orders set customer = 'x'; insert into readings values (7)")
    with pytest.raises(StorageError, match="altered"):
        shop.apply()
    shop.connection.execute("drop table copy.orders")
    with pytest.raises(ConfigurationError, match=r"is named public\.nope"):
        shop.copy(PLAN._replace(resync=["public.nope"]))
    assert shop.copy(PLAN._replace(resync=["orders"])) == {"public.orders": 5}
    assert shop.apply()
    assert shop.differences() == []


def test_a_copy_beside_a_running_job_loses_no_batch_of_its(shop: Shop) -> None:
    """The job applies a change while the copy waits for it: the snapshot of the copy shows the change."""
    shop.connection.execute(FILL.format(count=5))
    shop.copy()
    databases, again = (Database(shop.dsn), Database(shop.dsn)), PLAN._replace(resync=["orders"])
    assert copy_beside(*databases, again, print) is None
    with psycopg.connect(shop.dsn) as job, databases[0].session() as stream, ThreadPoolExecutor() as pool:
        assert stream.run(ConsumerTable("changes", "copier").try_lead())
        job.execute("update rowbus_spark.replica set replica = replica")
        copying = pool.submit(copy_beside, *databases, again, print)
        waiting = "select count(*) > 0 from pg_stat_activity where wait_event = 'transactionid'"
        await_that(lambda: shop.one(waiting), "the copy to wait for the job")
        shop.connection.execute("update orders set customer = 'late'; insert into readings values (7)")
        job.execute("update copy.orders set customer = 'late'")  # as its batch does
        job.commit()
        assert copying.result() == {"public.orders": 5}
    assert shop.texts("public.orders") == shop.texts("copy.orders")
    assert shop.apply()
    assert shop.differences() == []


def test_indexes_and_foreign_keys_of_ones_own_stop_no_legal_change(shop: Shop) -> None:
    shop.connection.execute(
        "insert into orders (id, customer, code) values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z')"
    )
    shop.copy()
    shop.connection.execute("create unique index on copy.orders (customer)")
    shop.connection.execute("create unique index on copy.orders (lower(code)) where id > 0")
    shop.connection.execute(
        'alter table copy."Line items" add foreign key ("order id") references copy.orders deferrable'
    )
    for change in (
        "update orders set customer = case id when 1 then 'b' when 2 then 'a' else 'c' end",
        "delete from orders where id = 3; insert into orders (id, customer, code) values (0, 'c', 'Z')",
        "update orders set code = case id when 1 then 'y' when 2 then 'x' else 'Z' end",
        'insert into orders (id) values (7); insert into "Line items" values (7, 1)',
        "update orders set nick = 'n' where id = 7",
        'delete from "Line items"; delete from orders where id = 7',
    ):
        shop.connection.execute(change)
        assert shop.apply()
        assert shop.differences() == []


@in_both_formats
@pytest.mark.every_version
def test_rows_without_a_key_are_as_many_as_in_the_source(shop: Shop) -> None:
    """Empty, equal, of types that have no equality and longer than an index takes."""
    run = shop.connection.execute
    run("create table notes (a float8, p point, j json, b text)")
    run("select pgq.capture_table('notes', 'changes', 'json', '{}')")
    rows = """
    insert into notes values (1, null, '{}', null), (1, null, '{}', null), (0, null, null, ''), ('-0', null, null, '');
    insert into notes
    select n, point(n, 1), '{"a": 1.0}', (select string_agg(md5(i::text), '') from generate_series(1, 2000) as i)
    from generate_series(2, 3) as n;
    """
    run(rows)
    shop.copy(PLAN._replace(tables=["notes"]))
    run(rows)
    run("update notes set b = 'x' where ctid in (select min(ctid) from notes where a = 1)")
    run(
        "delete from notes where ctid in (select min(ctid) from notes where b is distinct from 'x' group by a)"
    )
    run("insert into notes values (7); delete from notes where a = 7")
    assert shop.apply()
    assert shop.texts("public.notes") == shop.texts("copy.notes")
    run("truncate notes; insert into notes values (8), (8)")
    assert shop.apply()
    assert shop.texts("public.notes") == shop.texts("copy.notes")


@pytest.mark.every_version
def test_the_databases_own_settings_change_no_value(shop: Shop) -> None:
    run = shop.connection.execute
    run(FOREIGN_SETTINGS)
    run("create table notes (a float8, d date[], s interval, b bytea[], c regclass, e text[])")
    run("select pgq.capture_table('notes', 'changes')")
    values = "'{2026-02-03}', '-3 mons 2 days', array['\\x00'::bytea], 'orders', array['x', null]"
    run(f"insert into notes values (0.3, {values}), (0.1::float8 + 0.2, {values})")
    shop.copy(PLAN._replace(tables=["notes"]))
    assert shop.texts("public.notes") == shop.texts("copy.notes")
    run("insert into notes select * from notes")
    run("delete from notes where a <> 0.3")
    assert shop.apply()
    assert shop.texts("public.notes") == shop.texts("copy.notes")

    run(f"alter database {shop.connection.info.dbname} set idle_in_transaction_session_timeout to '300ms'")
    with Database(shop.dsn).session() as session:
        found = session.run(describe_source_tables("changes"))
    [table] = [each for each in found if each.name == "public.notes"]
    with reading_rows(Access(shop.dsn, application_name="slow"), table) as read:
        time.sleep(0.5)  # long sleep: longer than the database allows
        assert sum(rows.num_rows for rows in read.batches) == 2


@pytest.mark.parametrize(
    "change", ["drop constraint orders_pkey", "drop constraint orders_pkey, add primary key (customer)"]
)
def test_what_was_the_key_may_be_null_and_twice_once_it_is_none(shop: Shop, change: str) -> None:
    shop.copy()
    shop.connection.execute(f"alter table orders {change}, alter id drop not null")
    shop.connection.execute("insert into orders (customer) values ('a'), ('b')")
    assert shop.copy() == {"public.orders": 2}
    shop.connection.execute("update orders set done = true where customer = 'b'")
    assert shop.apply()
    assert shop.differences() == []


def test_an_update_of_the_key_moves_the_row(shop: Shop) -> None:
    shop.connection.execute("create table rates (k numeric primary key); insert into rates values (1.0)")
    shop.connection.execute("select pgq.capture_table('rates', 'changes', 'json', '{}')")
    shop.copy()
    shop.connection.execute("update rates set k = 1.00")
    shop.apply()
    assert shop.one("select k::text from copy.rates") == "1.00"
    shop.connection.execute("insert into \"Line items\" values (1, 1, 'x'), (2, 1, 'y')")
    shop.apply()
    form = shop.one("select format from pgq.capture_status where table_name = 'public.orders'")
    type_, new, old = {  # PgQ's triggers refuse to write such; others' may not
        "json": (
            '{"op":"UPDATE","table":["public","Line items"],"pkey":["order id","position"]}',
            '{"order id":3,"position":1,"note":"x"}',
            '{"order id":1,"position":1,"note":"x"}',
        ),
        "url": ("U:order id,position", "order+id=3&position=1&note=x", "order+id=1&position=1&note=x"),
    }[form]
    shop.connection.execute(
        "select pgq.insert_event('changes', %s, %s, 'public.Line items', %s, null, null)", [type_, new, old]
    )
    shop.apply()
    assert shop.one('select array_agg("order id" order by 1) from copy."Line items"') == [2, 3]


def test_events_of_other_origin_are_passed_over(shop: Shop) -> None:
    shop.copy()
    shop.connection.execute("select pgq.insert_event('changes', 'order_placed', '{\"id\": 1}')")
    shop.connection.execute("insert into readings values (1)")
    assert shop.apply()
    assert shop.differences() == []


def test_a_batch_without_rows_counts(shop: Shop) -> None:
    shop.copy()
    assert shop.apply(tasks=0)
    assert shop.one("select last_batch from rowbus_spark.replica") == 0


def test_a_copy_that_was_interrupted_has_not_happened(shop: Shop) -> None:
    shop.connection.execute(FILL.format(count=5))
    shop.connection.execute("create schema copy; create table copy.readings (other int)")
    with pytest.raises(StorageError, match=r"copy\.readings is there with other columns"):
        shop.copy()
    assert shop.one("select to_regclass('copy.orders')") is None
    shop.connection.execute("drop table copy.readings")
    assert shop.copy()["public.orders"] == 5


def test_a_table_without_the_key_is_refused(shop: Shop) -> None:
    shop.connection.execute('create schema copy; create table copy."Line items" as table "Line items"')
    with pytest.raises(StorageError, match="no unique index"):
        shop.copy()


def test_the_source_itself_is_never_the_target_nor_is_another_replica(shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="same database"):
        shop.copy(PLAN._replace(schema=None))
    with pytest.raises(ConfigurationError, match="is the source itself"):
        shop.copy(PLAN._replace(schema="public"))
    shop.copy()
    with pytest.raises(StorageError, match="is the copy that replica copy keeps"):
        shop.copy(PLAN._replace(consumer="other", replica="other"))


def test_tables_keep_their_schema_in_another_database(shop: Shop, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create type mood as enum ('bad', 'good', 'other')")
        connection.execute("create domain short_text as varchar(10)")
        shop.connection.execute(FILL.format(count=3))
        rows = copy_tables(Database(shop.dsn), Database(database), PLAN._replace(schema=None), lambda _: None)
        assert rows["public.orders"] == 3
        copied = set(connection.execute("select t::text from public.orders as t").fetchall())
    assert copied == set(shop.connection.execute("select t::text from public.orders as t").fetchall())


@pytest.mark.parametrize(
    "capture, message",
    [
        ("'orders', 'other', 'sql'", "format sql"),
        ("'orders', 'other', 'json', '{when=id > 1}'", "when="),
        ("'orders', 'other', 'json', '{ev_extra1=customer}'", "ev_extra1="),
    ],
)
def test_events_that_are_not_the_rows_are_refused(shop: Shop, capture: str, message: str) -> None:
    shop.connection.execute("select pgq.create_queue('other')")
    shop.connection.execute(f"select pgq.capture_table({capture})")
    with pytest.raises(ConfigurationError, match=message):
        shop.copy(PLAN._replace(log="other", replica="other", schema="other"))


def test_tables_that_are_not_captured_are_named(shop: Shop) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Not captured.*customers; captured is public.Line items, public.orders"
    ):
        shop.copy(PLAN._replace(tables=["orders", "customers"]))
    assert shop.one("select count(*) from pgq.consumer") == 0, "nobody holds the log back"


def test_an_unknown_log_is_named(shop: Shop) -> None:
    with pytest.raises(LogNotFoundError, match="other"):
        shop.copy(PLAN._replace(log="other"))


def test_ignored_columns_are_left_out(shop: Shop) -> None:
    shop.connection.execute("select pgq.create_queue('less')")
    shop.connection.execute("select pgq.capture_table('orders', 'less', 'json', '{\"ignore=facts,at\"}')")
    shop.copy(PLAN._replace(log="less", replica="less", schema="less"))
    assert (
        shop.one(
            "select count(*) from pg_attribute where attrelid = 'less.orders'::regclass and attname = 'facts'"
        )
        == 0
    )


@in_both_formats
def test_whatever_happens_at_random_the_replica_follows(shop: Shop) -> None:
    chance = random.Random(7)
    shop.copy()
    for _ in range(12):
        for _ in range(chance.randrange(25)):
            row = chance.randrange(8)
            shop.connection.execute(
                chance.choice(
                    [
                        f"insert into orders (id) values ({row}) on conflict (id) do nothing",
                        f"update orders set customer = '{chance.random()}' where id = {row}",
                        f"delete from orders where id = {row}",
                        f"insert into \"Line items\" values ({row}, 1, 'n') on conflict do nothing",
                        f'delete from "Line items" where "order id" = {row}',
                        f"insert into readings values ({row})",
                        *(["truncate orders"] if chance.random() < 0.2 else []),
                    ]
                )
            )
        shop.apply(tasks=chance.randrange(1, 4))
        assert shop.differences() == []


SWAP = """
alter table notes rename note to n; alter table notes rename place to note; alter table notes rename n to place
"""
ANEW = """
alter table notes rename to parked; create table notes (like parked including all); insert into notes values (4, 4);
select pgq.capture_table('notes', 'changes')
"""


@pytest.mark.every_version
@pytest.mark.parametrize(
    "change",
    [
        "alter table notes alter note type text using note || '!'",
        "alter table notes drop note, add note text",
        SWAP,
        "alter table notes rename to parked; insert into parked values (3, 3); alter table parked rename to notes",
        "begin; alter table notes rename to parked; truncate parked; alter table parked rename to notes; commit",
        ANEW,
        "alter table notes alter place drop not null",
    ],
)
def test_a_change_that_rows_do_not_show_is_never_passed_over(shop: Shop, change: str) -> None:
    """The batch in which the log tells of it is refused, and the next run copies the table."""
    run = shop.connection.execute
    run("create table notes (id int primary key, note text, place text not null default 'here')")
    run("select pgq.capture_table('notes', 'changes')")
    run("insert into notes values (1, 'a')")
    plan = PLAN._replace(schema="copy")
    shop.copy(plan)
    for statement in change.split(";"):
        run(statement)
    run("insert into orders (id) values (1)")
    with pytest.raises(StorageError, match=r"public\.notes was altered"):
        shop.apply()
    assert shop.copy(plan)
    assert shop.apply()
    assert shop.texts("public.notes") == shop.texts("copy.notes")
    assert shop.differences() == []
    assert not shop.copy(plan)


def test_what_is_told_late_of_an_earlier_table_of_the_name_is_copied_for_once(shop: Shop) -> None:
    """Without event triggers the log is told of a new name when a row comes: after the next table was copied."""
    run = shop.connection.execute
    run("create table notes (id int primary key); select pgq.capture_table('notes', 'changes')")
    run("alter event trigger pgq_table_changed disable; alter table notes rename to parked")
    with psycopg.connect(shop.dsn) as busy:
        busy.execute("lock table parked")  # so that who captures the next cannot tell
        run("create table notes (id int primary key); select pgq.capture_table('notes', 'changes')")
    plan = PLAN._replace(schema="copy")
    shop.copy(plan)
    run("insert into parked values (1); insert into notes values (2)")
    with pytest.raises(StorageError, match=r"public\.notes was altered"):
        shop.apply()
    assert shop.copy(plan)["public.notes"] == 1
    assert shop.apply()
    assert shop.texts("public.notes") == shop.texts("copy.notes")
    assert not shop.copy(plan)


def test_what_is_told_twice_may_commit_in_any_order(shop: Shop) -> None:
    shop.copy()
    told = """
        insert into pgq.capture_shape (cs_queue, cs_table, cs_trigger, cs_shape, cs_change, cs_event)
        select 'changes', table_id, trigger_name, shape, change, pgq.append_change('changes', 'ALTER', change)
        from pgq.capture_status, pgq.shown_shape(table_id, trigger_args) as shape,
            jsonb_build_object('before', shape, 'after', shape) as change where table_name = 'public.orders'
    """
    with psycopg.connect(shop.dsn) as first:
        first.execute(told)
        shop.connection.execute(told)
        assert "public.orders" in shop.copy()
    with pytest.raises(StorageError, match=r"public\.orders was altered"):
        shop.apply()
    assert "public.orders" in shop.copy()
    assert shop.apply()
    assert not shop.copy()


def test_a_job_that_runs_outlives_the_end_of_chosen_tables_and_changes_of_others(shop: Shop) -> None:
    """Others: the replica has them from a run that chose more."""
    shop.copy()
    chosen = PLAN._replace(tables=["orders"])
    shop.connection.execute("alter table readings add column more int; alter table orders rename to former")
    with pytest.raises(StorageError, match="was altered"):
        shop.apply()
    with pytest.raises(ConfigurationError, match="Not captured"):
        shop.copy(chosen)
    assert shop.copy(chosen._replace(begun=True)).keys() == {"public.readings"}
    assert shop.apply()
    shop.connection.execute("alter table former rename to orders; insert into orders (id) values (1)")
    assert shop.apply()
    assert shop.copy(chosen._replace(begun=True)) == {"public.orders": 1}
    assert shop.differences() == []


def test_what_was_written_while_a_table_was_not_captured_is_copied_at_the_next_run(shop: Shop) -> None:
    shop.copy()
    shop.connection.execute("select pgq.release_table('orders', 'changes')")
    shop.connection.execute("insert into orders (id) values (1)")
    shop.connection.execute("select pgq.capture_table('orders', 'changes')")
    assert shop.copy() == {"public.orders": 1}
    assert not shop.copy()


def test_columns_that_are_computed_when_they_are_read_are_null_as_in_events(shop: Shop) -> None:
    if shop.connection.info.server_version < 180000:
        pytest.skip("this server has no virtual columns")
    run = shop.connection.execute
    run("create table doubled (id int primary key, shown int generated always as (id * 2) not null)")
    run("select pgq.capture_table('doubled', 'changes'); insert into doubled values (1)")
    shop.copy()
    run("insert into doubled values (2)")
    assert shop.apply()
    assert run("select id from copy.doubled where shown is null order by 1").fetchall() == [(1,), (2,)]


def test_a_table_that_is_gone_stops_no_batch(shop: Shop) -> None:
    told = list[str]()
    shop.copy()
    shop.connection.execute("insert into readings values (1)")
    shop.connection.execute('drop table "Line items"')
    shop.connection.execute("select pgq.release_table('orders', 'changes')")
    with pytest.raises(StorageError, match="Line items was altered"):
        shop.apply()
    copy_tables(Database(shop.dsn), Database(shop.dsn), PLAN, told.append)
    assert shop.apply()
    assert shop.one("select count(*) from copy.readings") == 1
    assert len(told) == 2
    assert 'public.Line items is captured no longer: copy."Line items" stays as it is' in told

    shop.connection.execute('create table "Line items" (id int primary key)')
    shop.connection.execute("""select pgq.capture_table('"Line items"', 'changes')""")
    shop.connection.execute('insert into "Line items" values (7)')
    assert shop.copy() == {"public.Line items": 1}
    assert shop.apply()
    assert shop.texts('public."Line items"') == shop.texts('copy."Line items"')


def make(shop: Shop, *names: str) -> None:
    """Have captured tables, with two rows each."""
    for name in names:
        shop.connection.execute(f"create table {name} (id int primary key, note text, more int)")
        shop.connection.execute(f"select pgq.capture_table('{name}', 'changes')")
        shop.connection.execute(f"insert into {name} values (1, 'a', 1), (2, 'b', 2)")


def faults(shop: Shop) -> dict[str, str]:
    """Give why tables of the replica stand still."""
    found = shop.connection.execute("select source_table, fault from rowbus_spark.replica_table")
    return {name.removeprefix("public."): fault for name, fault in found.fetchall() if fault}


RAISING = """
create function copy.refuse() returns trigger language plpgsql as $$ begin raise 'not here'; end $$;
create trigger refuse before insert on copy.a2 for each row execute function copy.refuse()
"""
RAISING_AT_THE_END = """
create function copy.later() returns trigger language plpgsql as $$ begin raise 'not then'; end $$;
create constraint trigger later after insert on copy.a10 initially deferred for each row execute function copy.later()
"""
HURTS = [
    (
        "alter table copy.a1 add constraint few check (id < 3)",
        "alter table copy.a1 drop constraint few",
        "few",
    ),
    (RAISING, "drop trigger refuse on copy.a2", "not here"),
    ("alter table copy.a3 alter note set not null", "select", "null value"),
    ("alter table copy.a4 rename to mine", "select", "does not exist"),
    ("alter table copy.a5 drop more", "select", "not all the columns"),
    ("create unique index once on copy.a6 (note)", "drop index copy.once", "once"),
    (
        "create table f7 as table copy.a7; alter table f7 add foreign key (id) references copy.a7",
        "drop table f7",
        "f7",
    ),
    (
        "create table f8 as table copy.a8; alter table f8 add foreign key (id) references copy.a8 initially deferred",
        "drop table f8",
        "f8",
    ),
    ("create index on copy.a9 ((1 / (id - 3)))", "drop index copy.a9_expr_idx", "division by zero"),
    (RAISING_AT_THE_END, "drop trigger later on copy.a10", "not then"),
]


@pytest.mark.every_version
def test_a_copy_that_does_not_take_its_changes_stands_still_and_the_others_go_on(shop: Shop) -> None:
    run, names = shop.connection.execute, [f"a{number}" for number in range(1, 11)]
    make(shop, *names, "a0")
    shop.copy()
    for hurt, _, _ in HURTS:
        run(hurt)
    run("insert into readings values (1)")
    for name in (*names, "a0"):
        run(f"delete from {name} where id = 1; insert into {name} values (3, 'b'), (4, null)")
    assert shop.apply()
    assert {
        name: told in faults(shop)[name] for name, (_, _, told) in zip(names, HURTS, strict=True)
    } == dict.fromkeys(names, True)
    assert shop.texts("public.a0") == shop.texts("copy.a0")
    assert shop.differences() == []
    with Database(shop.dsn).session() as session:
        found = [one for one in examine_logs(session) if one.subject == "replica copy"]
    assert [one.advice.split("--resync ")[1] for one in found] == [
        f"public.{name}`" for name in sorted(names)
    ]
    run("truncate a1")
    assert shop.apply()
    for _, mend, _ in HURTS:
        run(mend)
    assert shop.copy() == {f"public.{name}": 0 if name == "a1" else 3 for name in names}
    assert shop.apply()
    assert faults(shop) == {}
    assert all(shop.texts(f"public.{name}") == shop.texts(f"copy.{name}") for name in names)


def test_the_errors_of_a_table_are_the_same_to_copies_and_to_changes() -> None:
    changes = raw_source("spark/schema/sql/postgresql/definitions/520_replica_changes.sql")
    found = re.findall(r"'\{(0A,.*)\}'", changes)

    assert [set(each.split(",")) for each in found] == [OF_A_TABLE]


@pytest.mark.every_version
def test_what_people_have_built_on_a_copy_keeps_no_other_table_from_its_new_shape(shop: Shop) -> None:
    run = shop.connection.execute
    built = {
        "b1": ("create view v1 as select note from copy.b1", "drop note", None),
        "b2": ("alter table copy.b2 add mine text not null default 'x'", "add other int", None),
        "b3": ("create table f3 (id int references copy.b3)", "drop more", None),
        "b4": ("create view v4 as select note from copy.b4", "alter note type varchar(9)", "view public.v4"),
        "b5": ("alter table copy.b5 add made int generated always as (more) stored", "alter more type bigint", "made"),
        "b6": ("create policy mine on copy.b6 using (note > '')", "alter note type varchar(9)", "policy mine"),
        "b7": ("create table f7 (id int references copy.b7)", "drop constraint b7_pkey", "f7"),
        "b8": ("create materialized view v8 as select more from copy.b8", "alter more type bigint", "view public.v8"),
    }  # fmt: skip
    make(shop, *built)
    shop.copy()
    for name, (building, change, _) in built.items():
        run(building)
        run(f"alter table {name} {change}")
        run(f"delete from {name} where id = 1")
    run("insert into readings values (1)")
    with pytest.raises(StorageError, match="altered"):
        shop.apply()
    copied = shop.copy()
    assert shop.apply()
    assert shop.differences() == []
    assert {name: told in faults(shop).get(name, "") for name, (_, _, told) in built.items() if told} == {
        name: True for name, (_, _, told) in built.items() if told
    }
    assert copied == {f"public.{name}": 1 for name in ("b1", "b2", "b3")}
    run("truncate b3; insert into b1 values (7); insert into b2 values (7)")
    assert shop.apply()
    assert shop.one("select array_agg(id) from copy.b3") is None
    assert shop.one("select array_agg(id order by id) from copy.b1 where note is null") == [2, 7]
    assert shop.one("select string_agg(id || mine, ' ' order by id) from copy.b2") == "2x 7x"
    run("drop view v4; drop table f7; drop materialized view v8; drop policy mine on copy.b6")
    run("alter table copy.b5 drop made")
    assert len(shop.copy()) == 5
    assert faults(shop) == {}


def test_copies_that_a_foreign_key_of_ones_own_connects_are_copied_of_one_moment(shop: Shop) -> None:
    run = shop.connection.execute
    make(shop, "parents", "children")
    shop.copy()
    run("alter table copy.children add foreign key (id) references copy.parents deferrable")
    run("alter table parents add extra int")
    run("delete from children where id = 1; delete from parents where id = 1")
    with pytest.raises(StorageError, match="altered"):
        shop.apply()
    assert shop.copy() == {"public.parents": 1, "public.children": 1}
    assert shop.apply()
    assert faults(shop) == {}
    assert all(shop.texts(f"public.{name}") == shop.texts(f"copy.{name}") for name in ("parents", "children"))
    assert shop.copy(PLAN._replace(again=True))["public.parents"] == 1


def test_a_table_that_cannot_join_a_replica_keeps_no_other_from_its_changes(
    shop: Shop, database: str
) -> None:
    run = shop.connection.execute
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "create type mood as enum ('good', 'bad'); create domain short_text as varchar(10)"
        )
    target = Database(database)
    copy_tables(Database(shop.dsn), target, PLAN, print)
    run("create schema other; create table other.readings (id int primary key)")
    run("create type shade as enum ('dark'); create table shades (shade shade primary key)")
    run("create table ends (id int primary key); insert into readings values (1)")
    run("create table slots (id int primary key deferrable); select pgq.capture_table('slots', 'changes')")
    for captured in ("'other.readings', 'changes'", "'shades', 'changes'", "'ends', 'changes', 'sql'"):
        run(f"select pgq.capture_table({captured})")
    run("alter table orders add column extra int")
    assert copy_tables(Database(shop.dsn), target, PLAN, print).keys() == {"public.orders"}
    with target.session() as session:
        held = {table.source: table.fault or "" for table in session.run(list_replica_tables("copy"))}
    told = {
        "other.readings": "Two tables are called readings",
        "public.shades": "shade",
        "public.ends": "format sql",
        "public.slots": "has a deferrable primary key",
    }
    assert {name: text in held[name] for name, text in told.items()} == dict.fromkeys(told, True)
    assert [name for name, fault in held.items() if fault] == sorted(told)
    run("drop table other.readings, ends, slots")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create type shade as enum ('dark')")
    assert copy_tables(Database(shop.dsn), target, PLAN, print).keys() == {"public.shades"}
    with target.session() as session:
        assert not any(table.fault for table in session.run(list_replica_tables("copy")))
