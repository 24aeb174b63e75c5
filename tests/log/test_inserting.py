"""Inserting events one by one and by the array, as PgQ's C function does it (docs/wire-format.md#appending-events)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

import rowbus
from tests.fixtures.every import every
from tests.fixtures.processes import await_that

Connection = psycopg.Connection[Any]
Pair = tuple[str | None, str | None]

EVENTS = """
    select ev_id, ev_owner, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4
    from pgq.event_1 order by ev_id
"""


@pytest.fixture
def log_script() -> str:
    return "select pgq.create_queue('q')"


@pytest.fixture
def queue(pgq: Connection) -> Connection:
    """Give a connection; there is a queue called `q`."""
    return pgq


def value(connection: Connection, query: LiteralString, *values: object) -> Any:  # noqa: ANN401 - as the query says
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]


def outcome(connection: Connection, query: LiteralString) -> object:
    """Give a statement's first row, or the SQLSTATE and the text of its error."""
    try:
        cursor = connection.execute(query)
        return cursor.fetchone() if cursor.description else cursor.statusmessage
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_primary


def insert(connection: Connection, count: int = 1) -> Any:  # noqa: ANN401 - an event's number
    return [value(connection, "select pgq.insert_event('q', 't', 'd')") for _ in range(count)][-1]


@pytest.mark.every_version
def test_what_the_transaction_appends_that_creates_its_log_reaches_consumers(
    pgq: Connection,
) -> None:
    with psycopg.connect(pgq.info.dsn) as creating:
        value(creating, "select txid_current()")
        value(pgq, "select txid_current()")  # a younger transaction ends before
        value(creating, "select pgq.create_queue('made')")
        value(creating, "select pgq.register_consumer('made', 'c')")
        value(creating, "select pgq.insert_event('made', 't', 'd')")
    value(pgq, "select pgq.force_tick('made')")
    value(pgq, "select pgq.ticker('made')")
    batch = value(pgq, "select pgq.next_batch('made', 'c')")
    assert pgq.execute("select ev_data from pgq.get_batch_events(%s)", [batch]).fetchall() == [("d",)]


def take(connection: Connection) -> list[str]:
    """Take the batches that are there, and return what is in their events."""
    found = list[str]()
    while (batch := value(connection, "select pgq.next_batch('q', 'c')")) is not None:
        events = connection.execute("select ev_data from pgq.get_batch_events(%s)", [batch])
        found += [data for (data,) in events]
        value(connection, "select pgq.finish_batch(%s)", batch)
    return found


@pytest.mark.every_version
@pytest.mark.parametrize("does", ["registers", "reads"])
def test_what_a_transaction_appends_after_its_tick_reaches_consumers_once(
    queue: Connection, does: str
) -> None:
    register = "select pgq.register_consumer('q', 'c')"
    if does != "registers":
        value(queue, register)
    with psycopg.connect(queue.info.dsn) as ticking:
        value(ticking, "select pgq.insert_event('q', 't', 'before')")
        value(queue, "select txid_current()")  # a younger transaction ends before
        value(ticking, "select pgq.force_tick('q')")
        value(ticking, "select pgq.ticker('q')")
        if does == "registers":
            value(ticking, register)
        found = take(ticking) if does == "reads" else []
        value(ticking, "select pgq.insert_event('q', 't', 'after')")
    value(queue, "select pgq.force_tick('q')")
    value(queue, "select pgq.ticker('q')")

    assert found + take(queue) == ["before", "after"]


# ---------------------------------------------------------------------------------------------------------- one event


def test_an_event_of_three_arguments(queue: Connection) -> None:
    assert value(queue, "select pgq.insert_event(queue_name => 'q', ev_type => 't', ev_data => 'd')") == 1
    assert queue.execute(EVENTS).fetchall() == [(1, None, None, "t", "d", None, None, None, None)]


