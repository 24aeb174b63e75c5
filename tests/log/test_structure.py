"""Tables, sequences, defaults and constraints of schema pgq are those of PgQ (docs/wire-format.md#log-tables)."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.fixtures.every import every

COLUMNS = """
    select attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
    from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
    where attrelid = %s::regclass and attnum > 0 and not attisdropped
    order by attnum
"""
CONSTRAINTS = """
    select conname, pg_get_constraintdef(oid) from pg_constraint
    where conrelid = %s::regclass and contype <> 'n' order by 1
"""
# It keeps the updates of subscriptions from being heap-only: see batches/005_subscription_storage.sql.
GIVEN_UP = ("subscription_batch_idx", "UNIQUE (sub_batch)")
TABLES = ("consumer", "queue", "tick", "subscription", "event_template", "retry_queue")


def answers(connection: psycopg.Connection, query: str, *values: object) -> list[tuple[Any, ...]]:
    return connection.execute(query, values).fetchall()


@every("table", TABLES)
def test_a_table_has_the_columns_types_and_defaults_of_pgq(
    pgq: psycopg.Connection, oracle: psycopg.Connection, table: str
) -> None:
    ours = answers(pgq, COLUMNS, f"pgq.{table}")

    assert ours == answers(oracle, COLUMNS, f"pgq.{table}")
    assert ours


@every("table", TABLES)
def test_a_table_has_the_constraints_of_pgq_under_their_names(
    pgq: psycopg.Connection, oracle: psycopg.Connection, table: str
) -> None:
    theirs = set(answers(oracle, CONSTRAINTS, f"pgq.{table}"))
    theirs.discard(GIVEN_UP)

    assert theirs <= set(answers(pgq, CONSTRAINTS, f"pgq.{table}"))


QUEUE_COLUMNS = [
    ("queue_id", "integer", True, "nextval('pgq.queue_queue_id_seq'::regclass)"),
    ("queue_name", "text", True, None),
    ("queue_ntables", "integer", True, "3"),
    ("queue_cur_table", "integer", True, "0"),
    ("queue_rotation_period", "interval", True, "'02:00:00'::interval"),
    ("queue_switch_step1", "bigint", True, "txid_current()"),
    ("queue_switch_step2", "bigint", False, "txid_current()"),
    ("queue_switch_time", "timestamp with time zone", True, "now()"),
    ("queue_external_ticker", "boolean", True, "false"),
    ("queue_disable_insert", "boolean", True, "false"),
    ("queue_ticker_paused", "boolean", True, "false"),
    ("queue_ticker_max_count", "integer", True, "500"),
    ("queue_ticker_max_lag", "interval", True, "'00:00:03'::interval"),
    ("queue_ticker_idle_period", "interval", True, "'00:01:00'::interval"),
    ("queue_per_tx_limit", "integer", False, None),
    ("queue_data_pfx", "text", True, None),
    ("queue_event_seq", "text", True, None),
    ("queue_tick_seq", "text", True, None),
    ("queue_extra_maint", "text[]", False, None),
]


def test_the_table_of_queues_is_as_specified_column_by_column(pgq: psycopg.Connection) -> None:
    assert answers(pgq, COLUMNS, "pgq.queue") == QUEUE_COLUMNS


def test_the_retry_queue_has_its_index_and_its_key(pgq: psycopg.Connection) -> None:
    found = answers(
        pgq, "select indexdef from pg_indexes where schemaname = 'pgq' and tablename = 'retry_queue'"
    )

    assert sorted(definition.partition(" USING ")[2] for (definition,) in found) == [
        "btree (ev_owner, ev_id)",
        "btree (ev_retry_after)",
    ]


def test_the_admin_role_is_a_member_of_the_reader_and_the_writer(pgq: psycopg.Connection) -> None:
    assert answers(
        pgq,
        "select pg_has_role('pgq_admin', 'pgq_reader', 'member'), pg_has_role('pgq_admin', 'pgq_writer', 'member')",
    ) == [(True, True)]


def test_batches_of_all_queues_are_numbered_by_one_sequence(pgq: psycopg.Connection) -> None:
    assert answers(pgq, "select nextval('pgq.batch_id_seq')") == [(1,)]


@every(
    "function",
    [
        "_grant_perms_from",
        "create_queue",
        "current_event_table",
        "drop_queue",
        "grant_perms",
        "insert_event",
        "insert_event_raw",
        "quote_fqname",
        "seq_getval",
        "seq_setval",
        "set_queue_config",
        "tune_storage",
        "upgrade_schema",
        "version",
    ],
)
def test_a_function_has_the_arguments_results_and_rights_of_pgqs(
    pgq: psycopg.Connection, oracle: psycopg.Connection, function: str
) -> None:
    query = """
        select pg_get_function_identity_arguments(oid), pg_get_function_result(oid), prosecdef, proisstrict
        from pg_proc where pronamespace = 'pgq'::regnamespace and proname = %s order by 1
    """
    ours = answers(pgq, query, function)

    assert ours == answers(oracle, query, function)
    assert ours
