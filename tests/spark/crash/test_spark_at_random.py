"""Over and over something breaks at a random moment, and each time every event is in the copy once.

Each run chooses one of five streams (into a table and into a log, staged and prepared, and into Parquet), a moment
of its life and what happens then: the process dies, the call raises, the server ends all sessions. Sometimes Spark's
last commit is lost beside it. Then the stream is started again without a fault, and what it has written is compared
with the log.

`ROWBUS_TEST_RUNS` is how often, `ROWBUS_TEST_SEED` chooses other moments; the seed is printed. What counts before a
release: `ROWBUS_TEST_RUNS=100`.
"""

from __future__ import annotations

import os
import random
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rowbus.spark import janitor
from tests.fixtures.pairs import effort, today
from tests.spark.crash.conftest import ALL_SINKS, make_copy
from tests.spark.crash.faults import DRIVER_POINTS, SINK_POINTS, TASK_POINTS, Plan, has_fired
from tests.spark.crash.scene import Log, Stream

RUNS = int(os.environ.get("ROWBUS_TEST_RUNS", effort("4", "20")))
SEED = int(os.environ.get("ROWBUS_TEST_SEED", today()))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(300 + 60 * RUNS),
]
ACTIONS = ("kill", "raise", "sever")
LOSES_COMMIT = 0.15  # share of the runs
ROTATES = 0.3


def choose(chance: random.Random, sink: str) -> Plan:
    """Choose what happens where, at a moment that a run of a few batches comes to."""
    points = (*DRIVER_POINTS, *TASK_POINTS, *(() if sink == "parquet" else SINK_POINTS[:-1]))
    return Plan(
        chance.choice(points),
        chance.choice(("before", "after")),
        chance.choice((1, 1, 1, 2, 3)),
        chance.choice(ACTIONS),
    )


def run_once(stream: Stream, log: Log, plan: Plan, chance: random.Random) -> bool:
    """Append, break the stream, mend it; say whether the planned moment came."""
    log.fill(80, chance, ticks=3)
    plan.write(stream.faults)
    stream.fails()
    fired = has_fired(stream.faults)
    if chance.random() < LOSES_COMMIT:
        stream.lose_last_commit()
    Plan("nowhere").write(stream.faults)
    stream.run()
    if chance.random() < ROTATES:
        log.rotate()
    return fired


def test_whatever_breaks_at_whatever_moment_each_event_is_copied_once(
    faulty_spark: SparkSession, log: Log, spark_folder: Path
) -> None:
    print(f"seed {SEED}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(SEED)
    streams = {
        sink: Stream(
            faulty_spark,
            log,
            make_copy(faulty_spark, log, sink, sink.replace("-", "_"), spark_folder),
            spark_folder / sink,
            consumer=sink,
            source={"maxTicksPerTrigger": "2"},
        )
        for sink in ALL_SINKS
    }
    fired, leftovers = 0, []
    for number in range(RUNS):
        sink = ALL_SINKS[number % len(ALL_SINKS)]
        plan = choose(chance, sink)

        fired += run_once(streams[sink], log, plan, chance)

        assert streams[sink].wrong() == {}, f"seed {SEED}, run {number}: {sink}, {plan}"
        if left := log.leftovers():
            leftovers.append((number, sink, *plan, left))
    for stream in streams.values():
        stream.run()
        assert stream.wrong() == {}
    print(*leftovers, sep="\n")  # noqa: T201 - they do no harm, but hold back vacuum
    janitor(log.dsn, older_than=timedelta(0))
    assert log.leftovers() == []
    assert fired >= RUNS // 3, "too few of the planned moments came"
