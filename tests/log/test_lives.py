"""Schema pgq answers as PgQ itself: transcripts of lives of queues, recorded from the extension, are replayed.

`lives/*.txt` are questions and PgQ's answers (docs/wire-format.md#log-functions). To ask more, add lines `> statement`
to one of them and record the answers with `ROWBUS_TEST_ACCEPT=1 make test ARGS='tests/log/test_lives.py -k real'`,
where the extension is installed. Times and transaction ids are left out of the transcripts.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import scalar_row

from tests.fixtures.every import every
from tests.log.transcript import replay, statements

LIVES = sorted(Path(__file__).with_name("lives").glob("*.txt"))
CHANGING = re.compile(r'"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00:00", \d+|(?<=current=)\d+|(?<=cur txid=)\d+')

FUNCTIONS = [
    "batch_event_sql",
    "batch_event_tables",
    "batch_retry",
    "event_retry",
    "event_retry_raw",
    "find_tick_helper",
    "finish_batch",
    "force_tick",
    "get_batch_cursor",
    "get_batch_events",
    "get_batch_info",
    "get_consumer_info",
    "get_queue_info",
    "maint_operations",
    "maint_retry_events",
    "maint_rotate_tables_step1",
    "maint_rotate_tables_step2",
    "maint_tables_to_vacuum",
    "next_batch",
    "next_batch_custom",
    "next_batch_info",
    "register_consumer",
    "register_consumer_at",
    "ticker",
    "unregister_consumer",
]
SIGNATURES = b"""
    select pg_get_function_arguments(oid), pg_get_function_result(oid), prosecdef, proisstrict, provolatile
    from pg_proc where pronamespace = 'pgq'::regnamespace and proname = %s order by 1
"""

of_each_life = pytest.mark.parametrize("life", LIVES, ids=lambda life: life.stem)


def live(connection: psycopg.Connection, asked: list[str]) -> str:
    return CHANGING.sub("...", replay(connection, "pgq", asked))


@of_each_life
def test_it_answers_as_pgq_itself(pgq: psycopg.Connection, life: Path) -> None:
    approved = life.read_text("utf-8")
    assert live(pgq, statements(approved)) == approved


@of_each_life
def test_the_approved_answers_are_those_of_the_real_pgq(oracle: psycopg.Connection, life: Path) -> None:
    approved = life.read_text("utf-8")
    answered = live(oracle, statements(approved))
    if os.environ.get("ROWBUS_TEST_ACCEPT"):
        life.write_text(answered, "utf-8")
    else:
        assert answered == approved


@every("function", FUNCTIONS)
def test_every_function_is_in_one_of_the_lives(function: str) -> None:
    asked = "\n".join(line for life in LIVES for line in statements(life.read_text("utf-8")))
    assert re.search(rf"\b{function}\(", asked)


@every("function", FUNCTIONS)
def test_it_is_made_as_pgq_itself(pgq: psycopg.Connection, oracle: psycopg.Connection, function: str) -> None:
    theirs = set(oracle.execute(SIGNATURES, [function]).fetchall())
    assert theirs
    assert theirs <= set(pgq.execute(SIGNATURES, [function]).fetchall())


def test_whoever_may_call_a_function_runs_no_more_than_its_name_says(pgq: psycopg.Connection) -> None:
    """A function with its owner's rights pins the search path, or a caller's operators would be run with them."""
    query = """
        select proname from pg_proc
        where pronamespace = 'pgq'::regnamespace and prosecdef and proname = any(%s) and (
            proconfig is null or not proconfig::text like '%%search_path=pg_catalog%%')
    """
    assert pgq.cursor(row_factory=scalar_row).execute(query, [FUNCTIONS]).fetchall() == []