def test_an_event_of_seven_arguments(queue: Connection) -> None:
    assert (
        value(
            queue,
            "select pgq.insert_event(queue_name => 'q', ev_type => 't', ev_data => 'd', ev_extra1 => '1',"
            " ev_extra2 => '2', ev_extra3 => '3', ev_extra4 => '4')",
        )
        == 1
    )
    assert queue.execute(EVENTS).fetchall() == [(1, None, None, "t", "d", "1", "2", "3", "4")]


def test_an_event_carries_its_transaction_and_the_transactions_time(queue: Connection) -> None:
    with queue.transaction():
        insert(queue)
        assert value(queue, "select ev_txid = txid_current() and ev_time = now() from pgq.event_1")


def test_everything_but_the_queue_may_be_null(queue: Connection) -> None:
    queue.execute("select pgq.insert_event('q', null, null)")

    assert queue.execute(EVENTS).fetchall() == [(1, *[None] * 8)]


@pytest.mark.every_version
def test_an_event_given_raw_keeps_its_number_time_owner_and_retries(queue: Connection) -> None:
    query = """
        select pgq.insert_event_raw(queue_name => 'q', ev_id => 77, ev_time => '2001-02-03 04:05+00', ev_owner => 3,
            ev_retry => 4, ev_type => 't', ev_data => 'd', ev_extra1 => '1', ev_extra2 => '2', ev_extra3 => '3',
            ev_extra4 => '4')
    """
    assert value(queue, query) == 77
    assert queue.execute(EVENTS).fetchall() == [(77, 3, 4, "t", "d", "1", "2", "3", "4")]
    assert value(queue, "select ev_time = '2001-02-03 04:05+00' from pgq.event_1")


def test_the_sequence_advances_even_for_an_event_with_its_own_number(queue: Connection) -> None:
    queue.execute("select pgq.insert_event_raw('q', 77, null, null, null, 't', 'd', null, null, null, null)")

    assert insert(queue) == 2


def test_an_event_without_a_time_has_the_transactions(queue: Connection) -> None:
    with queue.transaction():
        queue.execute(
            "select pgq.insert_event_raw('q', null, null, null, null, 't', 'd', null, null, null, null)"
        )
        assert value(queue, "select ev_time = now() from pgq.event_1")


@every(
    "name,error",
    [("null", ("XX000", "Queue name must not be NULL")), ("'x'", ("XX000", "No such queue"))],
)
@every(
    "call",
    [
        "pgq.insert_event({}, 't', 'd')",
        "pgq.insert_event({}, 't', 'd', null, null, null, null)",
        "pgq.insert_event_raw({}, 1, now(), null, null, 't', 'd', null, null, null, null)",
        "pgq.insert_events({}, array['t'], array['d'])",
    ],
)
def test_the_queue_must_be_there(
    queue: Connection, call: LiteralString, name: LiteralString, error: Pair
) -> None:
    assert outcome(queue, "select " + call.format(name)) == error


def test_three_arguments_go_through_seven(queue: Connection) -> None:
    queue.execute("""
        create or replace function pgq.insert_event(queue_name text, ev_type text, ev_data text,
            ev_extra1 text, ev_extra2 text, ev_extra3 text, ev_extra4 text) returns bigint
        language sql as 'select -1::bigint'
    """)
    queue.execute("select pgq.create_queue('another')")

    assert insert(queue) == -1


# ------------------------------------------------------------------------------------------------ disabled and limited


def test_a_closed_queue_refuses_events_and_burns_their_numbers(queue: Connection) -> None:
    insert(queue)
    queue.execute("update pgq.queue set queue_disable_insert = true")
    assert outcome(queue, "select pgq.insert_event('q', 't', 'd')") == (
        "XX000",
        "Insert into queue disallowed",
    )
    queue.execute("update pgq.queue set queue_disable_insert = false")

    assert insert(queue) == 3


