"""Messages in a queue: sent as they are, received once and in order, counted, peeked and purged."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import psycopg
import pytest

from rowbus.database.postgresql.connection import Session
from rowbus.messages.headers import decode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.transport.queues.postgresql import QueueTable
from rowbus.transport.receiving.decisions import FROM_THE_START
from tests.fixtures.sessions import answers, bodies, message, put, run, take, take_and_put_back

PAST = "update {} set expires = now() at time zone 'UTC' - interval '1 second'"


# -------------------------------------------------------------------------------------------------------------- sending


def test_what_was_sent_is_received_as_it_was(session: Session, queue: QueueTable) -> None:
    headers = {"a": 'quote " and \\ and ż and \U0001f680', "NServiceBus.MessageId": "m"}
    body = bytes(range(256))
    session.run(queue.send(OutgoingMessage(headers, body), notify=False))

    (row,) = take(session, queue)

    assert decode_headers(row.headers) == headers
    assert row.body == body
    assert row.expired is False
    assert row.seq == 1


def test_the_rows_id_is_a_random_uuid_and_never_the_messages(session: Session, queue: QueueTable) -> None:
    own = str(uuid.uuid4())
    for _ in range(2):
        session.run(queue.send(OutgoingMessage({"NServiceBus.MessageId": own}), notify=False))

    first, second = take(session, queue, 2)

    assert len({first.id, second.id, own}) == 3
    assert uuid.UUID(first.id).version == 4
    assert first.id == str(uuid.UUID(first.id))


def test_an_empty_body_is_written_as_an_empty_value_never_as_null(
    session: Session, queue: QueueTable
) -> None:
    empty = message(body=b"")
    session.run(queue.send(empty, notify=False))
    session.run(queue.send_batch([empty, empty], notify=False))
    session.copy(queue.copy, queue.copy_rows([("{}", b"")], None))

    assert answers(session, 'select body is null, octet_length(body) from "Sales"') == [(False, 0)] * 4


def test_a_batch_keeps_its_order(session: Session, queue: QueueTable) -> None:
    put(session, queue, 500)

    assert bodies(session, queue) == [b"%d" % number for number in range(1, 501)]


def test_each_message_of_a_batch_has_its_own_time_to_be_received(session: Session, queue: QueueTable) -> None:
    spans = [None, timedelta(minutes=1), timedelta(hours=1)]
    session.run(queue.send_batch([message(ttbr=span) for span in spans], notify=False))

    left = answers(session, """select expires - now() at time zone 'UTC' from "Sales" order by seq""")

    assert left[0] == (None,)
    assert timedelta(seconds=50) < left[1][0] <= timedelta(minutes=1)
    assert timedelta(minutes=59) < left[2][0] <= timedelta(hours=1)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_a_message_expires_in_utc_wall_time_whatever_the_senders_time_zone(
    session: Session, other: Session, queue: QueueTable, zone: str
) -> None:
    other.connection.execute("select set_config('timezone', %s, false)", [zone])
    other.run(queue.send(message(ttbr=timedelta(minutes=5)), notify=False))
    expires = other.run(queue.expiry(timedelta(minutes=5)))
    other.copy(queue.copy, queue.copy_rows([("{}", b"")], expires))

    for (moment,) in answers(session, 'select expires from "Sales"'):
        left = moment.replace(tzinfo=UTC) - datetime.now(UTC)
        assert timedelta(minutes=4) < left <= timedelta(minutes=5)
    assert [row.expired for row in take(other, queue, 2)] == [False, False]


def test_a_time_to_be_received_may_be_longer_than_nservicebus_can_write(
    session: Session, queue: QueueTable
) -> None:
    session.run(queue.send(message(ttbr=timedelta(days=3650)), notify=False))

    assert answers(session, "select expires > now() + interval '9 years' from \"Sales\"") == [(True,)]


# ------------------------------------------------------------------------------------------------------------ receiving


def test_the_oldest_message_is_received_first(session: Session, queue: QueueTable) -> None:
    put(session, queue, 3)

    assert [take(session, queue)[0].body for _ in range(3)] == [b"1", b"2", b"3"]
    assert take(session, queue) == []


@pytest.mark.parametrize("most", [1, 10])
def test_an_empty_queue_gives_nothing(session: Session, queue: QueueTable, most: int) -> None:
    assert take(session, queue, most) == []


def test_a_batch_is_the_oldest_messages_in_their_order(session: Session, queue: QueueTable) -> None:
    put(session, queue, 60)

    rows = take(session, queue, 50)

    assert [row.body for row in rows] == [b"%d" % number for number in range(1, 51)]
    assert [row.seq for row in rows] == sorted(row.seq for row in rows)
    assert len(take(session, queue, 50)) == 10


def test_what_somebody_has_in_hand_is_passed_over_without_waiting(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 5)
    other.connection.execute("set lock_timeout to '20ms'")
    with session.transaction():
        mine = take(session, queue, 2)
        theirs = [*take(other, queue), *take(other, queue, 10)]

    assert [row.body for row in mine] == [b"1", b"2"]
    assert [row.body for row in theirs] == [b"3", b"4", b"5"]
    assert bodies(session, queue) == []


PARTITIONED = """
alter table "Sales" rename to "Shape";
create table "Sales" (like "Shape" including defaults) partition by range (seq);
create table "Sales 1" partition of "Sales" for values from (minvalue) to (3);
create table "Sales 2" partition of "Sales" for values from (3) to (maxvalue);
"""


def test_a_batch_of_a_partitioned_queue_is_the_oldest_messages(session: Session, queue: QueueTable) -> None:
    """Rows of two partitions have the same place."""
    run(session, PARTITIONED)
    put(session, queue, 4)

    assert [row.body for row in take(session, queue, 2)] == [b"1", b"2"]
    assert bodies(session, queue) == [b"3", b"4"]


@pytest.mark.parametrize("passed_over", [[], [99]])
def test_a_batch_tries_no_locks_that_others_hold(
    session: Session, other: Session, queue: QueueTable, passed_over: list[int]
) -> None:
    """To try one costs the server more than a message; 64 processes with batches of 100 hold 6,400."""
    put(session, queue, 120)
    receive = queue.receive(10, lower_bound=1, passed_over=passed_over)
    with session.transaction():
        take(session, queue, 100)
        explain = f"explain (analyze, format json, costs off) {receive.query.text.decode()}"
        (((plan,),),) = other.connection.execute(explain, receive.parameters).fetchall()

    assert 10 <= rows_read_by(plan["Plan"], "Sales_seq_key") <= 11


def rows_read_by(plan: dict[str, Any], index: str) -> float:
    """Give how many rows an index handed on, beyond those that a filter removed."""
    here: float = plan["Actual Rows"] if plan.get("Index Name") == index else 0
    return here + sum(rows_read_by(child, index) for child in plan.get("Plans", ()))


def test_a_batch_from_a_bound_on_has_what_was_put_back_while_others_are_at_work(
    session: Session, other: Session, queue: QueueTable, database: str
) -> None:
    put(session, queue, 6)
    with psycopg.connect(database) as bystander:
        bystander.execute("select pg_current_xact_id()")  # an older transaction that stays open
        with session.transaction():
            take(session, queue, 2)
            taken = take_and_put_back(other, queue, 3)

            assert take(other, queue, 10, lower_bound=1)[:3] == taken

    assert bodies(session, queue) == []


def test_a_batch_passes_over_what_was_taken_after_a_savepoint(
    session: Session, other: Session, queue: QueueTable
) -> None:
    """Such transactions are not in the server's list of those that run."""
    put(session, queue, 3)
    other.connection.execute("set lock_timeout to '20ms'")
    with session.transaction(), session.connection.transaction():
        take(session, queue, 2)

        assert [row.body for row in take(other, queue, 10, lower_bound=1)] == [b"3"]


