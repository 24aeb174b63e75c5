"""Every arrow between Spark and the database, broken: each batch is published once, whole, or its query fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from types import ModuleType
from typing import Any
from unittest.mock import Mock, patch

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark import TaskContext

from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError, PermissionDeniedError, StorageError
from rowbus.spark.sink.commit import batch_commit, prepared_transactions
from rowbus.spark.sink.commit import task as sink_task
from rowbus.spark.sink.commit.batch import SinkId, Task
from rowbus.spark.sink.commit.task import current_stream_task, current_task
from rowbus.spark.sink.janitor import JanitorReport, clean
from tests.spark.sink.conftest import Writing, rows

BATCH = rows(id=[1, 2], name=["a", "b"])
MORE = rows(id=[3], name=["c"])
COLUMNS = ["id", "name"]
ALL = [(1, "a"), (2, "b"), (3, "c")]


Goods = Callable[[], list[Any]]
Leftovers = Callable[[], int]


class KilledError(Exception):
    """The process ended here."""


@pytest.fixture(params=["staged", "prepared"])
def options(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"deliver": "table", "table": "goods", "exactlyOnce": request.param}


@pytest.fixture
def goods(pgq: psycopg.Connection) -> Goods:
    def read() -> list[Any]:
        return pgq.execute("select id, name from goods order by id, name").fetchall()

    return read


@pytest.fixture
def leftovers(pgq: psycopg.Connection, writing: Writing) -> Leftovers:
    def count() -> int:
        stages = "select count(*) from pg_class where relname like 'stage\\_%' and relkind = 'r'"
        notes = (
            "select (select count(*) from rowbus_spark.stage) + (select count(*) from rowbus_spark.decision)"
            " + (select count(*) from rowbus_spark.prepared_part)"
            " + (select count(*) from pg_prepared_xacts where database = current_database())"
        )
        (tables,) = pgq.execute(stages).fetchone() or (0,)
        (rest,) = pgq.execute(notes).fetchone() or (0,)
        return int(tables) + int(rest)

    return count


@contextmanager
def killed(where: ModuleType, name: str, after: int = 0) -> Iterator[None]:
    """End the process, as it were, at the call after so many of a function."""
    calls = iter(range(1000))
    real = getattr(where, name)

    def call(*args: object, **kwargs: object) -> object:
        if next(calls) >= after:
            raise KilledError
        return real(*args, **kwargs)

    with patch.object(where, name, call), pytest.raises(KilledError):
        yield


def test_a_batch_that_comes_again_is_not_published_again(
    writing: Writing, goods: Goods, leftovers: Leftovers, options: dict[str, str]
) -> None:
    writing.batch(0, BATCH, MORE, **options)
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL
    assert leftovers() == 0


def test_a_batch_of_an_older_checkpoint_is_refused_wherever_that_lies(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    """It reads what was written, and what has come since: skipped, that would be lost; written, doubled."""
    writing.batch(0, BATCH, **options)
    writing.batch(1, MORE, **options)
    writing.options["checkpointLocation"] = "/checkpoints/copied"
    with pytest.raises(
        ConfigurationError, match="has batch 1 already, and this is batch 0: the checkpoint is older"
    ):
        writing.batch(0, BATCH, MORE, **options)
    writing.batch(1, MORE, **options)

    assert goods() == ALL


def test_a_sink_is_its_query_wherever_the_checkpoint_lies() -> None:
    here, there = (SinkId(checkpoint=f"/checkpoints/{name}") for name in ("one", "two"))

    assert here.key("goods", "q-1", 0) == there.key("goods", "q-1", 0) != here.key("goods", "q-2", 0)
    assert here.key("goods", None, 0) != there.key("goods", None, 0)


def test_a_task_is_the_one_that_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"sql.streaming.queryId": "q-1", "streaming.sql.batchId": "7"}
    context = Mock(
        **{
            "partitionId.return_value": 3,
            "taskAttemptId.return_value": 41,
            "getLocalProperty": properties.get,
        }
    )
    monkeypatch.setattr(TaskContext, "get", lambda: context)

    assert current_stream_task() == Task(3, 41, "q-1", 7)
    assert current_task() == Task(3, 41)


def test_nothing_is_seen_before_the_commit(writing: Writing, goods: Goods, options: dict[str, str]) -> None:
    writing.tasks(0, BATCH, MORE, **options)
    assert goods() == []


def test_a_commit_that_spark_repeats_does_nothing(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    messages = writing.tasks(0, BATCH, MORE, **options)
    writing.commit(0, messages, COLUMNS, **options)
    writing.commit(0, messages, COLUMNS, **options)
    assert goods() == ALL


def test_an_abort_after_a_commit_that_did_commit_removes_nothing(
    writing: Writing, goods: Goods, leftovers: Leftovers, options: dict[str, str]
) -> None:
    messages = writing.tasks(0, BATCH, MORE, **options)
    with killed(batch_commit, "_tidy"):
        writing.commit(0, messages, COLUMNS, **options)
    writing.abort(0, messages, COLUMNS, **options)
    assert goods() == ALL
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL
    assert leftovers() == 0


def test_an_abort_after_a_decision_lets_the_next_run_finish_it(
    writing: Writing, goods: Goods, leftovers: Leftovers, options: dict[str, str]
) -> None:
    messages = writing.tasks(0, BATCH, MORE, **options)
    with killed(prepared_transactions, "finish"):
        writing.commit(0, messages, COLUMNS, **options)
    writing.abort(0, messages, COLUMNS, **options)
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL
    assert leftovers() == 0


def test_an_abort_removes_what_the_tasks_made(
    writing: Writing, goods: Goods, leftovers: Leftovers, options: dict[str, str]
) -> None:
    messages = writing.tasks(0, BATCH, MORE, **options)
    assert leftovers() > 0
    writing.abort(0, [*messages, None, None], COLUMNS, **options)
    assert leftovers() == 0
    assert goods() == []
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL


def test_of_two_attempts_only_the_one_that_spark_names_counts(
    writing: Writing, goods: Goods, leftovers: Leftovers
) -> None:
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "staged"}
    writer = writing.writer(COLUMNS, **options)
    writing.task(writer, 0, 0, BATCH)  # a speculative one, which lost
    messages = [writing.task(writer, 0, 0, BATCH), writing.task(writer, 1, 0, MORE)]
    writing.commit(0, list(messages), COLUMNS, **options)
    assert goods() == ALL
    assert leftovers() == 0


def test_of_two_prepared_attempts_only_the_one_that_spark_names_counts(
    writing: Writing, pgq: psycopg.Connection, leftovers: Leftovers
) -> None:
    pgq.execute(
        "create table things (id int8)"
    )  # without a key, for whose sake attempts would wait for each other
    options = {"deliver": "table", "table": "things", "exactlyOnce": "prepared"}
    writer = writing.writer(["id"], **options)
    writing.task(writer, 0, 0, rows(id=[1]))
    messages = [writing.task(writer, 0, 0, rows(id=[1]))]
    writing.commit(0, list(messages), ["id"], **options)
    assert pgq.execute("select id from things").fetchall() == [(1,)]
    assert leftovers() == 0


@pytest.mark.parametrize("following", ["prepared", "staged"])
def test_an_attempt_that_ends_after_its_batch_is_ended_by_the_next(
    writing: Writing, pgq: psycopg.Connection, following: str
) -> None:
    pgq.execute("create table things (id int8)")
    options = {"deliver": "table", "table": "things", "exactlyOnce": "prepared"}
    for batch in (9, 10):  # 9 is less than 10 as a number
        writer = writing.writer(["id"], **options)
        writing.commit(batch, [writing.task(writer, 0, batch, rows(id=[batch]))], ["id"], **options)
        with patch.object(batch_commit, "is_done", return_value=False):  # it looked before the commit
            writing.task(writer, 0, batch, rows(id=[batch]))
    writing.tasks(12, rows(id=[12]), **options)  # of a batch to come
    writing.batch(11, rows(id=[11]), **options | {"exactlyOnce": following})
    assert pgq.execute("select id from things order by id").fetchall() == [(9,), (10,), (11,)]
    gids = pgq.execute("select gid from pg_prepared_xacts where database = current_database()").fetchall()
    assert [gid.split(":")[2] for (gid,) in gids] == ["12"]


def test_a_driver_killed_before_the_commit_leaves_nothing_in_the_way(
    writing: Writing, goods: Goods, leftovers: Leftovers, options: dict[str, str]
) -> None:
    writing.tasks(0, BATCH, MORE, **options)
    writing.batch(0, BATCH, MORE, **options)  # would wait for ever for the keys of the prepared ones
    assert goods() == ALL
    assert leftovers() == 0


@pytest.mark.parametrize("after", range(3))
def test_a_driver_killed_between_two_commits_is_finished_by_the_next(
    writing: Writing, goods: Goods, leftovers: Leftovers, after: int
) -> None:
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    with (
        killed(prepared_transactions, "_end_patiently", after) if after < 2 else killed(batch_commit, "_tidy")
    ):
        writing.commit(0, messages, COLUMNS, **options)
    assert len(goods()) == [0, 2, 3][after]
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL
    assert leftovers() == 0


def test_a_decided_batch_is_finished_even_when_the_guarantee_is_changed_meanwhile(
    writing: Writing, goods: Goods, leftovers: Leftovers
) -> None:
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    with killed(prepared_transactions, "_end_patiently", 1):
        writing.commit(0, messages, COLUMNS, **options)
    writing.batch(0, BATCH, MORE, **{**options, "exactlyOnce": "staged"})
    assert goods() == ALL
    assert leftovers() == 0


@pytest.mark.parametrize("changed", ["staged", "none"])
def test_what_was_left_prepared_is_not_waited_for_when_the_guarantee_is_changed(
    writing: Writing, goods: Goods, leftovers: Leftovers, changed: str
) -> None:
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    writing.tasks(0, BATCH, MORE, **options)
    writing.batch(0, BATCH, MORE, **{**options, "exactlyOnce": changed})
    assert goods() == ALL
    assert leftovers() == 0


def test_prepared_tasks_with_the_same_key_do_not_wait_for_each_other_for_ever(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_task, "LOCK_WAIT", "50ms")
    with pytest.raises(StorageError, match="same unique key"):
        writing.tasks(0, MORE, MORE, deliver="table", table="goods", exactlyOnce="prepared")


def test_prepared_parts_that_somebody_rolled_back_fail_the_batch(
    writing: Writing, pgq: psycopg.Connection, goods: Goods
) -> None:
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    _roll_back_one(pgq)
    with pytest.raises(StorageError, match="gone"):
        writing.commit(0, messages, COLUMNS, **options)
    writing.abort(0, messages, COLUMNS, **options)
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL


def test_decided_parts_that_somebody_rolled_back_are_never_passed_over(
    writing: Writing, pgq: psycopg.Connection
) -> None:
    options = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    with killed(prepared_transactions, "_end_patiently"):
        writing.commit(0, messages, COLUMNS, **options)
    _roll_back_one(pgq)
    with pytest.raises(StorageError, match="lost"):
        writing.batch(0, BATCH, MORE, **options)


def _roll_back_one(connection: psycopg.Connection) -> None:
    query = "select gid from pg_prepared_xacts where database = current_database() limit 1"
    (gid,) = connection.execute(query).fetchone() or ("",)
    connection.execute(f"rollback prepared '{gid}'")


def test_a_stage_that_lost_its_rows_fails_the_batch(
    writing: Writing, pgq: psycopg.Connection, goods: Goods
) -> None:
    options = {"deliver": "table", "table": "goods"}
    messages = writing.tasks(0, BATCH, MORE, **options)
    (stage,) = pgq.execute("select min(stage_name) from rowbus_spark.stage").fetchone() or ("",)
    pgq.execute(f"truncate rowbus_spark.{stage}")
    with pytest.raises(StorageError, match="lost"):
        writing.commit(0, messages, COLUMNS, **options)
    pgq.execute(f"drop table rowbus_spark.{stage}")
    with pytest.raises(StorageError, match="lost"):
        writing.commit(0, messages, COLUMNS, **options)
    assert goods() == []
    writing.abort(0, messages, COLUMNS, **options)
    writing.batch(0, BATCH, MORE, **options)
    assert goods() == ALL


def test_a_batch_without_tasks_or_rows_is_committed_like_any_other(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    writing.batch(0, **options)
    writing.batch(1, BATCH.slice(0, 0), **options)
    writing.batch(2, BATCH, MORE.slice(0, 0), **options)
    writing.batch(2, BATCH, **options)
    assert goods() == ALL[:2]


def test_a_checkpoint_begun_anew_at_its_old_place_is_another_sink(
    writing: Writing, pgq: psycopg.Connection
) -> None:
    pgq.execute("create table things (id int8)")
    writing.batch(0, rows(id=[1]), deliver="table", table="things")
    writing.query = "11111111-2222-3333-4444-555555555555"
    writing.batch(0, rows(id=[2]), deliver="table", table="things")
    assert pgq.execute("select id from things order by id").fetchall() == [(1,), (2,)]


def test_a_named_sink_is_the_same_wherever_the_checkpoint_is(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    writing.batch(0, BATCH, **options, txnAppId="shop")
    writing.options["checkpointLocation"] = "/checkpoints/moved"
    writing.batch(0, BATCH, **options, txnAppId="shop")
    assert goods() == ALL[:2]


def test_another_query_under_a_name_that_was_taken_is_refused_and_not_passed_over(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    named = {**options, "txnAppId": "shop"}
    writing.batch(0, BATCH, **named)
    writing.query = "11111111-2222-3333-4444-555555555555"
    with pytest.raises(ConfigurationError, match="another query"):
        writing.batch(0, MORE, **named)
    writing.batch(1, MORE, **named)
    assert goods() == ALL


def test_a_batch_that_left_the_ledger_while_its_tasks_passed_over_it_fails(
    writing: Writing, pgq: psycopg.Connection, options: dict[str, str]
) -> None:
    writing.batch(0, BATCH, **options)
    messages = writing.tasks(0, BATCH, **options)
    pgq.execute("delete from rowbus_spark.ledger")
    with pytest.raises(StorageError, match="left the ledger"):
        writing.commit(0, messages, COLUMNS, **options)


def test_a_batch_without_tasks_takes_nobodys_place(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    named = {**options, "txnAppId": "shop"}
    writing.batch(0, **named)
    writing.query = "11111111-2222-3333-4444-555555555555"
    writing.batch(0, BATCH, **named)
    assert goods() == ALL[:2]


def test_two_targets_of_one_sink_each_get_the_batch(writing: Writing, pgq: psycopg.Connection) -> None:
    pgq.execute("create table other (id int8, name text)")
    for table in ("goods", "other", "other"):
        writing.batch(7, BATCH, deliver="table", table=table, txnAppId="shop")
    assert pgq.execute("select id, name from other").fetchall() == ALL[:2]


def test_two_drivers_that_commit_one_batch_at_once_publish_it_once(
    writing: Writing, pgq: psycopg.Connection, options: dict[str, str]
) -> None:
    pgq.execute("create table things (id int8)")
    options = {**options, "table": "things"}
    ours = writing.tasks(0, rows(id=[1]), **options)
    theirs = ours if options["exactlyOnce"] == "prepared" else writing.tasks(0, rows(id=[1]), **options)
    threads = [
        threading.Thread(target=writing.commit, args=(0, messages, ["id"]), kwargs=options)
        for messages in (ours, theirs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pgq.execute("select id from things").fetchall() == [(1,)]


def test_a_batch_without_rows_needs_no_rights(writing: Writing, pgq: psycopg.Connection) -> None:
    pgq.execute("drop role if exists rowbus_test_reader; create role rowbus_test_reader")
    writing.dsn = make_conninfo(writing.dsn, options="-c role=rowbus_test_reader")
    options = {"deliver": "deadletter", "log": "orders", "consumer": "lake"}
    try:
        empty = rows(ev_id=[1], reason=["late"])
        writing.commit(0, writing.tasks(0, empty.slice(1), **options), empty.schema.names, **options)
        with pytest.raises(PermissionDeniedError):
            writing.tasks(1, empty, **options)
    finally:
        pgq.execute("drop role rowbus_test_reader")


def test_the_commit_waits_for_the_disk_whatever_the_role_prefers(
    writing: Writing, pgq: psycopg.Connection
) -> None:
    pgq.execute("create table seen (setting text)")
    pgq.execute(
        "create function note() returns trigger language plpgsql as $$begin"
        " insert into seen values (current_setting('synchronous_commit')); return null; end$$"
    )
    pgq.execute("create trigger note after insert on goods execute function note()")
    pgq.execute("alter role current_user set synchronous_commit to off")
    try:
        for number, guarantee in enumerate(("staged", "none")):
            row = rows(id=[number], name=["x"])
            writing.batch(number, row, deliver="table", table="goods", exactlyOnce=guarantee)
    finally:
        pgq.execute("alter role current_user reset synchronous_commit")
    assert set(pgq.execute("select setting from seen").fetchall()) == {("on",)}


def test_the_janitor_removes_what_is_old_and_finishes_what_was_decided(
    writing: Writing, goods: Goods, leftovers: Leftovers
) -> None:
    prepared = {"deliver": "table", "table": "goods", "exactlyOnce": "prepared"}
    messages = writing.tasks(0, BATCH, **prepared)
    with killed(prepared_transactions, "_end_patiently"):
        writing.commit(0, messages, COLUMNS, **prepared)
    writing.tasks(1, MORE, **prepared)
    writing.tasks(2, MORE, deliver="table", table="goods")
    with Database(writing.dsn).session() as session:
        assert clean(session) == JanitorReport(0, 0, 1, 0, 0)
        assert goods() == ALL[:2]
        assert leftovers() > 0
        assert clean(session, timedelta(0)) == JanitorReport(1, 1, 0, 0, 0)
    assert leftovers() == 0
    assert goods() == ALL[:2]


def test_the_janitor_leaves_a_stage_that_is_in_use(writing: Writing, pgq: psycopg.Connection) -> None:
    writing.tasks(0, MORE, deliver="table", table="goods")
    (stage,) = pgq.execute("select stage_name from rowbus_spark.stage").fetchone() or ("",)
    with pgq.transaction(), Database(writing.dsn).session() as session:
        pgq.execute(f"lock table rowbus_spark.{stage} in access share mode")
        assert clean(session, timedelta(0)).stages == 0
    with Database(writing.dsn).session() as session:
        assert clean(session, timedelta(0)).stages == 1


def test_the_janitor_has_nothing_to_do_where_spark_never_was(database: str) -> None:
    with Database(database).session() as session:
        assert clean(session) == JanitorReport(0, 0, 0, 0, 0)


def test_a_batch_leaves_alone_what_others_of_its_sink_have_in_hand(
    writing: Writing, goods: Goods, options: dict[str, str]
) -> None:
    own = replace(writing.writer(COLUMNS, **options).sink, keep=None)
    first, second = writing.tasks(1, BATCH, **options), writing.tasks(2, MORE, **options)
    own.commit(second, 2)  # two batch writes under one name may run side by side
    own.commit(first, 1)
    assert goods() == ALL


def test_the_ledger_keeps_what_spark_may_repeat_and_forgets_the_rest(
    writing: Writing, pgq: psycopg.Connection
) -> None:
    options = {"deliver": "table", "table": "goods", "ledgerBatches": "200"}
    for number in (0, 1, 299):
        writing.batch(number, rows(id=[number], name=["x"]), **options)
    pgq.execute("update rowbus_spark.ledger set committed_at = now() - interval '8 days' where batch_id = 0")
    writing.batch(300, rows(id=[300], name=["x"]), **options)
    kept = pgq.execute("select batch_id from rowbus_spark.ledger order by 1").fetchall()
    assert kept == [(1,), (299,), (300,)]  # 1 is old by number, but not by time