def test_a_closed_queue_takes_what_is_replicated(queue: Connection) -> None:
    queue.execute("update pgq.queue set queue_disable_insert = true")
    queue.execute("set session_replication_role to 'replica'")

    assert insert(queue) == 1
    assert value(queue, "select pgq.current_event_table('q')") == "pgq.event_1_0"


LIMITED = ("XX000", "Queue 'q' allows max 2 events from one TX")
INSERT = "select pgq.insert_event('q', 't', 'd')"
SCENARIOS: dict[str, list[LiteralString]] = {
    "more than the limit": ["begin", INSERT, INSERT, INSERT, "rollback"],
    "in the next transaction again": [
        "begin",
        INSERT,
        INSERT,
        "commit",
        "begin",
        INSERT,
        INSERT,
        INSERT,
        "rollback",
    ],
    "undone events count": ["begin", INSERT, "savepoint a", INSERT, "rollback to a", INSERT, "rollback"],
    "all undone": ["begin", "savepoint a", INSERT, INSERT, "rollback to a", INSERT, "rollback"],
    "refused events count": [
        "begin",
        INSERT,
        "savepoint a",
        INSERT,
        INSERT,
        "rollback to a",
        "update pgq.queue set queue_per_tx_limit = 5",
        INSERT,
        INSERT,
        INSERT,
        "rollback",
    ],
    "set within the transaction": [
        "update pgq.queue set queue_per_tx_limit = null",
        "begin",
        INSERT,
        "update pgq.queue set queue_per_tx_limit = 2",
        INSERT,
        INSERT,
        INSERT,
        "rollback",
    ],
    "zero": ["update pgq.queue set queue_per_tx_limit = 0", INSERT],
    "negative": ["update pgq.queue set queue_per_tx_limit = -1", INSERT],
    "one each": [INSERT, INSERT, INSERT],
    "in one statement": ["select pgq.insert_event('q', 't', 'd') from generate_series(1, 3)"],
    "raw counts": [
        "begin",
        "select pgq.insert_event_raw('q', 9, now(), null, null, 't', 'd', null, null, null, null)",
        INSERT,
        INSERT,
        "rollback",
    ],
}


@pytest.mark.every_version
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_limit_per_transaction_is_the_c_functions(
    queue: Connection, oracle: Connection, scenario: str
) -> None:
    oracle.execute("select pgq.create_queue('q')")
    for connection in (queue, oracle):
        connection.execute("update pgq.queue set queue_per_tx_limit = 2")

    for statement in SCENARIOS[scenario]:
        assert outcome(queue, statement) == outcome(oracle, statement), statement


def test_events_undone_by_a_savepoint_count_towards_the_limit(queue: Connection) -> None:
    queue.execute("update pgq.queue set queue_per_tx_limit = 2")
    with queue.transaction(force_rollback=True):
        with queue.transaction(force_rollback=True):
            insert(queue, 2)
        assert outcome(queue, "select pgq.insert_event('q', 't', 'd')") == LIMITED


def test_two_sessions_that_count_for_a_limit_for_the_first_time_at_once_both_insert(
    queue: Connection, log_database: str
) -> None:
    queue.execute("update pgq.queue set queue_per_tx_limit = 2")
    queue.execute("drop sequence pgq.event_1_limit_seq")  # as in a queue whose row PgQ's own tools restored
    waits = "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
    with (
        psycopg.connect(log_database) as first,
        psycopg.connect(log_database) as second,
        ThreadPoolExecutor() as pool,
    ):
        first.execute(INSERT)
        inserting = pool.submit(second.execute, INSERT)
        await_that(lambda: queue.execute(waits, [second.info.backend_pid]).rowcount > 0, "the second to wait")
        first.commit()

        inserting.result(10)
        second.execute(INSERT)
        with pytest.raises(psycopg.Error, match="allows max 2 events"):
            second.execute(INSERT)


def test_the_limit_of_one_session_is_not_anothers(queue: Connection, log_database: str) -> None:
    queue.execute("update pgq.queue set queue_per_tx_limit = 2")
    with psycopg.connect(log_database) as other, queue.transaction():
        for _ in range(2):
            insert(queue)
            insert(other)
        assert outcome(other, "select pgq.insert_event('q', 't', 'd')") == LIMITED


