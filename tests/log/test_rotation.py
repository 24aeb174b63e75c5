"""When tables are rotated, what holds it, and what says so (docs/wire-format.md#rotation).

What the functions answer and refuse is in `lives/rotation.txt`.
"""

from __future__ import annotations

import psycopg
import pytest

from rowbus.database.postgresql.database import Database
from rowbus.log.ticker.ticks import rotation_blocks
from tests.log.queue_q import Connect, consume, insert, scalar, tick


@pytest.fixture
def due(queue: psycopg.Connection) -> psycopg.Connection:
    """Give a connection; the tables of "q" are to be rotated whenever somebody asks."""
    queue.execute("select pgq.set_queue_config('q', 'rotation_period', '-1 s')")
    return queue


def rotate(connection: psycopg.Connection) -> object:
    """Try to rotate, as the ticker does; give the number of the table that is written then."""
    assert scalar(connection, "select pgq.maint_rotate_tables_step1('q')") == 0
    assert scalar(connection, "select pgq.maint_rotate_tables_step2()") == 0
    return scalar(connection, "select queue_cur_table from pgq.queue")


def obstacle(connection: psycopg.Connection) -> tuple[str, str] | None:
    row = connection.execute(
        "select reason, detail from pgq.rotation_status where blocked_since is not null"
    ).fetchone()
    return None if row is None else (row[0], row[1])


def test_a_consumer_that_is_up_to_date_lets_tables_be_rotated(due: psycopg.Connection) -> None:
    for expected in (1, 2, 0, 1):
        insert(due, str(expected))
        tick(due)
        assert consume(due) == [str(expected)]
        assert rotate(due) == expected
    assert obstacle(due) is None


def test_a_stuck_consumer_blocks_rotation_and_is_named(due: psycopg.Connection) -> None:
    insert(due, "one")
    due.execute("select pgq.register_consumer('q', 'ahead')")
    assert rotate(due) == 0
    reason, detail = obstacle(due) or ("", "")
    assert "still needs the previous table" in reason
    assert "consumer c at tick 1, last seen 2" in detail

    since = scalar(due, "select rb_since from pgq.rotation_block")
    assert rotate(due) == 0
    assert scalar(due, "select rb_since from pgq.rotation_block") == since

    tick(due)
    assert consume(due) == ["one"]
    assert consume(due, "ahead") == ["one"]
    assert rotate(due) == 1
    assert obstacle(due) is None


def test_whoever_has_read_up_to_now_is_not_named(due: psycopg.Connection) -> None:
    due.execute("select pgq.register_consumer('q', 'ahead')")
    tick(due)
    consume(due, "ahead")
    assert rotate(due) == 0

    assert "ahead" not in (obstacle(due) or ("", "ahead"))[1]


def test_a_long_writing_transaction_blocks_the_next_rotation_and_is_named(
    due: psycopg.Connection, connect: Connect
) -> None:
    tick(due)
    consume(due)
    slow = connect()
    insert(slow, "slow")
    assert rotate(due) == 1
    tick(due)
    consume(due)

    assert rotate(due) == 1
    assert f"backend {slow.info.backend_pid} " in (obstacle(due) or ("", ""))[1]
    slow.commit()
    tick(due)
    assert consume(due) == ["slow"]
    assert rotate(due) == 2
    assert obstacle(due) is None


def test_a_prepared_transaction_that_blocks_rotation_is_named(
    due: psycopg.Connection, connect: Connect
) -> None:
    tick(due)
    consume(due)
    writer = connect()
    insert(writer, "far")
    writer.execute("prepare transaction 'forgotten'")
    rotate(due)
    tick(due)
    consume(due)

    assert rotate(due) == 1
    assert "prepared transaction forgotten since" in (obstacle(due) or ("", ""))[1]
    due.execute("rollback prepared 'forgotten'")
    tick(due)
    consume(due)
    assert rotate(due) == 2


def test_somebody_who_reads_the_spare_table_makes_rotation_wait_and_is_named(
    due: psycopg.Connection, connect: Connect
) -> None:
    tick(due)
    consume(due)
    reader = connect()
    reader.execute("select * from pgq.event_1_1")

    assert rotate(due) == 0
    reason, detail = obstacle(due) or ("", "")
    assert reason == "the table to be emptied is locked"
    assert detail.startswith(f"pgq.event_1_1: backend {reader.info.backend_pid} (")
    assert "AccessShareLock" in detail
    reader.commit()
    assert rotate(due) == 1
    assert obstacle(due) is None


