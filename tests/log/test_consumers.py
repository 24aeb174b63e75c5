"""Subscribing, moving and leaving while others do (docs/wire-format.md#log-functions).

What the functions answer and refuse is in `lives/consumers.txt`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg

from tests.fixtures.processes import await_blocked
from tests.log.queue_q import Connect, consume, insert, scalar, tick


def test_a_new_consumer_is_given_what_commits_after_the_last_tick(
    queue: psycopg.Connection, connect: Connect
) -> None:
    slow = connect()
    insert(slow, "slow")
    insert(queue, "before")
    tick(queue)
    insert(queue, "waiting")
    queue.execute("select pgq.register_consumer('q', 'new')")
    slow.commit()
    tick(queue)

    assert consume(queue, "new") == ["slow", "waiting"]


def test_a_consumer_moved_back_is_given_again_what_followed(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    tick(queue)
    insert(queue, "two")
    tick(queue)
    assert [consume(queue), consume(queue)] == [["one"], ["two"]]
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    assert batch is None
    queue.execute("select pgq.register_consumer_at('q', 'c', 1)")

    assert [consume(queue), consume(queue)] == [["one"], ["two"]]


def test_a_consumer_that_is_moved_loses_its_open_batch_and_how_far_it_was(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    assert scalar(queue, "select pgq.mark_batch(%s, 1, 0, 1, null)", batch) == 1
    queue.execute("select pgq.register_consumer_at('q', 'c', 1)")

    assert scalar(queue, "select pgq.mark_batch(%s, 1, 0, 1, 1)", batch) == 0
    assert scalar(queue, "select count(*) from pgq.batch_position") == 0
    assert scalar(queue, "select pgq.finish_batch(%s)", batch) == 0
    assert consume(queue) == ["one"]


def test_of_two_who_register_the_same_consumer_at_once_one_subscribes_it(
    queue: psycopg.Connection, connect: Connect
) -> None:
    first, second = connect(), connect()
    assert scalar(first, "select pgq.register_consumer('q', 'new')") == 1
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(scalar, second, "select pgq.register_consumer('q', 'new')")
        await_blocked(queue, second)
        first.commit()
        assert waiting.result() == 0


def test_a_main_consumer_takes_everything_of_its_own_with_it(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.register_consumer('q', 'other')")
    insert(queue, "one", "two")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    queue.execute("select pgq.event_retry(%s, 1, 0), pgq.events_dead(%s, '{2}', '{bad}')", [batch, batch])
    queue.execute("select pgq.mark_batch(%s, 1, 0, 1, null)", [batch])
    assert scalar(queue, "select pgq.unregister_consumer('q', 'c')") == 1

    for table in ("retry_queue", "dead_letter", "batch_position"):
        assert scalar(queue, f"select count(*) from pgq.{table}") == 0
    assert scalar(queue, "select array_agg(co_name) from pgq.consumer") == ["other"]


def test_unregistering_a_main_consumer_takes_its_subconsumers_and_answers_how_many(
    queue: psycopg.Connection,
) -> None:
    for member in ("one", "two"):
        queue.execute("select pgq_coop.register_subconsumer('q', 'c', %s)", [member])

    assert scalar(queue, "select pgq.unregister_consumer('q', 'c.one')") == 1
    assert scalar(queue, "select pgq.unregister_consumer('q', 'c')") == 2
    assert scalar(queue, "select count(*) from pgq.subscription") == 0