def test_a_message_rolled_back_is_back_in_its_old_place(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    (first,) = take_and_put_back(session, queue)

    assert take(other, queue) == [first]


def test_a_later_message_that_commits_first_is_received_first_and_the_earlier_one_is_not_lost(
    session: Session, other: Session, queue: QueueTable
) -> None:
    with session.transaction():
        session.run(queue.send(message(1), notify=False))
        other.run(queue.send(message(2), notify=False))
        assert [row.body for row in take(other, queue, 10)] == [b"2"]

    assert [row.body for row in take(other, queue, 10)] == [b"1"]


@pytest.mark.parametrize("most", [1, 10])
def test_messages_below_the_lower_bound_are_not_looked_at(
    session: Session, queue: QueueTable, most: int
) -> None:
    put(session, queue, 3)

    assert [row.body for row in take(session, queue, most, lower_bound=3)] == [b"3"]
    assert take(session, queue, most, lower_bound=3) == []
    assert len(take(session, queue, 10)) == 2


def test_messages_with_negative_positions_are_received(session: Session, queue: QueueTable) -> None:
    session.connection.execute('alter sequence "Sales_seq_seq" minvalue -2147483648 restart with -2147483648')
    put(session, queue, 2)

    assert [row.seq for row in take(session, queue, 2)] == [-(2**31), -(2**31) + 1]


@pytest.mark.parametrize("most", [1, 10])
def test_an_expired_message_says_so(session: Session, queue: QueueTable, most: int) -> None:
    put(session, queue)
    run(session, PAST.format('"Sales"'))

    assert [row.expired for row in take(session, queue, most)] == [True]


IN_A_MINUTE = "update \"Sales\" set expires = now() at time zone 'UTC' + interval '1 minute' where seq = 1"


@pytest.mark.parametrize("most", [1, 10])
@pytest.mark.parametrize("column", ["timestamp", "timestamptz"], ids=str)
def test_the_time_left_is_the_databases(
    session: Session, queue: QueueTable, most: int, column: LiteralString
) -> None:
    session.connection.execute(f'alter table "Sales" alter expires type {column}')
    put(session, queue, 3)
    run(session, IN_A_MINUTE)
    run(session, "update \"Sales\" set expires = 'infinity' where seq = 2")

    rows = [row for _ in range(3) for row in take(session, queue, most)]

    assert [row.time_left for row in rows] == [pytest.approx(60, abs=30), math.inf, None]
    assert not any(row.expired for row in rows)


@pytest.mark.parametrize("most", [1, 10])
def test_a_null_body_of_other_software_is_received_as_none(
    session: Session, queue: QueueTable, most: int
) -> None:
    session.connection.execute("""insert into "Sales" (id, headers) values (gen_random_uuid(), '{}')""")

    assert [row.body for row in take(session, queue, most)] == [None]


# ------------------------------------------------------------------------------------------- counting, peeking, purging


def available(session: Session, queue: QueueTable, most: int = 100, lower_bound: int = FROM_THE_START) -> int:
    return session.run(queue.count_available(most, lower_bound))


def test_waiting_messages_are_counted_up_to_the_limit(session: Session, queue: QueueTable) -> None:
    assert available(session, queue) == 0
    put(session, queue, 7)

    assert available(session, queue) == 7
    assert available(session, queue, most=3) == 3
    assert available(session, queue, lower_bound=6) == 2


@pytest.mark.parametrize("most", [1, 2])
def test_messages_in_hand_are_not_available(
    session: Session, other: Session, queue: QueueTable, most: int
) -> None:
    put(session, queue, 3)

    with session.transaction():
        take(session, queue, most)
        assert available(other, queue) == 3 - most

    assert available(other, queue) == 3 - most


def test_a_slow_handlers_messages_hide_no_others(session: Session, other: Session, queue: QueueTable) -> None:
    put(session, queue, 5)

    with session.transaction():
        take(session, queue, 3)
        assert [available(other, queue, most) for most in (1, 2, 10)] == [1, 2, 2]


def test_messages_in_hand_are_not_available_whichever_transactions_came_before_or_after(
    session: Session, other: Session, queue: QueueTable, database: str
) -> None:
    """Whether the taker is listed as running, or lies beyond what the snapshot knows, it has the message in hand."""
    put(session, queue, 2)
    with psycopg.connect(database) as bystander:
        bystander.execute("select pg_current_xact_id()")  # an older transaction that stays open
        with session.transaction():
            take(session, queue)
            assert available(other, queue) == 1
            run(other, "select pg_current_xact_id()")  # a younger one that is over
            assert available(other, queue) == 1
    assert available(other, queue) == 1


def test_a_counters_old_snapshot_sees_what_was_taken_since_as_in_hand(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    with psycopg.connect(other.connection.info.dsn, autocommit=True) as old:
        old.execute("begin transaction isolation level repeatable read")
        old.execute("select 1")
        with session.transaction():
            take(session, queue)
            assert available(Session(old), queue) == 1


def test_messages_put_back_are_available_again(session: Session, other: Session, queue: QueueTable) -> None:
    put(session, queue, 3)
    take_and_put_back(session, queue, 2)

    assert available(other, queue) == 3


def test_messages_somebody_locked_and_let_go_are_available(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 3)
    with session.transaction():
        session.connection.execute('select from "Sales" for update')
        assert available(other, queue) == 0

    assert available(other, queue) == 3


def test_counting_keeps_no_receiver_from_any_message(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    with session.transaction():
        assert available(session, queue) == 2
        session.run(queue.peek(10))
        assert len(take(other, queue, 10)) == 2


def test_peeking_shows_the_oldest_first_without_taking_them(
    session: Session, other: Session, queue: QueueTable
) -> None:
    session.run(queue.send(message(1, ttbr=timedelta(hours=1)), notify=False))
    session.run(queue.send(message(2), notify=False))
    with session.transaction():
        take(session, queue)
        first, second = other.run(queue.peek(10))

    assert (first.body, second.body) == (b"1", b"2")
    assert isinstance(first.expires, datetime)
    assert first.expires.utcoffset() == timedelta(0)
    assert timedelta(minutes=59) < first.expires - datetime.now(UTC) <= timedelta(hours=1)
    assert second.expires is None
    assert decode_headers(first.headers) == {"NServiceBus.MessageId": "m-1"}
    assert str(uuid.UUID(first.id)) == first.id
    assert (first.seq, second.seq) == (1, 2)


def test_peeking_is_bounded(session: Session, queue: QueueTable) -> None:
    put(session, queue, 5)

    assert [peeked.body for peeked in session.run(queue.peek(2))] == [b"1", b"2"]


def test_purging_deletes_everything_and_says_how_much(session: Session, queue: QueueTable) -> None:
    put(session, queue, 5)

    assert session.run(queue.purge()) == 5
    assert session.run(queue.purge()) == 0
    assert bodies(session, queue) == []


def test_purging_expired_messages_leaves_the_others(session: Session, queue: QueueTable) -> None:
    put(session, queue, 4)
    run(session, (PAST + " where seq in (1, 3, 4)").format('"Sales"'))
    session.run(queue.send(message(5, ttbr=timedelta(hours=1)), notify=False))

    assert session.run(queue.purge_expired(2)) == 2
    assert session.run(queue.purge_expired(2)) == 1
    assert session.run(queue.purge_expired(2)) == 0
    assert bodies(session, queue) == [b"2", b"5"]


def test_purging_expired_messages_passes_over_those_in_hand(
    session: Session, other: Session, queue: QueueTable
) -> None:
    put(session, queue, 2)
    run(session, PAST.format('"Sales"'))
    other.connection.execute("set lock_timeout to '20ms'")

    with session.transaction():
        take(session, queue)
        assert other.run(queue.purge_expired(10)) == 1
