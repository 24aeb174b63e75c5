"""When pgq.ticker() ticks, and that ticks never go backwards (docs/wire-format.md#ticker).

What it answers and refuses otherwise is in `lives/ticking.txt`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import IsolationLevel

from tests.log.queue_q import Connect, consume, insert, scalar, tick

BACKWARDS = """
    select count(*) from pgq.tick as t join pgq.tick as n on n.tick_queue = t.tick_queue and n.tick_id = t.tick_id + 1
    where txid_snapshot_xmin(n.tick_snapshot) < txid_snapshot_xmin(t.tick_snapshot)
        or txid_snapshot_xmax(n.tick_snapshot) < txid_snapshot_xmax(t.tick_snapshot)
"""


def ticked(connection: psycopg.Connection) -> object:
    return scalar(connection, "select pgq.ticker('q')")


def pause(connection: psycopg.Connection) -> None:
    """Let the last ticks be long ago, but for their distance: the rules of quiet times do not ask for another."""
    connection.execute("select pgq.set_queue_config('q', 'ticker_idle_period', '1 day')")
    tick(connection)
    connection.execute("update pgq.tick set tick_time = now() - interval '4 h' where tick_id = 1")
    connection.execute("update pgq.tick set tick_time = now() - interval '1 s' where tick_id > 1")


def test_the_very_first_event_is_ticked(queue: psycopg.Connection) -> None:
    insert(queue, "first")

    assert ticked(queue) == 2
    assert consume(queue) == ["first"]


def test_the_very_first_event_is_ticked_after_idle_ticks_and_only_once(queue: psycopg.Connection) -> None:
    assert ticked(queue) == 2
    queue.execute("update pgq.tick set tick_time = now() - interval '1 h' + tick_id * interval '1 s'")
    assert ticked(queue) == 3
    queue.execute("select pgq.set_queue_config('q', 'ticker_idle_period', '1 day')")
    queue.execute("update pgq.tick set tick_time = now() - (3 - tick_id) * interval '4 h' - interval '1 s'")
    assert ticked(queue) is None
    insert(queue, "first")

    assert ticked(queue) == 4
    assert scalar(queue, "select array_agg(tick_event_seq) from pgq.tick") == [1, 1, 1, 1]
    queue.execute("update pgq.tick set tick_time = now() - (4 - tick_id) * interval '4 h' - interval '1 s'")
    queue.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '3 s')")
    assert ticked(queue) is None


@pytest.mark.every_version
def test_the_end_of_a_long_transaction_wakes_the_ticker(queue: psycopg.Connection, connect: Connect) -> None:
    slow = connect()
    insert(slow, "slow")
    pause(queue)
    slow.commit()

    assert ticked(queue) == 3
    assert consume(queue) == []
    assert consume(queue) == ["slow"]


def test_nothing_new_is_no_tick_before_its_time(queue: psycopg.Connection) -> None:
    pause(queue)
    ticked(queue)  # what moved the sequence may have been a transaction that has only now ended
    queue.execute("update pgq.tick set tick_time = now() - (3 - tick_id) * interval '4 h' - interval '1 s'")

    assert ticked(queue) is None
    queue.execute("update pgq.tick set tick_time = now() - interval '1 day' where tick_id = 3")
    assert ticked(queue) == 4


def test_a_tick_is_told_to_who_listens_when_it_is_committed(
    queue: psycopg.Connection, connect: Connect
) -> None:
    listener, ticker = connect(), connect()
    listener.autocommit = True
    channel = scalar(queue, "select pgq.notify_channel('q')")
    assert channel == "pgq_1"
    listener.execute("listen pgq_1")
    for statement in (
        "select pgq.force_tick('q')",
        "select pgq.ticker('q')",
        "select pgq.force_tick('q')",
        "select pgq.ticker()",
    ):
        ticker.execute(statement.encode())
    assert list(listener.notifies(timeout=0)) == []
    ticker.commit()

    assert [told.payload for told in listener.notifies(timeout=10, stop_after=2)] == ["2", "3"]


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_a_ticker_that_keeps_an_old_snapshot_is_refused(
    queue: psycopg.Connection, connect: Connect, level: IsolationLevel
) -> None:
    insert(queue, "one")
    ticker = connect()
    ticker.isolation_level = level
    with pytest.raises(psycopg.Error, match="the ticker must run in READ COMMITTED, not in"):
        ticker.execute("select pgq.ticker('q')")


def test_while_one_ticker_ticks_another_does_not_wait_and_does_not_tick(
    queue: psycopg.Connection, connect: Connect
) -> None:
    insert(queue, "one")
    first = connect()
    assert ticked(first) == 2

    assert ticked(queue) is None
    assert scalar(queue, "select pgq.ticker()") == 0
    first.commit()
    tick(queue)


@pytest.mark.every_version
def test_several_tickers_at_once_never_go_backwards(queue: psycopg.Connection, connect: Connect) -> None:
    queue.execute("select pgq.set_queue_config('q', 'ticker_max_count', '0')")

    def work(connection: psycopg.Connection) -> None:
        for number in range(100):
            insert(connection, str(number))
            connection.commit()
            ticked(connection)
            connection.commit()

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, [connect() for _ in range(4)]))
    tick(queue)

    assert scalar(queue, BACKWARDS) == 0
    seen: list[str] = []
    while scalar(queue, "select pgq.next_batch('q', 'c')") is not None:
        seen += consume(queue)
    assert sorted(seen) == sorted(str(number) for number in range(100) for _ in range(4))


def test_the_tick_at_a_time_is_the_newest_not_after_it(queue: psycopg.Connection) -> None:
    tick(queue)
    queue.execute("update pgq.tick set tick_time = '2020-01-01'::timestamptz + tick_id * interval '1 h'")
    query = "select pgq.find_tick_at(i_queue_name => 'q', i_time => %s::timestamptz)"

    assert [
        scalar(queue, query, f"2020-01-01 {time}+00") for time in ("00:59", "01:00", "01:59", "09:00")
    ] == [
        None,
        1,
        1,
        2,
    ]
    assert scalar(queue, "select pgq.last_tick(i_queue_name => 'q')") == 2
    assert scalar(queue, "select pgq.last_tick('missing')") is None


# ----------------------------------------------------------------------------------------------- ticks from elsewhere

EXTERNAL = "select pgq.ticker('q', %s, now(), 1)"


@pytest.fixture
def external(queue: psycopg.Connection) -> psycopg.Connection:
    """Give a connection; the ticks of "q" come from elsewhere."""
    queue.execute("select pgq.set_queue_config('q', 'external_ticker', 'true')")
    return queue


def test_of_two_ticks_from_elsewhere_the_second_waits_for_the_first(
    external: psycopg.Connection, connect: Connect
) -> None:
    first = connect()
    assert scalar(first, EXTERNAL, 10) == 10
    external.execute("set lock_timeout = '50 ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        scalar(external, EXTERNAL, 11)
    first.commit()

    assert scalar(external, EXTERNAL, 11) == 11
    assert scalar(external, BACKWARDS) == 0


def test_ticks_from_elsewhere_come_in_any_order_unless_the_queue_forbids_it(
    external: psycopg.Connection, connect: Connect
) -> None:
    old = connect()
    old.isolation_level = IsolationLevel.REPEATABLE_READ
    assert scalar(old, EXTERNAL, 9) == 9
    old.rollback()
    assert [scalar(external, EXTERNAL, number) for number in (10, 5)] == [10, 5]
    external.execute("select pgq.set_queue_option('q', 'ordered_ticks', 'on')")

    with pytest.raises(psycopg.errors.RaiseException, match="tick 7 of queue q comes after tick 10"):
        scalar(external, EXTERNAL, 7)
    with pytest.raises(psycopg.errors.RaiseException, match="must run in READ COMMITTED, not in repeatable"):
        scalar(old, EXTERNAL, 12)
    assert scalar(external, EXTERNAL, 11) == 11


@pytest.mark.parametrize("isolation", [IsolationLevel.READ_COMMITTED, IsolationLevel.REPEATABLE_READ])
@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_appended_after_ticks_from_elsewhere_reaches_consumers_once(
    external: psycopg.Connection, connect: Connect, isolation: IsolationLevel, *, is_first: bool
) -> None:
    ticking = connect()
    ticking.isolation_level = isolation
    scalar(ticking, "select txid_current()")
    if not is_first:
        scalar(external, "select txid_current()")  # a younger transaction ends before the ticks
    insert(ticking, "copied")
    assert scalar(ticking, EXTERNAL, 10) == 10
    scalar(external, "select txid_current()")
    assert scalar(ticking, EXTERNAL, 11) == 11
    insert(ticking, "appended")
    ticking.commit()
    assert scalar(external, EXTERNAL, 12) == 12

    assert sorted(data for _ in range(3) for data in consume(external)) == ["appended", "copied"]
