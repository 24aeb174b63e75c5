"""Messages that a stopped query has committed are acknowledged by its checkpoint, and nothing more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from rowbus.spark.queue_source.finish import finish
from tests.fixtures.forked import ROWBUS
from tests.spark.queue.queues import ALL, Offset, Queue

META = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": {}}


def plan(folder: Path, number: int, offset: Offset) -> None:
    """Write an entry of Spark's offset log."""
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(number)).write_text(f"v1\n{json.dumps(META)}\n{json.dumps(offset)}")


def commit(folder: Path, number: int) -> None:
    """Write an entry of Spark's commit log."""
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_only_what_is_committed_is_acknowledged(queue: Queue, tmp_path: Path) -> None:
    queue.send(1, 2)
    reader = queue.receiver(releaseOn="commit", maxOffsetsPerTrigger=1)
    start = reader.initialOffset()
    first = reader.latestOffset(start, reader.getDefaultReadLimit())
    second = reader.latestOffset(first, reader.getDefaultReadLimit())
    reader.stop()
    plan(tmp_path, 0, first)
    assert finish(tmp_path, dsn=queue.dsn) == {}
    commit(tmp_path, 0)
    plan(tmp_path, 1, second)

    for _ in range(2):
        assert finish(tmp_path, dsn=queue.dsn) == {queue.address.canonical: 1}

    assert queue.ask("select number, state from rowbus_spark.claim order by number") == [
        (1, "acked"),
        (2, "held"),
    ]


def test_a_stopped_query_can_go_on_afterwards(queue: Queue, tmp_path: Path) -> None:
    queue.send(1)
    reader = queue.receiver()
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    plan(tmp_path, 0, end)
    commit(tmp_path, 0)
    finish(tmp_path, dsn=queue.dsn)
    queue.send(2)

    assert queue.receiver().latestOffset(end, ALL)["claim"] == 2


def test_what_is_to_be_archived_is(queue: Queue, tmp_path: Path) -> None:
    queue.send(1)
    reader = queue.receiver(onAck="archive")
    plan(tmp_path, 0, reader.latestOffset(reader.initialOffset(), ALL))
    commit(tmp_path, 0)
    reader.stop()

    finish(tmp_path, dsn=queue.dsn)

    assert queue.ask("select state from rowbus_spark.claim") == [("archived",)]


def test_the_command_acknowledges_too(queue: Queue, tmp_path: Path) -> None:
    queue.send(1)
    reader = queue.receiver(releaseOn="commit")
    plan(tmp_path, 0, reader.latestOffset(reader.initialOffset(), ALL))
    reader.stop()
    command = [*ROWBUS, "spark", "release", str(tmp_path), "--consumer", "spark", "--database", queue.dsn]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (refused.returncode, "no batch of ours is committed" in refused.stderr) == (1, True)
    commit(tmp_path, 0)

    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert said == f"Queue {queue.address.canonical}: all is acknowledged up to claim 1.\n"
    assert queue.ask("select state from rowbus_spark.claim") == [("acked",)]
