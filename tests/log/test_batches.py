"""Contents of a batch, whatever transactions do meanwhile (docs/wire-format.md#batches).

What the functions answer and refuse is in `lives/batches.txt` and `lives/finding_ticks.txt`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from tests.fixtures.every import every
from tests.fixtures.processes import await_blocked
from tests.log.queue_q import Connect, consume, insert, scalar, tick


def test_an_event_is_in_the_batch_in_which_its_transaction_ends(
    queue: psycopg.Connection, connect: Connect
) -> None:
    slow = connect()
    insert(slow, "slow")
    insert(queue, "first")
    tick(queue)
    insert(queue, "second")
    slow.commit()
    tick(queue)

    assert consume(queue) == ["first"]
    assert consume(queue) == ["slow", "second"]


@pytest.mark.parametrize("distance", [1, 300], ids=["near", "far"])
def test_an_old_open_transaction_repeats_and_hides_nothing(
    queue: psycopg.Connection, connect: Connect, distance: int
) -> None:
    slow = connect()
    insert(slow, "slow")
    insert(queue, *map(str, range(distance)))
    tick(queue)
    insert(queue, "between")
    tick(queue)
    slow.commit()
    tick(queue)

    assert [len(consume(queue)), consume(queue), consume(queue)] == [distance, ["between"], ["slow"]]


def test_what_is_rolled_back_is_in_no_batch(queue: psycopg.Connection, connect: Connect) -> None:
    writer = connect()
    insert(writer, "kept")
    with writer.transaction(force_rollback=True):
        insert(writer, "to a savepoint")
    writer.commit()
    insert(writer, "all of it")
    writer.rollback()
    tick(queue)

    assert consume(queue) == ["kept"]


def test_an_event_of_a_prepared_transaction_comes_after_it_is_committed(
    queue: psycopg.Connection, connect: Connect
) -> None:
    writer = connect()
    insert(writer, "prepared")
    writer.execute("prepare transaction 'far'")
    insert(queue, "other")
    tick(queue)
    assert consume(queue) == ["other"]
    queue.execute("commit prepared 'far'")
    tick(queue)

    assert consume(queue) == ["prepared"]


def test_inserting_and_ticking_in_one_transaction_loses_and_repeats_nothing(
    queue: psycopg.Connection, connect: Connect
) -> None:
    both = connect()
    insert(both, "own")
    tick(both)
    both.commit()
    insert(queue, "later")
    tick(queue)

    assert consume(queue) + consume(queue) == ["own", "later"]


def test_an_open_batch_is_given_again_until_it_is_finished(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    tick(queue)

    assert scalar(queue, "select pgq.next_batch('q', 'c')") == batch
    assert consume(queue) == ["one"]
    assert consume(queue) == []
    assert scalar(queue, "select pgq.next_batch('q', 'c')") is None


def test_two_sessions_that_poll_one_consumer_are_given_the_same_batch(
    queue: psycopg.Connection, connect: Connect
) -> None:
    insert(queue, "one")
    tick(queue)
    first, second = connect(), connect()
    batch = scalar(first, "select pgq.next_batch('q', 'c')")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(scalar, second, "select pgq.next_batch('q', 'c')")
        await_blocked(queue, second)
        first.commit()
        assert waiting.result() == batch


def test_each_consumer_is_given_every_event(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.register_consumer('q', 'd')")
    insert(queue, "one", "two")
    tick(queue)

    assert consume(queue) == consume(queue, "d") == ["one", "two"]


def test_a_batch_is_finished_with_the_work_or_not_at_all(queue: psycopg.Connection, connect: Connect) -> None:
    insert(queue, "one")
    tick(queue)
    worker = connect()
    assert consume(worker) == ["one"]
    worker.rollback()

    assert consume(queue) == ["one"]


def test_a_batch_is_finished_only_for_who_holds_it(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.register_consumer('q', 'd')")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    with pytest.raises(errors.InsufficientPrivilege, match=f"batch {batch} belongs to q/c, not to q/d"):
        queue.execute("select pgq.finish_batch('q', 'd', %s)", [batch])

    assert scalar(queue, "select pgq.finish_batch('q', 'c', %s)", batch) == 1
    assert scalar(queue, "select pgq.finish_batch('q', 'c', %s)", batch) == 0


def test_retried_events_are_the_owners_alone(queue: psycopg.Connection) -> None:
    queue.execute("select pgq.register_consumer('q', 'd')")
    insert(queue, "one", "two")
    tick(queue)
    batch = scalar(queue, "select pgq.next_batch('q', 'c')")
    assert scalar(queue, "select pgq.event_retry(%s, 1, 0)", batch) == 1
    queue.execute("select pgq.finish_batch(%s)", [batch])
    assert scalar(queue, "select pgq.maint_retry_events()") == 1
    tick(queue)

    assert consume(queue) == ["one"]
    assert consume(queue, "d") + consume(queue, "d") == ["one", "two"]


def test_a_range_of_ticks_is_read_without_a_batch_as_often_as_one_likes(queue: psycopg.Connection) -> None:
    insert(queue, "one")
    tick(queue)
    insert(queue, "two")
    tick(queue)
    query = "select array_agg(ev_data) from pgq.get_range_events('q', %s, %s)"

    assert scalar(queue, query, 1, 3) == scalar(queue, query, 1, 3) == ["one", "two"]
    assert scalar(queue, query, 2, 3) == ["two"]
    assert consume(queue) == ["one"]


@every(
    "arguments, message",
    [
        ("'missing', 1, 2", "Event queue not found"),
        ("'q', 2, 1", "tick 2 of queue q is after tick 1"),
        ("'q', 1, 9", "tick 9 of queue q is not retained; the oldest is 1"),
        ("'q', 1, 2, 'nobody'", "Not subscriber to queue: q/nobody"),
    ],
)
def test_a_range_that_cannot_be_read_is_refused(
    queue: psycopg.Connection, arguments: str, message: str
) -> None:
    tick(queue)
    with pytest.raises(psycopg.Error, match=message):
        queue.execute(f"select pgq.get_range_events({arguments})".encode())