# ------------------------------------------------------------------------------------------------- generated functions


def in_use(connection: Connection) -> Any:  # noqa: ANN401 - a name
    """Say which table the queue's own function inserts into."""
    return value(
        connection,
        "select substring(prosrc, 'insert into (\\S+)') from pg_proc where proname = 'insert_event_1'",
    )


@pytest.mark.parametrize("current", [0, 1, 2])
def test_events_go_into_the_current_table_and_the_generated_function_follows_it(
    queue: Connection, current: int
) -> None:
    insert(queue)
    queue.execute("update pgq.queue set queue_cur_table = %s", [current])
    insert(queue)

    assert (
        value(queue, "select tableoid::regclass::text from pgq.event_1 where ev_id = 2")
        == f"pgq.event_1_{current}"
    )
    assert in_use(queue) == f"pgq.event_1_{current}"


@pytest.mark.every_version
def test_an_older_snapshot_goes_on_into_the_table_it_knows(queue: Connection, log_database: str) -> None:
    with psycopg.connect(log_database) as old:
        old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        insert(old)
        queue.execute("update pgq.queue set queue_cur_table = 1")
        insert(old)

    assert value(queue, "select count(*) from only pgq.event_1_0") == 2


@pytest.mark.every_version
def test_a_transaction_locks_no_table_but_the_current_one(queue: Connection) -> None:
    queue.execute("update pgq.queue set queue_cur_table = 1")
    with queue.transaction():
        insert(queue)
        locked = queue.execute(
            "select relation::regclass::text from pg_locks where pid = pg_backend_pid() and mode = 'RowExclusiveLock'"
            " and relation::regclass::text like 'pgq.event%' and relation::regclass::text not like '%seq%'"
        ).fetchall()
    assert [name for (name,) in locked if not name.endswith("_idx")] == ["pgq.event_1_1"]


@pytest.mark.every_version
def test_a_queue_without_a_generated_function_works_all_the_same(queue: Connection) -> None:
    queue.execute("select pgq._drop_insert(1), pgq._generate_dispatch()")

    assert insert(queue) == 1
    queue.execute("select pgq.upgrade_schema()")
    assert insert(queue) == 2
    assert len(queue.execute(EVENTS).fetchall()) == 2


def test_a_renamed_queue_is_found_under_its_new_name_only(queue: Connection) -> None:
    insert(queue)
    queue.execute("update pgq.queue set queue_name = 'renamed'")

    assert value(queue, "select pgq.insert_event('renamed', 't', 'd')") == 2
    assert outcome(queue, "select pgq.insert_event('q', 't', 'd')") == ("XX000", "No such queue")


def test_each_of_many_queues_is_found(queue: Connection) -> None:
    names = [f"{letter}{number}" for number in range(5) for letter in ("A", "b", "ż", "_", "")]
    for name in names:
        queue.execute("select pgq.create_queue(%s)", [name])
    for name in names[::3]:
        queue.execute("select pgq.drop_queue(%s)", [name])

    for name in names:
        answer = outcome(queue, f"select pgq.insert_event('{name}', 't', 'd')")
        assert answer == (("XX000", "No such queue") if name in names[::3] else (1,))


@pytest.mark.every_version
def test_the_way_through_the_generated_code_executes_nothing_dynamic(queue: Connection) -> None:
    queue.execute(
        "create or replace function pgq._insert_event_checked(i_queue text, i_id int8, i_time timestamptz,"
        " i_owner int4, i_retry int4, i_type text, i_data text, i_extra1 text, i_extra2 text, i_extra3 text,"
        " i_extra4 text, i_next int8) returns int8 language sql as 'select -1::int8'"
    )

    assert insert(queue, 3) == 3


