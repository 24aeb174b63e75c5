"""Creating, dropping and configuring queues, and what helps with it (docs/wire-format.md#log-functions)."""

from __future__ import annotations

import threading
from typing import Any, LiteralString

import psycopg
import pytest

from tests.fixtures.every import every

Connection = psycopg.Connection[Any]


def value(connection: Connection, query: LiteralString, *values: object) -> Any:  # noqa: ANN401 - as the query says
    row = connection.execute(query, values).fetchone()
    return None if row is None else row[0]


def refused(connection: Connection, query: LiteralString, *values: object) -> tuple[str | None, str | None]:
    """Give the SQLSTATE and the text with which a statement is refused."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(query, values)
    return caught.value.sqlstate, caught.value.diag.message_primary


# ---------------------------------------------------------------------------------------------------------- creating


def test_creating_answers_1_and_for_a_name_that_is_taken_0(pgq: Connection) -> None:
    assert value(pgq, "select pgq.create_queue(i_queue_name => 'orders')") == 1
    assert value(pgq, "select pgq.create_queue('orders')") == 0


def test_a_queue_needs_a_name(pgq: Connection) -> None:
    assert refused(pgq, "select pgq.create_queue(null)") == ("P0001", "Invalid NULL value")


@pytest.mark.parametrize("name", ["", "a'b\"c", "$$", "Ünï % \\", "x" * 500, "drop table", "%L"])
def test_any_text_is_a_name(pgq: Connection, name: str) -> None:
    pgq.execute("select pgq.create_queue(%s)", [name])
    pgq.execute("select pgq.create_queue('another')")

    assert value(pgq, "select pgq.insert_event(%s, 't', 'd')", name) == 1
    assert value(pgq, "select ev_data from pgq.event_1") == "d"
    assert value(pgq, "select pgq.drop_queue(%s)", name) == 1


def test_a_new_queue_has_a_first_tick(pgq: Connection) -> None:
    pgq.execute("select pgq.create_queue('orders')")

    assert value(pgq, "select tick_id from pgq.tick") == 1


def test_a_queue_has_its_objects_under_its_number(pgq: Connection) -> None:
    pgq.execute("select pgq.create_queue('orders')")

    row = pgq.execute(
        "select queue_id, queue_data_pfx, queue_event_seq, queue_tick_seq from pgq.queue"
    ).fetchone()
    assert row == (1, "pgq.event_1", "pgq.event_1_id_seq", "pgq.event_1_tick_seq")
    tables = pgq.execute(
        "select relname from pg_class where relname like 'event\\_1%' and relkind = 'r' order by 1"
    )
    assert [name for (name,) in tables] == ["event_1", "event_1_0", "event_1_1", "event_1_2"]
    indexes = pgq.execute(
        "select indexname, indexdef from pg_indexes where tablename like 'event\\_1%' order by 1"
    )
    assert indexes.fetchall() == [
        (
            f"event_1_{number}_txid_idx",
            f"CREATE INDEX event_1_{number}_txid_idx ON pgq.event_1_{number} USING btree (ev_txid)",
        )
        for number in range(3)
    ]


@pytest.mark.every_version
def test_the_objects_of_a_queue_are_those_of_pgq(pgq: Connection, oracle: Connection) -> None:
    query = """
        select c.relname, c.relkind::text, c.reloptions, t.reloptions, d.inhparent::regclass::text,
            array(select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = c.oid order by adnum),
            array(select privilege_type || ' ' || grantee::regrole::text from aclexplode(c.relacl)
                where grantee in (0, 'pgq_admin'::regrole) and privilege_type = 'USAGE')
        from pg_class as c left join pg_class as t on t.oid = c.reltoastrelid
            left join pg_inherits as d on d.inhrelid = c.oid
        where c.relnamespace = 'pgq'::regnamespace and c.relname like 'event\\_1%' order by 1
    """
    for connection in (pgq, oracle):
        connection.execute("select pgq.create_queue('orders')")

    assert pgq.execute(query).fetchall() == oracle.execute(query).fetchall()


@pytest.mark.every_version
def test_two_who_create_one_queue_at_once_both_succeed_and_one_made_it(
    pgq: Connection, log_database: str
) -> None:
    with psycopg.connect(log_database) as first, psycopg.connect(log_database, autocommit=True) as second:
        assert value(first, "select pgq.create_queue('orders')") == 1
        answer: list[int] = []
        waiting = threading.Thread(
            target=lambda: answer.append(value(second, "select pgq.create_queue('orders')"))
        )
        waiting.start()
        first.commit()
        waiting.join()

    assert answer == [0]


def test_queues_created_at_once_are_all_usable(log_database: str) -> None:
    def create(name: str) -> None:
        with psycopg.connect(log_database, autocommit=True) as connection:
            connection.execute("select pgq.create_queue(%s)", [name])

    threads = [threading.Thread(target=create, args=[f"q{number}"]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with psycopg.connect(log_database) as connection:
        for number in range(6):
            assert value(connection, "select pgq.insert_event(%s, 't', 'd')", f"q{number}") == 1


# ---------------------------------------------------------------------------------------------------------- dropping


@pytest.mark.every_version
def test_dropping_answers_1_and_leaves_nothing_behind(pgq: Connection) -> None:
    before = pgq.execute("select oid from pg_class union all select oid from pg_proc order by 1").fetchall()
    pgq.execute("select pgq.create_queue('orders')")
    pgq.execute("update pgq.queue set queue_per_tx_limit = 5")

    assert value(pgq, "select pgq.drop_queue(x_queue_name => 'orders')") == 1

    assert (
        pgq.execute("select oid from pg_class union all select oid from pg_proc order by 1").fetchall()
        == before
    )
    assert value(pgq, "select count(*) from pgq.tick") == 0


@every("call", ["pgq.drop_queue('x')", "pgq.drop_queue('x', true)", "pgq.drop_queue(null, true)"])
def test_a_queue_that_is_not_there_cannot_be_dropped(pgq: Connection, call: LiteralString) -> None:
    assert refused(pgq, "select " + call) == ("P0001", "No such event queue")


def test_dropping_null_is_null(pgq: Connection) -> None:
    assert value(pgq, "select pgq.drop_queue(null)") is None


@every("call", ["pgq.drop_queue('q')", "pgq.drop_queue('q', false)", "pgq.drop_queue('q', null)"])
def test_consumers_keep_a_queue_from_being_dropped(pgq: Connection, call: LiteralString) -> None:
    pgq.execute("select pgq.create_queue('q'), pgq.register_consumer('q', 'c')")

    assert refused(pgq, "select " + call) == ("P0001", "cannot drop queue, consumers still attached")


def test_force_unregisters_the_consumers(pgq: Connection) -> None:
    pgq.execute(
        "select pgq.create_queue('q'), pgq.register_consumer('q', 'c'), pgq.register_consumer('q', 'd')"
    )

    assert value(pgq, "select pgq.drop_queue(x_queue_name => 'q', x_force => true)") == 1
    assert value(pgq, "select count(*) from pgq.subscription") == 0


def test_a_name_can_be_used_again_by_a_session_that_inserted_before(pgq: Connection) -> None:
    for _ in range(3):
        pgq.execute("select pgq.create_queue('q')")
        assert value(pgq, "select pgq.insert_event('q', 't', 'd')") == 1
        pgq.execute("select pgq.drop_queue('q')")
    assert refused(pgq, "select pgq.insert_event('q', 't', 'd')") == ("XX000", "No such queue")


# ------------------------------------------------------------------------------------------------------- configuring


@pytest.mark.every_version
@every(
    "parameter,given,column",
    [
        ("ticker_max_count", "7", 7),
        ("ticker_max_count", "-1", -1),
        ("ticker_paused", "true", True),
        ("external_ticker", "on", True),
    ],
)
def test_a_setting_can_be_changed(pgq: Connection, parameter: str, given: str, column: object) -> None:
    pgq.execute("select pgq.create_queue('q')")
    query = "select pgq.set_queue_config(x_queue_name => 'q', x_param_name => %s, x_param_value => %s)"

    assert value(pgq, query, parameter, given) == 1
    assert value(pgq, f"select queue_{parameter} from pgq.queue") == column


@every("parameter", ["ticker_max_lag", "ticker_idle_period", "rotation_period"])
def test_a_period_can_be_changed(pgq: Connection, parameter: str) -> None:
    pgq.execute("select pgq.create_queue('q'), pgq.set_queue_config('q', %s, '7 minutes')", [parameter])

    query = f"select queue_{parameter} = '7 minutes'::interval from pgq.queue"
    assert value(pgq, query)


@every(
    "arguments,error",
    [
        ("null, 'ticker_paused', 'x'", ("P0001", "Invalid NULL value")),
        ("'q', null, 'x'", ("P0001", "Invalid NULL value")),
        ("'x', 'ticker_paused', 'x'", ("P0001", "No such event queue")),
        ("'x', 'foo', 'x'", ("P0001", "No such event queue")),
        ("'q', 'foo', 'x'", ("P0001", 'cannot change parameter "foos"')),
        ("'q', 'per_tx_limit', '1'", ("P0001", 'cannot change parameter "per_tx_limits"')),
        ("'q', 'disable_insert', '1'", ("P0001", 'cannot change parameter "disable_inserts"')),
        ("'q', 'ticker_paused', null", ("22004", "query string argument of EXECUTE is null")),
        ("'q', 'rotation_period', 'soon'", ("22007", 'invalid input syntax for type interval: "soon"')),
    ],
)
def test_what_cannot_be_set_is_refused(
    pgq: Connection, arguments: LiteralString, error: tuple[str, str]
) -> None:
    pgq.execute("select pgq.create_queue('q')")

    assert refused(pgq, f"select pgq.set_queue_config({arguments})") == error


def test_options_are_kept_beside_the_queue(pgq: Connection) -> None:
    pgq.execute("select pgq.create_queue('q')")

    assert value(pgq, "select pgq.get_queue_option('q', 'tick_period')") is None
    assert value(pgq, "select pgq.set_queue_option('q', 'tick_period', '50 ms')") == 1
    assert value(pgq, "select pgq.set_queue_option('q', 'max_retries', '3')") == 1
    assert value(pgq, "select pgq.get_queue_option('q', 'tick_period')") == "00:00:00.05"
    assert value(pgq, "select pgq.get_queue_option('q', 'max_retries')") == "3"
    pgq.execute("select pgq.set_queue_option('q', 'max_retries', null)")
    assert value(pgq, "select pgq.get_queue_option('q', 'max_retries')") is None
    pgq.execute("select pgq.drop_queue('q')")


@every(
    "arguments,text",
    [
        ("null, 'max_retries', '1'", "Invalid NULL value"),
        ("'q', null, '1'", "Invalid NULL value"),
        ("'x', 'max_retries', '1'", "No such event queue"),
        ("'q', 'foo', '1'", "no such option: foo; there are tick_period, max_retries and ordered_ticks"),
    ],
)
def test_options_that_make_no_sense_are_refused(pgq: Connection, arguments: LiteralString, text: str) -> None:
    pgq.execute("select pgq.create_queue('q')")

    assert refused(pgq, f"select pgq.set_queue_option({arguments})") == ("P0001", text)


@every("option,given", [("tick_period", "-1 s"), ("tick_period", "0"), ("max_retries", "-1")])
def test_options_out_of_range_are_refused(pgq: Connection, option: str, given: str) -> None:
    pgq.execute("select pgq.create_queue('q')")

    assert refused(pgq, "select pgq.set_queue_option('q', %s, %s)", option, given)[0] == "23514"


# ----------------------------------------------------------------------------------------------------------- helpers


def test_the_channel_of_a_queue_is_named_by_its_number(pgq: Connection) -> None:
    pgq.execute("select pgq.create_queue('q')")

    assert value(pgq, "select pgq.notify_channel(i_queue_name => 'q')") == "pgq_1"
    assert refused(pgq, "select pgq.notify_channel('x')") == ("P0001", "No such event queue")


@pytest.mark.every_version
def test_a_sequence_can_be_read_and_moved_forwards_only(pgq: Connection) -> None:
    assert value(pgq, "select pgq.seq_getval(i_seq_name => 'pgq.batch_id_seq')") == 1
    assert value(pgq, "select pgq.seq_setval(i_seq_name => 'pgq.batch_id_seq', i_new_value => 10)") == 10
    assert value(pgq, "select pgq.seq_setval('pgq.batch_id_seq', 5)") == 10
    assert value(pgq, "select pgq.seq_getval('pgq.batch_id_seq')") == 10
    assert value(pgq, "select nextval('pgq.batch_id_seq')") == 11


@every("call", ["pgq.seq_getval('nope')", "pgq.seq_setval('nope', 1)"])
def test_a_sequence_must_exist(pgq: Connection, call: LiteralString) -> None:
    assert refused(pgq, "select " + call) == ("42P01", 'relation "public.nope" does not exist')


def test_sequences_that_are_null_have_no_value(pgq: Connection) -> None:
    row = pgq.execute(
        "select pgq.seq_getval(null), pgq.seq_setval(null, 1), pgq.seq_setval('x', null)"
    ).fetchone()
    assert row == (None, None, None)


@every(
    "given,quoted",
    [
        ("a.b.c", 'a."b.c"'),
        ("abc", "public.abc"),
        ("Ab", 'public."Ab"'),
        ("a.B", 'a."B"'),
        (".b", '"".b'),
        ("b.", 'b.""'),
        ("", 'public.""'),
        (None, None),
    ],
)
def test_a_name_is_quoted_with_its_schema(pgq: Connection, given: str | None, quoted: str | None) -> None:
    assert value(pgq, "select pgq.quote_fqname(i_name => %s)", given) == quoted


def test_tools_that_look_for_version_3_accept_ours(pgq: Connection) -> None:
    assert value(pgq, "select pgq.version()") == "3.5.2"


@pytest.mark.every_version
def test_storage_is_tuned_for_tables_that_only_grow(pgq: Connection) -> None:
    pgq.execute("select pgq.create_queue('q')")

    assert value(pgq, "select reloptions from pg_class where relname = 'event_1_1'") == [
        "fillfactor=100",
        "autovacuum_enabled=off",
    ]
    assert value(pgq, "select pgq.tune_storage(i_queue_name => 'q')") == 1
    assert value(pgq, "select pgq.tune_storage('x')") == 0
    assert value(pgq, "select pgq.tune_storage(null)") is None


@pytest.mark.every_version
def test_upgrading_mends_what_an_old_schema_lacks(pgq: Connection) -> None:
    pgq.execute("select pgq.create_queue('q')")
    pgq.execute("alter table pgq.subscription alter column sub_last_tick set not null")
    pgq.execute("alter table pgq.queue drop column queue_extra_maint")
    pgq.execute("select pgq._drop_insert(1)")

    assert value(pgq, "select pgq.upgrade_schema()") == 0

    pgq.execute("insert into pgq.consumer (co_name) values ('c')")
    pgq.execute("insert into pgq.subscription (sub_queue, sub_consumer) values (1, 1)")
    assert value(pgq, "select queue_extra_maint from pgq.queue") is None
    assert value(pgq, "select to_regproc('pgq.insert_event_1') is not null")
    assert value(pgq, "select pgq.insert_event('q', 't', 'd')") == 1
