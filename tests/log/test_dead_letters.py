"""Events that a consumer has given up on: kept with the reason, replayed or purged.

PgQ has none (docs/wire-format.md#retried-events).
"""

from __future__ import annotations

import psycopg
import pytest

from tests.log.queue_q import consume, insert, scalar, tick

DEAD = "select ev_id, dl_reason, ev_data from pgq.dead_letter order by dl_id"


@pytest.fixture
def dead(queue: psycopg.Connection) -> psycopg.Connection:
    """Give a connection; of three events the consumer has given up on the first and the last."""
    insert(queue, "one", "two", "three")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    query = "select pgq.events_dead(i_batch_id => %s, i_event_ids => '{3,1}', i_reasons => '{bad,worse}')"
    assert scalar(queue, query, batch) == 2
    assert scalar(queue, "select pgq.finish_batch(%s)", batch) == 1
    return queue


def test_a_dead_letter_has_the_event_and_the_reason(dead: psycopg.Connection) -> None:
    assert dead.execute(DEAD).fetchall() == [(1, "worse", "one"), (3, "bad", "three")]


@pytest.mark.every_version
def test_dead_letters_are_replayed_to_their_consumer_as_if_never_retried(dead: psycopg.Connection) -> None:
    dead.execute("select pgq.register_consumer('q', 'other')")
    assert scalar(dead, "select pgq.dead_letter_replay('q', 'c')") == 2
    assert dead.execute("select ev_id, ev_retry from pgq.retry_queue order by 1").fetchall() == [
        (1, None),
        (3, None),
    ]
    assert dead.execute(DEAD).fetchall() == []
    assert scalar(dead, "select pgq.maint_retry_events()") == 2
    tick(dead)

    assert consume(dead) == ["one", "three"]
    assert consume(dead, "other") == []


def test_single_dead_letters_are_replayed(dead: psycopg.Connection) -> None:
    second = scalar(dead, "select max(dl_id) from pgq.dead_letter")
    query = "select pgq.dead_letter_replay(i_queue_name => 'q', i_consumer_name => 'c', i_ids => %s)"
    assert scalar(dead, query, [second]) == 1
    assert scalar(dead, query, [second]) == 0
    assert dead.execute(DEAD).fetchall() == [(1, "worse", "one")]


def test_dead_letters_of_nobody_are_not_replayed(dead: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="consumer not registered"):
        dead.execute("select pgq.dead_letter_replay('q', 'nobody')")


@pytest.mark.every_version
def test_dead_letters_are_purged_all_or_from_before_a_time(dead: psycopg.Connection) -> None:
    dead.execute("update pgq.dead_letter set dl_time = '2020-01-01' where ev_id = 1")
    query = (
        "select pgq.dead_letter_purge(i_queue_name => 'q', i_consumer_name => 'c', i_before => '2021-01-01')"
    )
    assert scalar(dead, query) == 1
    assert dead.execute(DEAD).fetchall() == [(3, "bad", "three")]
    assert scalar(dead, "select pgq.dead_letter_purge('q', 'nobody')") == 0
    assert scalar(dead, "select pgq.dead_letter_purge('q', 'c')") == 1
    assert dead.execute(DEAD).fetchall() == []


@pytest.mark.every_version
def test_single_dead_letters_are_discarded(dead: psycopg.Connection) -> None:
    dead.execute("select pgq.register_consumer('q', 'other')")
    first = int(str(scalar(dead, "select min(dl_id) from pgq.dead_letter")))
    query = "select pgq.dead_letter_discard(i_queue_name => 'q', i_consumer_name => %s, i_ids => %s)"
    assert scalar(dead, query, "other", [first]) == 0
    assert scalar(dead, query, "c", []) == 0
    assert scalar(dead, query, "c", None) == 0
    assert scalar(dead, query, "c", [first, first + 1000]) == 1
    assert dead.execute(DEAD).fetchall() == [(3, "bad", "three")]


def test_dead_letters_of_a_subconsumer_are_its_main_consumers(queue: psycopg.Connection) -> None:
    queue.execute("select pgq_coop.register_subconsumer('q', 'c', 'sub')")
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq_coop.next_batch('q', 'c', 'sub')")
    assert scalar(queue, "select pgq.events_dead(%s, '{1}', '{bad}')", batch) == 1
    assert scalar(queue, "select pgq_coop.finish_batch(%s)", batch) == 1

    assert scalar(queue, "select pgq.unregister_consumer('q', 'c.sub')") == 1
    assert scalar(queue, "select pgq.dead_letter_replay('q', 'c')") == 1


def test_dead_letters_go_with_their_queue(dead: psycopg.Connection) -> None:
    assert scalar(dead, "select pgq.drop_queue('q', true)") == 1
    assert dead.execute(DEAD).fetchall() == []