@pytest.mark.every_version
def test_many_queues_are_not_all_read_for_each_event(queue: Connection) -> None:
    queue.execute("""
        insert into pgq.queue (queue_name, queue_data_pfx, queue_event_seq, queue_tick_seq)
        select 'queue ' || i, 'x', 'x', 'x' from generate_series(1, 200) as i
    """)
    queue.execute("analyze pgq.queue")
    insert(queue)
    scans: LiteralString = "select pg_stat_get_xact_numscans('pgq.queue'::regclass)"
    with queue.transaction():
        before = value(queue, scans)
        insert(queue, 3)
        assert value(queue, scans) == before


@pytest.mark.every_version
def test_a_caller_without_rights_on_the_tables_may_insert(queue: Connection) -> None:
    with queue.transaction(force_rollback=True):
        queue.execute("create role rowbus_test_producer in role pgq_writer")
        queue.execute("set local role rowbus_test_producer")
        assert insert(queue) == 1


@pytest.mark.every_version
def test_an_operator_of_the_callers_own_changes_nothing(queue: Connection) -> None:
    queue.execute(
        "create schema mine; create function mine.no(text, text) returns boolean language sql as 'select false'"
    )
    queue.execute("create function mine.no(int4, int4) returns boolean language sql as 'select false'")
    queue.execute("create operator mine.= (leftarg = text, rightarg = text, function = mine.no)")
    queue.execute("create operator mine.= (leftarg = int4, rightarg = int4, function = mine.no)")
    queue.execute("set search_path to mine, pg_catalog")

    assert insert(queue) == 1


@pytest.mark.every_version
@pytest.mark.parametrize("limit", ["null", "5"])
def test_a_type_of_the_callers_own_is_not_used_with_the_owners_rights(queue: Connection, limit: str) -> None:
    queue.execute("create schema mine")
    for name in ("int8", "int4", "text", "bool", "regclass", "timestamptz", "queue"):
        queue.execute(f"create domain mine.{name} as pg_catalog.text check (false)")
    queue.execute(f"update pgq.queue set queue_per_tx_limit = {limit}")
    queue.execute("set search_path to mine, pg_catalog")

    assert insert(queue) == 1


# ----------------------------------------------------------------------------------------------------------- by array


@pytest.mark.every_version
def test_arrays_become_events_in_their_order(queue: Connection) -> None:
    query = """
        select pgq.insert_events(i_queue_name => 'q', i_types => array['a', 'b', null],
            i_datas => array['1', null, '3'], i_extra2s => array['x', 'y', 'z'])
    """
    assert [number for (number,) in queue.execute(query)] == [1, 2, 3]
    assert [row[3:7] for row in queue.execute(EVENTS)] == [
        ("a", "1", None, "x"),
        ("b", None, None, "y"),
        (None, "3", None, "z"),
    ]


def test_no_arrays_are_no_events(queue: Connection) -> None:
    assert queue.execute("select pgq.insert_events('q', '{}', '{}')").fetchall() == []
    assert queue.execute("select pgq.insert_events('q', null, null)").fetchall() == []


def test_arrays_must_be_of_one_length(queue: Connection) -> None:
    assert outcome(queue, "select pgq.insert_events('q', array['a', 'b'], array['1'])") == (
        "P0001",
        "The arrays differ in length",
    )


def test_arrays_are_refused_and_limited_as_single_events_are(queue: Connection) -> None:
    queue.execute("update pgq.queue set queue_per_tx_limit = 2")
    assert outcome(queue, "select pgq.insert_events('q', array['a', 'b', 'c'], null)") == LIMITED
    assert len(queue.execute("select pgq.insert_events('q', array['a', 'b'], null)").fetchall()) == 2
    queue.execute("update pgq.queue set queue_disable_insert = true")
    assert outcome(queue, "select pgq.insert_events('q', array['a'], null)") == (
        "XX000",
        "Insert into queue disallowed",
    )


# ------------------------------------------------------------------------------------------------------ current table


