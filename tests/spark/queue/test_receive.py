"""mode=receive without a JVM: claims as offsets, in the calls Spark makes and repeats."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.database.statements import Statement
from rowbus.errors import ConfigurationError, ConsumerBusyError, LeaseLostError
from rowbus.spark.queue_source import claims as queue_claims
from rowbus.spark.queue_source.receive import QueueStreamReader
from rowbus.transport.queues.catalog import postgresql as catalog
from tests.spark.queue.queues import ALL, Offset, Queue, batch, expired, read

TEN = ReadMaxRows(10)


def drain(reader: QueueStreamReader, start: Offset | None = None) -> list[list[int]]:
    """Run as Spark does until there is nothing left; give the batches."""
    start = reader.initialOffset() if start is None else start
    batches: list[list[int]] = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        batches.append(batch(reader, start, end))
        start = end
    return batches


# ------------------------------------------------------------------------------------------------------------- claiming


def test_messages_come_in_their_order_in_batches_of_the_size_asked_for(queue: Queue) -> None:
    queue.send(*range(25))

    assert drain(queue.receiver(maxOffsetsPerTrigger=10)) == [
        list(range(10)),
        list(range(10, 20)),
        list(range(20, 25)),
    ]
    assert queue.waiting() == []


def test_sparks_own_limit_counts_and_all_means_all(queue: Queue) -> None:
    queue.send(*range(25))
    reader = queue.receiver(maxOffsetsPerTrigger=3)
    start = reader.initialOffset()

    second = reader.latestOffset(start, TEN)
    third = reader.latestOffset(second, ReadAllAvailable())

    assert (second["messages"], third["messages"]) == (10, 15)


def test_a_claimed_message_is_in_no_other_receivers_reach(queue: Queue) -> None:
    queue.send(*range(5))
    reader = queue.receiver()

    reader.latestOffset(reader.initialOffset(), ALL)

    assert (queue.waiting(), queue.claimed()) == ([], [0, 1, 2, 3, 4])


def test_messages_in_somebodys_hands_are_passed_over_without_waiting(queue: Queue) -> None:
    queue.send(1, 2, 3)
    reader = queue.receiver()
    start = reader.initialOffset()
    with psycopg.connect(queue.dsn) as receiver:
        receiver.execute('delete from "Work" where seq = (select min(seq) from "Work")')

        assert batch(reader, start, reader.latestOffset(start, ALL)) == [2, 3]

        receiver.rollback()
    assert queue.waiting() == [1]


def test_an_expired_message_is_dropped_and_never_delivered(queue: Queue) -> None:
    queue.send(1)
    queue.send(2, 3, time_to_be_received=timedelta(microseconds=1))
    queue.send(4, time_to_be_received=timedelta(hours=1))

    assert drain(queue.receiver(maxOffsetsPerTrigger=2)) == [[1], [4]]
    assert queue.waiting() == []


def test_only_expired_messages_make_no_batch(queue: Queue) -> None:
    queue.send(1, 2, 3, time_to_be_received=timedelta(microseconds=1))

    assert drain(queue.receiver(maxOffsetsPerTrigger=2)) == []
    assert queue.waiting() == []


def test_rows_are_complete_also_when_their_headers_are_unreadable(queue: Queue) -> None:
    queue.ask("""insert into "Work" (id, headers, body) values (gen_random_uuid(), '{"oh', '\\xff')""")
    reader = queue.receiver(bodyAs="binary")
    start = reader.initialOffset()

    (row,) = read(reader, list(reader.partitions(start, reader.latestOffset(start, ALL))))

    found = (row["queue"], row["headers"], row["headers_text"], row["body"])
    assert found == (
        '"public"."Work"',
        None,
        '{"oh',
        b"\xff",
    )


def test_a_batch_is_cut_into_tasks_that_share_its_messages(queue: Queue) -> None:
    queue.send(*range(25))
    reader = queue.receiver(maxRecordsPerPartition=10)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    parts = reader.partitions(start, end)

    assert [len(read(reader, [part])) for part in parts] == [10, 10, 5]
    assert batch(reader, start, end) == list(range(25))


def test_planning_is_repeatable_and_an_empty_range_has_no_tasks(queue: Queue) -> None:
    queue.send(1)
    reader = queue.receiver()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)

    assert reader.partitions(start, end) == reader.partitions(start, end)
    assert (list(reader.partitions(start, start)), list(reader.partitions(end, end))) == ([], [])


def test_an_available_now_run_leaves_what_is_sent_later_to_the_next(queue: Queue) -> None:
    queue.send(1, 2)
    reader = queue.receiver()
    reader.prepareForTriggerAvailableNow()
    queue.send(3)

    assert drain(reader) == [[1, 2]]
    assert queue.waiting() == [3]


def test_an_available_now_run_on_an_empty_queue_takes_nothing(queue: Queue) -> None:
    reader = queue.receiver()
    reader.prepareForTriggerAvailableNow()
    queue.send(1)

    assert drain(reader) == []


def test_an_empty_queue_is_looked_at_no_more_often_than_asked(queue: Queue) -> None:
    reader = queue.receiver(pollIntervalMs=40)
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)

    began = time.monotonic()
    for _ in range(3):
        assert reader.latestOffset(start, ALL) == start
    assert time.monotonic() - began >= 0.11


def test_progress_says_how_many_messages_wait(queue: Queue) -> None:
    queue.send(1, 2, 3)
    report = queue.receiver().reportLatestOffset()

    assert report is not None
    assert report["waiting"] == 3


# ---------------------------------------------------------------------------------------- crashes: what Spark repeats


def test_a_claim_made_before_sparks_offset_log_is_taken_up_by_the_next_run(queue: Queue) -> None:
    queue.send(1, 2, 3)
    crashed = queue.receiver()
    start = crashed.initialOffset()
    lost = crashed.latestOffset(start, TEN)
    crashed.stop()
    queue.send(4)

    reader = queue.receiver()

    assert reader.initialOffset() == start
    assert reader.latestOffset(start, TEN) == lost
    assert batch(reader, start, lost) == [1, 2, 3]


def test_a_replayed_batch_is_the_same_batch(queue: Queue) -> None:
    queue.send(*range(12))
    crashed = queue.receiver()
    start = crashed.initialOffset()
    first = crashed.latestOffset(start, TEN)
    crashed.stop()
    queue.send(12)

    reader = queue.receiver()

    assert batch(reader, start, first) == batch(reader, start, first) == list(range(10))
    assert batch(reader, first, reader.latestOffset(first, TEN)) == [10, 11, 12]


def test_asking_again_from_the_same_offset_claims_nothing_more(queue: Queue) -> None:
    queue.send(1, 2)
    reader = queue.receiver()
    start = reader.initialOffset()

    assert reader.latestOffset(start, ReadMaxRows(1)) == reader.latestOffset(start, ReadMaxRows(1))
    assert queue.waiting() == [2]


def test_the_last_committed_batch_stays_so_that_a_lost_entry_of_the_commit_log_can_be_replayed(
    queue: Queue,
) -> None:
    queue.send(1, 2, 3)
    reader = queue.receiver(maxOffsetsPerTrigger=1)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(1))
    second = reader.latestOffset(first, ReadMaxRows(1))

    assert queue.claimed() == [1, 2]
    assert batch(reader, start, first) == [1]

    reader.latestOffset(second, ReadMaxRows(1))

    assert queue.claimed() == [2, 3]


def test_the_first_batch_too_can_be_replayed_after_it_was_acknowledged(queue: Queue) -> None:
    queue.send(1, 2)
    reader = queue.receiver()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.latestOffset(end, ALL)
    reader.stop()

    again = queue.receiver()

    assert batch(again, again.initialOffset(), end) == [1, 2]


def test_an_idle_stream_asks_the_database_once_a_look(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = queue.receiver(pollIntervalMs=0)
    start = reader.initialOffset()
    reader.latestOffset(start, ALL)
    run, asked = Session.run, list[bytes]()

    def counted(self: Session, statement: Statement[Any]) -> object:
        asked.append(statement.query.text)
        return run(self, statement)

    monkeypatch.setattr(Session, "run", counted)
    for _ in range(5):
        reader.latestOffset(start, ALL)

    assert len(asked) == 5


def test_archiving_keeps_everything(queue: Queue) -> None:
    queue.send(1, 2, 3)
    drain(queue.receiver(onAck="archive", maxOffsetsPerTrigger=1))

    assert queue.claimed() == [1, 2, 3]
    assert queue.ask("select distinct state from rowbus_spark.claim") == [("archived",)]


def test_what_was_archived_stays_when_later_runs_delete(queue: Queue) -> None:
    queue.send(1, 2)
    archiving = queue.receiver(onAck="archive")
    drain(archiving)
    archiving.stop()
    queue.send(3, 4, 5)
    drain(queue.receiver(maxOffsetsPerTrigger=1))

    assert queue.claimed() == [1, 2, 5]


def test_acknowledging_may_wait_for_sparks_commit(queue: Queue) -> None:
    queue.send(1)
    reader = queue.receiver(releaseOn="commit")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    reader.latestOffset(end, ALL)
    before = queue.ask("select state from rowbus_spark.claim")
    reader.commit(end)

    assert (before, queue.ask("select state from rowbus_spark.claim")) == ([("held",)], [("acked",)])


def test_the_last_batch_of_a_run_is_acknowledged_by_what_its_checkpoint_says(queue: Queue) -> None:
    queue.send(1)
    reader = queue.receiver()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()

    with queue.session() as session:
        for _ in range(2):
            queue_claims.ack(session, end["consumer"], end["queue"], end["claim"])

    assert queue.ask("select state from rowbus_spark.claim") == [("acked",)]
    assert queue.receiver().initialOffset()["claim"] == end["claim"]


def test_a_new_checkpoint_goes_on_where_the_consumer_is(queue: Queue) -> None:
    queue.send(1)
    first = queue.receiver()
    drain(first)
    first.stop()
    queue.send(2)

    assert drain(queue.receiver()) == [[2]]


def test_an_older_checkpoint_is_refused_before_it_takes_anything(queue: Queue) -> None:
    queue.send(1, 2)
    reader = queue.receiver(maxOffsetsPerTrigger=1)
    start = reader.initialOffset()
    drain(reader)
    reader.stop()
    queue.send(3)

    with pytest.raises(ConfigurationError, match="has acknowledged claim 2, but the checkpoint ends with 0"):
        queue.receiver().latestOffset(start, ALL)
    assert queue.waiting() == [3]


@pytest.mark.one_version
@pytest.mark.parametrize("other", [{"consumer": "other"}, {"queue": "Other"}])
def test_a_checkpoint_of_another_queue_or_consumer_is_refused(queue: Queue, other: dict[str, Any]) -> None:
    offset = queue.receiver().initialOffset()

    with pytest.raises(ConfigurationError, match="new checkpoint"):
        queue.receiver(**other).latestOffset(offset, ALL)


# --------------------------------------------------------------------------------------------------- leases and locks


def test_only_one_live_query_may_be_a_consumer(queue: Queue) -> None:
    first = queue.receiver()
    first.initialOffset()

    with pytest.raises(ConsumerBusyError, match="lake"):
        queue.receiver().initialOffset()
    queue.receiver(consumer="other").initialOffset()
    first.stop()
    queue.receiver(lockTimeoutMs="60s").initialOffset()  # the server notices a closed session when it can


def test_two_consumers_share_the_messages(queue: Queue) -> None:
    queue.send(*range(10))
    one, other = queue.receiver(consumer="one"), queue.receiver(consumer="other")
    starts = one.initialOffset(), other.initialOffset()

    batches = [
        batch(reader, start, reader.latestOffset(start, ReadMaxRows(5)))
        for reader, start in zip((one, other), starts, strict=True)
    ]

    assert batches == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_messages_of_a_consumer_that_is_gone_go_back_as_they_were(queue: Queue) -> None:
    queue.send(1, 2, time_to_be_received=timedelta(hours=1))
    before = queue.ask('select id, expires, headers, body from "Work" order by seq')
    gone = queue.receiver(consumer="gone")
    gone.latestOffset(gone.initialOffset(), ALL)
    gone.stop()
    queue.send(3)
    queue.expire_leases()

    reader = queue.receiver()
    reader.prepareForTriggerAvailableNow()

    assert drain(reader) == [[3, 1, 2]]
    after = queue.ask(
        "select row_id, expires, headers, body from rowbus_spark.claimed_message order by row_seq"
    )
    assert after[1:] == before


def test_going_back_wakes_the_receivers(queue: Queue) -> None:
    queue.send(1)
    gone = queue.receiver()
    gone.latestOffset(gone.initialOffset(), ALL)
    gone.stop()
    queue.expire_leases()
    with psycopg.connect(queue.dsn, autocommit=True) as receiver, queue.session() as session:
        receiver.execute(f"listen {queue.address.channel}")
        assert expired(session) == 1
        heard = list(receiver.notifies(timeout=5, stop_after=1))

    assert [note.channel for note in heard] == [queue.address.channel]


def test_a_lease_that_is_not_over_is_left_alone(queue: Queue) -> None:
    queue.send(1)
    reader = queue.receiver()
    reader.latestOffset(reader.initialOffset(), ALL)

    with queue.session() as session:
        assert expired(session) == 0
    assert queue.claimed() == [1]


def test_a_live_query_extends_its_leases(queue: Queue) -> None:
    queue.send(1)
    reader = queue.receiver(leaseMs=200)
    reader.latestOffset(reader.initialOffset(), ALL)
    deadline = time.monotonic() + 0.8

    with queue.session() as session:
        while time.monotonic() < deadline:
            assert expired(session) == 0
            time.sleep(0.02)


def test_a_query_that_starts_late_keeps_what_nobody_has_put_back(queue: Queue) -> None:
    queue.send(1)
    crashed = queue.receiver()
    start = crashed.initialOffset()
    end = crashed.latestOffset(start, ALL)
    crashed.stop()
    queue.expire_leases()

    reader = queue.receiver()
    reader.partitions(start, end)
    with queue.session() as session:
        assert expired(session) == 0

    assert batch(reader, start, end) == [1]


def lose(queue: Queue) -> tuple[Offset, Offset]:
    """Claim a message and have it put back, while the query is stopped."""
    queue.send(1)
    reader = queue.receiver()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    reader.stop()
    queue.expire_leases()
    with queue.session() as session:
        assert expired(session) == 1
    return start, end


def test_a_batch_whose_messages_went_back_fails_instead_of_being_empty(queue: Queue) -> None:
    start, end = lose(queue)
    reader = queue.receiver()

    with pytest.raises(LeaseLostError, match="failOnLeaseLoss=false"):
        batch(reader, start, end)
    assert queue.waiting() == [1]


def test_or_is_empty_if_that_is_what_was_asked_for_and_the_messages_come_again(queue: Queue) -> None:
    start, end = lose(queue)
    reader = queue.receiver(failOnLeaseLoss=False)

    assert batch(reader, start, end) == []
    again = reader.latestOffset(end, ALL)
    assert batch(reader, end, again) == [1]


def test_a_lease_lost_between_reading_and_committing_is_said_once(queue: Queue) -> None:
    _, end = lose(queue)
    reader = queue.receiver()

    with pytest.raises(LeaseLostError, match="may be delivered twice"):
        reader.latestOffset(end, ALL)
    assert batch(reader, end, reader.latestOffset(end, ALL)) == [1]


def test_a_claim_put_back_before_any_batch_was_planned_with_it_is_simply_made_anew(queue: Queue) -> None:
    start, end = lose(queue)
    reader = queue.receiver()

    assert reader.latestOffset(start, ALL) == end
    assert batch(reader, start, end) == [1]


def test_messages_of_a_queue_that_was_dropped_stay_claimed_and_hinder_no_other_queue(queue: Queue) -> None:
    other = Queue(queue.dsn, "Other")
    for which in (other, queue):
        which.send(1)
        reader = which.receiver()
        reader.latestOffset(reader.initialOffset(), ALL)
        reader.stop()
    queue.expire_leases()
    queue.ask('drop table "Other"')

    with queue.session() as session:
        assert expired(session) == 1
    assert (queue.waiting(), queue.claimed()) == ([1], [1])


def test_a_queue_made_anew_gives_returned_messages_places_of_their_own(queue: Queue) -> None:
    queue.send(1, 2)
    reader = queue.receiver()
    reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    queue.expire_leases()
    queue.ask('drop table "Work"')
    queue.__post_init__()
    queue.send(3, 4, 5)

    with queue.session() as session:
        assert expired(session) == 2
    assert sorted(queue.waiting()) == [1, 2, 3, 4, 5]


def test_a_lost_connection_is_made_anew_with_lock_and_leases(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "rowbus.spark")
    queue.send(1, 2)
    reader = queue.receiver()
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(1))
    queue.ask(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'rowbus spark%'"
    )

    assert batch(reader, first, reader.latestOffset(first, ReadMaxRows(1))) == [2]
    told = [each.getMessage() for each in caplog.records if "Claiming" in each.getMessage()]
    assert ["works again after 1 failure." in text for text in told] == [False, True]
    with pytest.raises(ConsumerBusyError):
        queue.receiver().initialOffset()


async def test_claimed_messages_are_no_queue(queue: Queue) -> None:
    reader = queue.receiver()
    reader.initialOffset()
    session = await Database(queue.dsn).connect()
    found = await session.run(catalog.find_queues())
    await session.close()

    assert [str(shape.address) for shape in found] == [queue.address.canonical]
