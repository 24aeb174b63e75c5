"""Views of schema pgq: logs, consumers, rotation and the ticker.

Source: docs/wire-format.md#log-information. What PgQ's own functions answer is in `lives/information.txt`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.log.queue_q import Connect, consume, insert, scalar, tick

NO_TIME = timedelta(0)


def status(connection: psycopg.Connection, view: str, condition: str = "true") -> dict[str, Any]:
    query = f"select * from pgq.{view} where {condition}".encode()
    row = connection.cursor(row_factory=dict_row).execute(query).fetchone()
    assert row is not None
    return row


def test_a_log_that_is_empty_has_nothing_to_say(queue: psycopg.Connection) -> None:
    log = status(queue, "log_status")
    assert (log["new_events"], log["consumers"], log["retry_events"], log["dead_letters"]) == (0, 1, 0, 0)
    assert (log["max_lag"], log["oldest_batch"]) == (NO_TIME, None)
    assert log["total_bytes"] > 0


def test_pending_events_are_really_counted(queue: psycopg.Connection, connect: Connect) -> None:
    insert(queue, "one", "two")
    open_one = connect()
    insert(open_one, "not committed")
    queue.execute("select nextval('pgq.event_1_id_seq')")  # as a transaction that was rolled back leaves it
    assert status(queue, "consumer_status")["pending_events"] == 2
    assert status(queue, "ticker_status")["new_events"] == 2
    tick(queue)
    assert status(queue, "consumer_status")["pending_events"] == 2
    assert status(queue, "ticker_status")["new_events"] == 0
    assert status(queue, "consumer_status")["lag"] > NO_TIME

    consume(queue)
    assert status(queue, "consumer_status")["pending_events"] == 0
    assert status(queue, "consumer_status")["lag"] == NO_TIME


def test_of_retried_events_only_the_owners_are_pending(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.register_consumer('q', 'd')")
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    queue.execute("select pgq.event_retry(%s, 1, 0), pgq.finish_batch(%s)", [batch, batch])
    consume(queue, "d")
    assert status(queue, "consumer_status", "consumer_name = 'c'")["retry_events"] == 1
    assert status(queue, "log_status")["retry_events"] == 1
    queue.execute("select pgq.maint_retry_events()")

    assert status(queue, "consumer_status", "consumer_name = 'c'")["pending_events"] == 1
    assert status(queue, "consumer_status", "consumer_name = 'd'")["pending_events"] == 0


@pytest.mark.every_version
def test_an_open_batch_is_told_with_its_age(queue: psycopg.Connection) -> None:
    assert status(queue, "consumer_status")["batch_age"] is None
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    queue.execute("update pgq.subscription set sub_active = now() - interval '1 hour'")

    told = status(queue, "consumer_status")
    assert (told["batch_id"], told["last_tick_id"], told["batch_tick_id"]) == (batch, 1, 2)
    assert told["batch_age"] == told["last_seen"] >= timedelta(hours=1)
    assert status(queue, "log_status")["oldest_batch"] >= timedelta(hours=1)


def test_dead_letters_are_counted(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    queue.execute("select pgq.events_dead(%s, '{1}', '{bad}')", [batch])

    assert status(queue, "consumer_status")["dead_letters"] == 1
    assert status(queue, "log_status")["dead_letters"] == 1


@pytest.mark.every_version
def test_a_ticker_is_late_when_events_wait_too_long_for_it(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    queue.execute("update pgq.tick set tick_time = now() - interval '30 s'")
    assert not status(queue, "ticker_status")["late"]
    queue.execute("update pgq.event_1_0 set ev_time = now() - interval '20 s'")
    assert status(queue, "ticker_status")["late"]
    queue.execute("select pgq.set_queue_config('q', 'ticker_paused', '1')")
    assert not status(queue, "ticker_status")["late"]


def test_a_ticker_is_late_when_it_leaves_a_quiet_log_alone_too_long(queue: psycopg.Connection) -> None:
    queue.execute("update pgq.tick set tick_time = now() - interval '100 s'")
    assert not status(queue, "ticker_status")["late"]
    queue.execute("update pgq.tick set tick_time = now() - interval '200 s'")
    assert status(queue, "ticker_status")["late"]


@pytest.mark.every_version
def test_rotation_is_told_with_the_table_that_is_written(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.set_queue_config('q', 'rotation_period', '-1 s')")
    tick(queue)
    consume(queue)
    queue.execute("select pgq.maint_rotate_tables_step1('q')")
    told = status(queue, "rotation_status")
    assert (told["current_table"], told["between_steps"]) == (1, True)
    queue.execute("select pgq.maint_rotate_tables_step2()")
    assert status(queue, "rotation_status")["between_steps"] is False


def test_a_log_without_ticks_is_told_all_the_same(queue: psycopg.Connection) -> None:
    queue.execute("delete from pgq.subscription")
    queue.execute("delete from pgq.tick")
    for view in ("log_status", "ticker_status", "rotation_status"):
        assert status(queue, view)["queue_name"] == "q"
