"""Events delivered again: one, several or a whole batch (docs/wire-format.md#retried-events).

What PgQ's own functions answer and refuse is in `lives/retrying.txt`.
"""

from __future__ import annotations

import psycopg
import pytest

from tests.log.queue_q import Connect, consume, insert, scalar, tick


@pytest.fixture
def batch(queue: psycopg.Connection) -> object:
    """Give an open batch of three events, 1 to 3."""
    insert(queue, "one", "two", "three")
    tick(queue)
    return scalar(queue, "select pgq.next_batch('q', 'c')")


def test_a_retried_event_keeps_its_id_and_time_and_counts_its_retries(
    queue: psycopg.Connection, batch: object
) -> None:
    query = "select ev_id, ev_time, ev_retry, ev_type, ev_data from pgq.get_batch_events(%s) where ev_id = 2"
    before = queue.execute(query, [batch]).fetchone()
    assert before is not None
    for retry in (1, 2):
        assert scalar(queue, "select pgq.event_retry(%s, 2, 0)", batch) == 1
        queue.execute("select pgq.finish_batch(%s)", [batch])
        assert scalar(queue, "select pgq.maint_retry_events()") == 1
        tick(queue)
        batch = scalar(queue, "select pgq.next_batch('q', 'c')")
        assert queue.execute(query, [batch]).fetchall() == [(*before[:2], retry, *before[3:])]


def test_an_event_comes_back_when_its_time_has_come_and_not_before(
    queue: psycopg.Connection, batch: object
) -> None:
    queue.execute("select pgq.event_retry(%s, 1, '1 hour'::interval + now())", [batch])
    assert scalar(queue, "select pgq.maint_retry_events()") == 0
    queue.execute("update pgq.retry_queue set ev_retry_after = now()")
    assert scalar(queue, "select pgq.maint_retry_events()") == 1
    assert scalar(queue, "select count(*) from pgq.retry_queue") == 0


def test_several_events_are_retried_each_after_its_own_time(queue: psycopg.Connection, batch: object) -> None:
    query = "select pgq.events_retry(i_batch_id => %s, i_event_ids => '{1,3}', i_retry_seconds => '{0,100}')"
    assert scalar(queue, query, batch) == 2
    assert scalar(queue, query, batch) == 0

    waiting = (
        "select ev_id, round(extract(epoch from ev_retry_after - now())) from pgq.retry_queue order by 1"
    )
    (first, soon), (second, late) = queue.execute(waiting).fetchall()
    assert [first, second] == [1, 3]
    assert soon <= 0
    assert 90 < late <= 100


@pytest.mark.parametrize(
    "call", ["events_retry(%s, '{1}', '{0}')", "events_dead(%s, '{1}', '{bad}')"], ids=["retry", "dead"]
)
@pytest.mark.parametrize("batch", [77, None])
def test_events_of_no_batch_are_refused(queue: psycopg.Connection, call: str, batch: int | None) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="batch not found"):
        scalar(queue, f"select pgq.{call}", batch)


@pytest.mark.parametrize(
    "call",
    [
        "events_retry(%s, '{1,99,98}', '{0,0,0}')",
        "events_defer(%s, '{1,99,98}', array(select ev_txid from pgq.event_1), '{0,0,0}')",
        "events_dead(%s, '{1,99,98}', '{a,b,c}')",
    ],
    ids=["retry", "defer", "dead"],
)
def test_an_event_that_is_not_in_the_batch_is_refused_and_named_and_nothing_happens(
    queue: psycopg.Connection, batch: object, call: str
) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="event not found") as refused:
        scalar(queue, f"select pgq.{call}", batch)

    assert refused.value.diag.message_detail == f"Not in batch {batch}: {{98,99}}"
    for table in ("retry_queue", "dead_letter"):
        assert scalar(queue, f"select count(*) from pgq.{table}") == 0


@pytest.mark.every_version
def test_retries_are_moved_the_longest_due_first_and_as_many_as_asked_for(
    queue: psycopg.Connection, batch: object
) -> None:
    queue.execute("select pgq.events_retry(%s, '{1,2,3}', '{-1,-3,-2}')", [batch])
    queue.execute("select pgq.finish_batch(%s)", [batch])
    assert scalar(queue, "select pgq.maint_retry_events(i_limit => 2)") == 2
    tick(queue)
    assert consume(queue) == ["two", "three"]
    assert scalar(queue, "select pgq.maint_retry_events(2)") == 1
    assert scalar(queue, "select pgq.maint_retry_events(2)") == 0
    tick(queue)
    assert consume(queue) == ["one"]


def test_while_one_moves_retries_another_waits_and_events_can_be_added(
    queue: psycopg.Connection, batch: object, connect: Connect
) -> None:
    queue.execute("select pgq.event_retry(%s, 1, 0)", [batch])
    mover, other = connect(), connect()
    assert scalar(mover, "select pgq.maint_retry_events()") == 1
    assert scalar(queue, "select pgq.event_retry(%s, 2, 100)", batch) == 1
    other.execute("set lock_timeout = '20ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("select pgq.maint_retry_events()")


def test_a_retry_wakes_the_ticker(queue: psycopg.Connection, batch: object) -> None:
    queue.execute("select pgq.event_retry(%s, 1, 0)", [batch])
    queue.execute("select pgq.finish_batch(%s)", [batch])
    queue.execute("select pgq.maint_retry_events()")

    assert scalar(queue, "select pgq.ticker('q')") == 3
    assert consume(queue) == ["one"]


def test_a_queue_that_refuses_events_holds_up_nobody_elses_retries(
    queue: psycopg.Connection, batch: object
) -> None:
    queue.execute("select pgq.events_retry(%s, '{1,2,3}', '{-3,-3,-3}')", [batch])
    for name in ("closed", "blocked", "narrow"):
        queue.execute("select pgq.create_queue(%s), pgq.register_consumer(%s, 'c')", [name, name])
        queue.execute(
            "select pgq.event_retry_raw(%s, 'c', now() - interval '1 minute', id, now(), 1,"
            " 't', 'd', null, null, null, null) from generate_series(1, 5) as id",
            [name],
        )
    queue.execute("update pgq.queue set queue_disable_insert = true where queue_name = 'closed'")
    queue.execute("update pgq.queue set queue_per_tx_limit = 0 where queue_name = 'blocked'")
    queue.execute("update pgq.queue set queue_per_tx_limit = 2 where queue_name = 'narrow'")

    with pytest.raises(psycopg.errors.InternalError_, match=r"Insert into queue disallowed|allows max"):
        queue.execute("select pgq.maint_retry_events()")
    assert [scalar(queue, "select pgq.maint_retry_events(1000)") for _ in range(4)] == [5, 2, 1, 0]
    assert scalar(queue, "select count(*) from pgq.retry_queue") == 10
    queue.execute("update pgq.queue set queue_disable_insert = false, queue_per_tx_limit = null")
    assert scalar(queue, "select pgq.maint_retry_events(1000)") == 10