def test_the_current_table_is_named_for_copy(queue: Connection) -> None:
    assert value(queue, "select pgq.current_event_table(x_queue_name => 'q')") == "pgq.event_1_0"
    queue.execute("update pgq.queue set queue_cur_table = 2")
    assert value(queue, "select pgq.current_event_table('q')") == "pgq.event_1_2"


@every("name", ["'x'", "null"])
def test_there_is_no_current_table_without_a_queue(queue: Connection, name: LiteralString) -> None:
    assert outcome(queue, f"select pgq.current_event_table({name})") == ("P0001", "Event queue not found")


def test_there_is_no_current_table_of_a_closed_queue(queue: Connection) -> None:
    queue.execute("update pgq.queue set queue_disable_insert = true")

    assert outcome(queue, "select pgq.current_event_table('q')") == ("P0001", "Writing to queue disabled")


def test_copy_is_not_limited(queue: Connection) -> None:
    queue.execute("update pgq.queue set queue_per_tx_limit = 0")
    with queue.cursor().copy("copy pgq.event_1_0 (ev_time, ev_data) from stdin") as copy:
        copy.write("2001-02-03\td\n")

    assert value(queue, "select ev_id from pgq.event_1") == 1


# ------------------------------------------------------------------------------------------- rotation while one inserts


def rotate(connection: Connection) -> None:
    """Rotate queue q now, both steps, each in its own transaction."""
    connection.execute(
        "update pgq.queue set queue_rotation_period = '0', queue_switch_time = now() - interval '1 s'"
    )
    connection.execute("select pgq.maint_rotate_tables_step1('q')")
    connection.execute("select pgq.maint_rotate_tables_step2()")


WAYS: dict[str, Callable[[Connection], object]] = {
    "insert_event": lambda writer: writer.execute("select pgq.insert_event('q', 't', 'd')"),
    "prepared": lambda writer: writer.execute("select pgq.insert_event('q', %s, 'd')", ["t"], prepare=True),
    "insert_events": lambda writer: writer.execute("select pgq.insert_events('q', '{t}', '{d}')"),
    "append": lambda writer: rowbus.Log(writer, "q").append("d"),
    "append_many": lambda writer: rowbus.Log(writer, "q").append_many([("t", "d")]),
    "copy": lambda writer: writer.execute(
        sql.SQL("insert into {} (ev_time) values (now())").format(
            sql.SQL(value(writer, "select pgq.current_event_table('q')"))
        )
    ),
    "capture": lambda writer: writer.execute("insert into captured values (1)"),
}


@pytest.mark.every_version
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_a_transaction_older_than_a_rotation_writes_nothing_where_nobody_looks(
    pgq: Connection, isolation: str
) -> None:
    """Sessions that have appended before: they know the table of before the rotation, and take no new lock to see."""
    pgq.execute("select pgq.create_queue('q')")
    pgq.execute("create table captured (id int primary key)")
    pgq.execute("create trigger t after insert on captured for each row execute function pgq.jsontriga('q')")
    for append in WAYS.values():
        with psycopg.connect(pgq.info.dsn, password=pgq.info.password) as writer:
            writer.isolation_level = psycopg.IsolationLevel[isolation.replace(" ", "_").upper()]
            for _ in range(7):  # by then plans are kept
                append(writer)
                writer.execute("delete from captured")
                writer.commit()
            writer.execute("select 1")
            rotate(pgq)
            (current,) = pgq.execute("select pgq.current_event_table('q')").fetchone() or ("",)

            with pytest.raises((psycopg.errors.SerializationFailure, rowbus.RowbusError)) as raised:
                append(writer)
            assert getattr(raised.value, "sqlstate", None) == "40001"
            writer.rollback()

            append(writer)
            writer.execute("delete from captured")
            writer.commit()
        found = pgq.execute("select tableoid::regclass::text from pgq.event_1 order by ev_id desc limit 1")
        assert found.fetchone() == (current,)