def test_a_second_step_that_nobody_does_blocks_the_next_rotation_and_is_told(
    due: psycopg.Connection, log_database: str
) -> None:
    tick(due)
    consume(due)
    due.execute("select pgq.maint_rotate_tables_step1('q')")

    with Database(log_database).session() as session:
        (block,) = session.run(rotation_blocks())
        assert (block.log, block.reason) == ("q", "step 2 of the last rotation is outstanding")
        due.execute("select pgq.maint_rotate_tables_step2()")
        assert session.run(rotation_blocks()) == []


def test_a_second_step_that_is_outstanding_before_the_next_rotation_is_due_blocks_nothing(
    due: psycopg.Connection,
) -> None:
    tick(due)
    consume(due)
    due.execute("select pgq.maint_rotate_tables_step1('q')")
    due.execute("select pgq.set_queue_config('q', 'rotation_period', '1 h')")

    assert obstacle(due) is None


def test_rotation_keeps_the_ticks_since_the_one_before(due: psycopg.Connection) -> None:
    tick(due)
    consume(due)
    rotate(due)
    tick(due)
    insert(due, "again")
    tick(due)
    assert consume(due) == []
    assert consume(due) == ["again"]
    rotate(due)

    assert scalar(due, "select pgq.register_consumer_at('q', 'c', 3)") == 0
    assert consume(due) == ["again"]
    assert scalar(due, "select min(tick_id) from pgq.tick") == 3


def test_events_written_between_the_two_steps_are_given_once(
    due: psycopg.Connection, connect: Connect
) -> None:
    insert(due, "before")
    tick(due)
    consume(due)
    old = connect()
    old.execute("begin isolation level repeatable read")
    insert(old, "old")
    due.execute("select pgq.maint_rotate_tables_step1('q')")
    insert(due, "between")
    old.execute("commit")
    due.execute("select pgq.maint_rotate_tables_step2()")
    insert(due, "after")
    tick(due)

    assert sorted(consume(due)) == ["after", "between", "old"]


def test_a_position_is_taken_before_a_rotation_or_after_it(due: psycopg.Connection, connect: Connect) -> None:
    """A rotation deletes ticks: a consumer is not placed at one that goes in the same moment."""
    tick(due)
    consume(due)
    rotate(due)
    tick(due)
    consume(due)
    oldest = scalar(due, "select min(tick_id) from pgq.tick")
    placing = connect()
    placing.execute("begin")
    placing.execute("select pgq.register_consumer_at('q', 'late', %s)", [oldest])
    due.execute("set lock_timeout = '100ms'")

    current = scalar(due, "select queue_cur_table from pgq.queue")
    assert rotate(due) == current
    reason, detail = obstacle(due) or ("", "")
    assert "the queue's row is locked" in reason
    assert f"backend {placing.info.backend_pid} " in detail
    placing.execute("commit")
    rotate(due)

    assert scalar(due, "select pgq._lost_consumers(1)") is None
    assert "late" in (obstacle(due) or ("", ""))[1]


def test_a_consumer_whose_position_is_gone_holds_nothing_and_is_named(due: psycopg.Connection) -> None:
    due.execute("select pgq.register_consumer('q', 'lost')")
    due.execute("update pgq.subscription set sub_last_tick = 0 where sub_consumer = 2")
    tick(due)
    consume(due)
    assert rotate(due) == 1
    reason, detail = obstacle(due) or ("", "")
    assert "a tick that is gone" in reason
    assert detail == "consumer lost at tick 0"

    due.execute("select pgq.unregister_consumer('q', 'lost')")
    tick(due)
    consume(due)
    assert rotate(due) == 2
    assert obstacle(due) is None


def test_a_range_in_tables_that_were_emptied_is_lost_and_not_empty(
    due: psycopg.Connection, connect: Connect
) -> None:
    insert(due, "one")
    tick(due)
    due.execute("select pgq.unregister_consumer('q', 'c')")
    for _ in range(4):
        tick(due)
        rotate(due)

    with pytest.raises(
        psycopg.errors.ObjectNotInPrerequisiteState, match="tick 1 of queue q is not retained"
    ):
        connect().execute("select pgq.get_range_events('q', 1, 2)")
