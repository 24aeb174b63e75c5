"""pgq_ext: what a consumer remembers in the database it applies batches to."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import psycopg
import pytest
from psycopg import errors
from psycopg.rows import scalar_row

from tests.fixtures.processes import await_blocked

SCHEMA = resources.files("rowbus.log") / "sql/postgresql/schema"
OLD_TABLES = """
    create schema pgq_ext;
    create table pgq_ext.completed_tick (consumer_id text primary key, last_tick_id bigint not null);
    create table pgq_ext.completed_batch (consumer_id text primary key, last_batch_id bigint not null);
    create table pgq_ext.completed_event (
        consumer_id text not null, batch_id bigint not null, event_id bigint not null,
        primary key (consumer_id, batch_id, event_id));
    create table pgq_ext.partial_batch (consumer_id text primary key, cur_batch_id bigint not null);
    insert into pgq_ext.completed_batch values ('c', 7);
"""

# With and without a sub-consumer: the same functions, with one name more.
of_each_form = pytest.mark.parametrize("names", [["c"], ["c", "s"]], ids=["consumer", "subconsumer"])


def call(connection: psycopg.Connection, function: str, *arguments: object) -> object:
    marks = ", ".join(["%s"] * len(arguments))
    return (
        connection.cursor(row_factory=scalar_row)
        .execute(f"select pgq_ext.{function}({marks})", arguments)
        .fetchone()
    )


@pytest.mark.every_version
@of_each_form
def test_the_last_tick_is_remembered_moved_either_way_and_forgotten(
    pgq: psycopg.Connection, names: list[str]
) -> None:
    assert call(pgq, "get_last_tick", *names) is None
    assert call(pgq, "set_last_tick", *names, 5) == 1
    assert call(pgq, "get_last_tick", *names) == 5
    assert call(pgq, "set_last_tick", *names, 3) == 1
    assert call(pgq, "get_last_tick", *names) == 3
    assert call(pgq, "set_last_tick", *names, None) == 1
    assert call(pgq, "get_last_tick", *names) is None


@pytest.mark.every_version
@of_each_form
def test_a_batch_is_done_once(pgq: psycopg.Connection, names: list[str]) -> None:
    assert call(pgq, "is_batch_done", *names, 1) is False
    assert call(pgq, "set_batch_done", *names, 1) is True
    assert call(pgq, "is_batch_done", *names, 1) is True
    assert call(pgq, "set_batch_done", *names, 1) is False


@of_each_form
def test_only_the_last_batch_is_remembered(pgq: psycopg.Connection, names: list[str]) -> None:
    for batch in (1, 2):
        call(pgq, "set_batch_done", *names, batch)
    assert call(pgq, "is_batch_done", *names, 2) is True
    assert call(pgq, "is_batch_done", *names, 1) is False
    assert call(pgq, "set_batch_done", *names, 1) is True


def test_a_batch_that_has_no_number_is_never_done(pgq: psycopg.Connection) -> None:
    assert call(pgq, "set_batch_done", "c", 0) is True
    assert call(pgq, "set_batch_done", "c", 0) is True
    assert call(pgq, "set_batch_done", "c", None) is True
    assert pgq.execute("select count(*) from pgq_ext.completed_batch").fetchone() == (0,)


@of_each_form
def test_an_event_is_done_once(pgq: psycopg.Connection, names: list[str]) -> None:
    assert call(pgq, "is_event_done", *names, 3, 101) is False
    assert call(pgq, "set_event_done", *names, 3, 101) is True
    assert call(pgq, "is_event_done", *names, 3, 101) is True
    assert call(pgq, "set_event_done", *names, 3, 101) is False


@pytest.mark.every_version
@of_each_form
def test_the_first_event_of_a_batch_forgets_those_of_the_one_before(
    pgq: psycopg.Connection, names: list[str]
) -> None:
    call(pgq, "set_event_done", *names, 3, 101)
    call(pgq, "set_event_done", *names, 3, 102)
    call(pgq, "set_event_done", *names, 4, 103)
    left = pgq.execute("select batch_id, event_id from pgq_ext.completed_event").fetchall()
    assert left == [(4, 103)]
    assert pgq.execute("select cur_batch_id from pgq_ext.partial_batch").fetchall() == [(4,)]


def test_consumers_and_their_subconsumers_do_not_know_of_each_other(pgq: psycopg.Connection) -> None:
    for names in (["c"], ["c", "s"], ["other"]):
        assert call(pgq, "set_batch_done", *names, 1) is True
        assert call(pgq, "set_event_done", *names, 1, 1) is True
        assert call(pgq, "set_last_tick", *names, 1) == 1
    tables = ("completed_tick", "completed_batch", "completed_event", "partial_batch")
    for table in tables:
        rows = pgq.execute(
            f"select consumer_id, subconsumer_id from pgq_ext.{table} order by 1, 2"
        ).fetchall()
        assert rows == [("c", ""), ("c", "s"), ("other", "")]


def test_arguments_go_by_name(pgq: psycopg.Connection) -> None:
    query = """
        select pgq_ext.set_batch_done(a_consumer := 'c', a_subconsumer := 's', a_batch_id := 1),
            pgq_ext.set_event_done(a_consumer := 'c', a_subconsumer := 's', a_batch_id := 1, a_event_id := 2),
            pgq_ext.set_last_tick(a_consumer := 'c', a_subconsumer := 's', a_tick_id := 3)
    """
    assert pgq.execute(query).fetchone() == (True, True, 1)


@pytest.mark.parametrize("setter", ["set_batch_done", "set_last_tick"])
def test_a_consumer_needs_a_name(pgq: psycopg.Connection, setter: str) -> None:
    with pytest.raises(errors.NotNullViolation):
        call(pgq, setter, None, 1)


@pytest.mark.every_version
@pytest.mark.parametrize("arguments", [["set_batch_done", "c", 1], ["set_event_done", "c", 1, 1]])
def test_of_two_sessions_that_do_the_same_work_the_second_waits_and_is_told_so(
    pgq: psycopg.Connection, log_database: str, arguments: list[str | int]
) -> None:
    function, *rest = arguments
    with psycopg.connect(log_database) as first, ThreadPoolExecutor() as pool:
        assert call(first, str(function), *rest) is True
        second = pool.submit(call, pgq, str(function), *rest)
        await_blocked(first, pgq)
        first.commit()
        assert second.result() is False


def test_it_names_the_release_it_is_compatible_with(pgq: psycopg.Connection) -> None:
    assert call(pgq, "version") == "3.2.6"


@pytest.mark.every_version
def test_a_schema_from_before_subconsumers_is_upgraded(pgq: psycopg.Connection) -> None:
    assert call(pgq, "upgrade_schema") == 0
    pgq.execute("drop schema pgq_ext cascade")
    pgq.execute(OLD_TABLES.encode())
    for file in sorted(SCHEMA.joinpath("ext").iterdir(), key=lambda file: file.name):
        pgq.execute(file.read_bytes())
    assert call(pgq, "upgrade_schema") == 0
    assert call(pgq, "is_batch_done", "c", 7) is True
    assert call(pgq, "set_batch_done", "c", "s", 7) is True
    assert call(pgq, "set_event_done", "c", "s", 7, 1) is True
    assert call(pgq, "set_last_tick", "c", "s", 7) == 1


def test_upgrading_counts_the_tables_it_changed(pgq: psycopg.Connection) -> None:
    pgq.execute("drop table pgq_ext.completed_tick, pgq_ext.partial_batch")
    pgq.execute(
        "create table pgq_ext.completed_tick (consumer_id text primary key, last_tick_id bigint not null)"
    )
    pgq.execute(
        "create table pgq_ext.partial_batch (consumer_id text primary key, cur_batch_id bigint not null)"
    )
    assert call(pgq, "upgrade_schema") == 2
    assert call(pgq, "upgrade_schema") == 0


@pytest.mark.every_version
def test_writers_may_call_it_without_rights_on_its_tables_and_others_may_not(pgq: psycopg.Connection) -> None:
    pgq.execute("set role pgq_writer")
    assert call(pgq, "set_batch_done", "c", 1) is True
    assert call(pgq, "set_event_done", "c", 1, 1) is True
    assert call(pgq, "set_last_tick", "c", 1) == 1
    with pytest.raises(errors.InsufficientPrivilege):
        pgq.execute("select from pgq_ext.completed_batch")
    pgq.execute("set role pg_monitor")
    assert call(pgq, "version")
    with pytest.raises(errors.InsufficientPrivilege):
        call(pgq, "is_batch_done", "c", 1)
