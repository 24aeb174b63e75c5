"""Losses of Spark and around it: a commit, a checkpoint, a registration; and a second query of one name."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from tests.fixtures.processes import await_that
from tests.spark.crash.conftest import SINKS, SQL_SINKS, MakeStream
from tests.spark.crash.faults import Plan, has_fired, release
from tests.spark.crash.scene import Log, Stream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("failures with Spark", 4),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]


@contextmanager
def without_commit_log(stream: Stream) -> Iterator[None]:
    """Have a file where Spark has its folder of commits, so that it cannot write any; root may write everywhere."""
    commits, aside = stream.checkpoint / "commits", stream.checkpoint / "aside"
    commits.rename(aside)
    commits.touch()
    try:
        yield
    finally:
        commits.unlink()
        aside.rename(commits)


def await_fault(stream: Stream) -> None:
    await_that(lambda: has_fired(stream.faults), "the planned moment")


# ------------------------------------------------------------------------------------------------------ the commit log


@pytest.mark.parametrize("sink", SQL_SINKS)
def test_a_batch_that_the_database_has_and_spark_could_not_note_is_not_written_again(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    log.fill(200, chance)
    stream = make_stream(sink)
    Plan("sink.commit", "after", action="wait").write(stream.faults)
    query = stream.start()
    await_fault(stream)

    with without_commit_log(stream):
        release(stream.faults)
        with pytest.raises(PySparkException):
            query.awaitTermination()
    assert stream.copy.rows() == log.sent(), "the database had committed"
    log.fill(50, chance)
    stream.run()

    assert stream.wrong() == {}


@pytest.mark.parametrize("sink", SINKS)
def test_a_batch_whose_commit_was_deleted_is_replayed_without_doubling(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    stream = make_stream(sink, maxTicksPerTrigger="2")
    for _ in range(3):
        log.fill(100, chance)
        stream.run()
        assert stream.lose_last_commit()
        stream.run()

        assert stream.wrong() == {}


@pytest.mark.parametrize("sink", SINKS)
def test_without_any_commit_log_the_last_batch_is_replayed_without_doubling(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    stream = make_stream(sink, maxTicksPerTrigger="2")
    log.fill(100, chance)
    stream.run()
    shutil.rmtree(stream.checkpoint / "commits")
    log.fill(100, chance)

    stream.run()

    assert stream.wrong() == {}


# ------------------------------------------------------------------------------------------------------ the checkpoint


@pytest.mark.parametrize("sink", SQL_SINKS)
def test_without_its_checkpoint_a_query_goes_on_where_the_consumer_is_registered(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    stream = make_stream(sink, startingOffsets="committed")
    log.tick()
    stream.run()  # registers the consumer
    for _ in range(2):  # the second run of AvailableNow releases what the first has made durable
        log.fill(100, chance)
        stream.run()
    stream.run()
    shutil.rmtree(stream.checkpoint)
    log.fill(100, chance)

    stream.run()

    lost, doubled = _difference(stream, log)
    assert not lost, (
        "the batch ids of the new checkpoint begin again at 0: they are others than those in the ledger"
    )
    assert not doubled, "the registration was at the end"


@pytest.mark.parametrize("sink", ["table-staged", "table-prepared"])
def test_a_new_checkpoint_under_the_name_of_an_older_sink_is_an_error_and_never_skips_its_batches(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    stream = make_stream(sink, startingOffsets="committed")
    stream.copy.options = {**stream.copy.options, "txnAppId": "a-name"}
    log.fill(100, chance)
    stream.run()
    stream.run()
    before = stream.copy.rows()
    shutil.rmtree(stream.checkpoint)
    log.fill(100, chance)

    with pytest.raises(PySparkException, match="txnAppId"):
        stream.run()

    assert stream.copy.rows() == before
    stream.copy.options = {**stream.copy.options, "txnAppId": "another-name"}
    shutil.rmtree(stream.checkpoint)
    stream.run()
    assert stream.wrong() == {}


def test_without_checkpoint_and_registration_a_query_begins_where_its_options_say(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    stream = make_stream("table-staged", startingOffsets="earliest")
    log.fill(100, chance)
    stream.run()
    shutil.rmtree(stream.checkpoint)
    log.ask("select pgq.unregister_consumer('crash', 'copied')")

    stream.run()

    assert stream.copy.rows() == log.sent() + log.sent(), "all that the log has, again"


def test_with_its_checkpoint_a_query_goes_on_though_its_registration_was_removed_as_long_as_the_log_has_all(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    stream = make_stream("table-staged")
    log.fill(100, chance)
    stream.run()
    log.ask("select pgq.unregister_consumer('crash', 'copied')")
    log.fill(100, chance)

    stream.run()

    assert stream.wrong() == {}


def test_what_was_rotated_away_without_a_registration_is_an_error_and_never_skipped(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    stream = make_stream("table-staged")
    log.fill(100, chance)
    stream.run()
    log.ask("select pgq.unregister_consumer('crash', 'copied')")
    log.fill(100, chance)
    assert [log.rotate() for _ in range(3)] == [True] * 3
    log.fill(100, chance)

    with pytest.raises(PySparkException, match="DataLossError"):
        stream.run()


# ------------------------------------------------------------------------------------------------ rotation and holding


def test_the_registration_keeps_rotation_from_what_a_running_read_needs(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    stream = make_stream("table-staged")
    log.fill(200, chance)
    Plan("source.read", action="wait").write(stream.faults)
    query = stream.start()
    await_fault(stream)

    rotations = [log.rotate() for _ in range(4)]
    log.fill(50, chance)
    release(stream.faults)
    assert query.awaitTermination(60)
    stream.run()

    assert sum(rotations) <= 1, "the second rotation truncates what was current at the first"
    assert stream.wrong() == {}
    stream.run()  # lets go of what the run before has made durable
    assert log.rotate(), "what is copied is held no longer"


def test_a_table_that_is_truncated_between_planning_and_reading_is_an_error_and_never_empty(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    stream = make_stream("table-staged")
    log.fill(200, chance)
    Plan("source.read", action="wait").write(stream.faults)
    query = stream.start()
    await_fault(stream)

    log.ask("select pgq.unregister_consumer('crash', 'copied')")
    assert [log.rotate() for _ in range(3)] == [True] * 3
    release(stream.faults)

    with pytest.raises(PySparkException, match="DataLossError"):
        query.awaitTermination(60)
    assert stream.copy.rows() == Counter()


def test_a_log_that_rotates_as_often_as_it_can_is_copied_whole(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    streams = [make_stream(sink, sink.replace("-", "_")) for sink in ("table-staged", "parquet")]
    queries = [stream.start(until_done=False) for stream in streams]
    rotations = 0
    for _ in range(30):
        log.fill(60, chance, ticks=2)
        rotations += log.rotate()
        for query in queries:
            query.processAllAvailable()
    for query in queries:
        query.stop()

    assert rotations >= 5, "the registrations did not move"
    assert [stream.wrong() for stream in streams] == [{}, {}]


def test_a_transaction_that_is_open_across_ticks_and_batches_is_copied_once_and_whole(
    make_stream: MakeStream, log: Log, chance: random.Random
) -> None:
    stream = make_stream("table-staged")
    with log.connect() as connection, connection.transaction():
        log.append(connection, 500, "old")
        for _ in range(3):
            log.fill(50, chance)
            stream.run()
            assert ("old", "1") not in stream.copy.rows()
        log.append(connection, 500, "old")
    log.tick()

    stream.run()

    assert stream.wrong() == {}
    assert sum(type == "old" for type, _ in stream.copy.rows()) == 1_000


# ---------------------------------------------------------------------------------------------------- a second query


def test_a_second_query_of_the_same_consumer_fails_at_once_and_the_first_goes_on(
    make_stream: MakeStream, log: Log, chance: random.Random, tmp_path: Path
) -> None:
    first = make_stream("table-staged")
    query = first.start(until_done=False)
    log.fill(50, chance)
    query.processAllAvailable()
    second = Stream(first.spark, log, first.copy, tmp_path / "second", consumer=first.consumer)

    with pytest.raises(PySparkException, match="ConsumerBusyError"):
        second.run()

    log.fill(50, chance)
    query.processAllAvailable()
    query.stop()
    assert first.wrong() == {}
    first.run()  # what it held has been let go


def _difference(stream: Stream, log: Log) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    sent, found = log.sent(), stream.copy.rows()
    return sent - found, found - sent
