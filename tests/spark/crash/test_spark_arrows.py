"""A process dies at each arrow of a streaming query's life, and the query is started again: nothing is lost or doubled.

The arrows are every call that Spark makes, before and after it. Killed is the process that the call happens in: the one
beside the driver that lives as long as the query, a planner, or a worker of a task.
"""

from __future__ import annotations

import random

import pytest

from tests.fixtures.pairs import turn
from tests.spark.crash.conftest import SINKS, SQL_SINKS, MakeStream
from tests.spark.crash.faults import Plan, has_fired
from tests.spark.crash.scene import Log

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]

SOURCE_ARROWS = [
    Plan("source.prepare"),
    Plan("source.limit"),
    Plan("source.initial"),
    Plan("source.initial", "after"),
    Plan("source.initial", "before", 2),
    Plan("source.latest"),
    Plan("source.latest", "after"),
    Plan("source.latest", "after", 3),
    Plan("source.report", "after", 2),
    Plan("source.partitions"),
    Plan("source.partitions", "after", 2),
    Plan("source.read"),
    Plan("source.read.rows", "before", 2),
    Plan("source.read", "after"),
    Plan("source.commit"),
    Plan("source.commit", "after"),
]
SINK_ARROWS = [
    Plan("sink.make"),
    Plan("sink.make", "after"),
    Plan("sink.write"),
    Plan("sink.write.rows", "before", 2),
    Plan("sink.write", "after"),
    Plan("sink.write", "after", 2),
    Plan("sink.make", "before", 2),  # in the process that is to commit
    Plan("sink.commit"),
    Plan("sink.commit", "after"),
    Plan("sink.commit", "after", 2),
]
TASKS = {
    "source.read",
    "source.read.rows",
    "sink.write",
    "sink.write.rows",
}  # Spark tries these again by itself
WITH_SOURCE = {"table-staged", "parquet"}  # of our own sinks one is enough for what happens in the source


def _name(plan: Plan) -> str:
    return f"{plan.moment} {plan.point} {plan.nth}"


@pytest.mark.parametrize("sink", SINKS)
def test_at_whichever_arrow_a_process_dies_each_event_is_copied_once(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    every = [*(SOURCE_ARROWS if sink in WITH_SOURCE else ()), *(() if sink == "parquet" else SINK_ARROWS)]
    without_effect = []
    for number, plan in enumerate(turn(every, 7)):
        begin = log.begin_anew()
        log.fill(100, chance, ticks=3)
        stream = make_stream(sink, f"copy_{number}", startingOffsets=begin, maxTicksPerTrigger="2")
        plan.write(stream.faults)
        print(number, _name(plan), flush=True)  # noqa: T201 - should it hang, this says where

        failed = stream.fails()
        if not has_fired(stream.faults) or not (failed or plan.point in TASKS):
            without_effect.append(_name(plan))
        stream.run()

        assert stream.wrong() == {}, _name(plan)
    assert without_effect == []


@pytest.mark.parametrize("sink", SQL_SINKS)
def test_when_the_commit_raises_after_the_database_has_committed_abort_leaves_it(
    make_stream: MakeStream, log: Log, chance: random.Random, sink: str
) -> None:
    log.fill(200, chance)
    stream = make_stream(sink)
    Plan("sink.commit", "after", action="raise").write(stream.faults)

    assert stream.fails()
    first = stream.copy.rows()
    stream.run()

    assert first, "nothing was committed"
    assert stream.wrong() == {}
