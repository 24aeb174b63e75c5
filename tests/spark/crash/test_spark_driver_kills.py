"""The driver is killed, JVM and all, at each of the moments that matter, and started again: nothing is lost or doubled.

Unlike a process of Python's that dies alone, a driver that dies aborts nothing and tells nobody.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.pairs import turn
from tests.fixtures.places import ROOT
from tests.fixtures.processes import Program, Programs, await_that, children
from tests.spark.crash.faults import Plan, has_fired
from tests.spark.crash.scene import Copy, Log, into_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(900),
]

PROGRAM = Path(__file__).with_name("stream_program.py")
MOMENTS = [
    Plan("source.initial", "after"),
    Plan("source.latest", "after"),
    Plan("source.read.rows"),
    Plan("sink.write", "after"),
    Plan("sink.commit"),
    Plan("sink.commit", "after"),
    Plan("source.commit"),
]


def kill_with_children(program: Program) -> None:
    """Kill a program and all that it has started, as the machine's end would."""
    below = children(program.pid) - {program.pid}
    program.kill()
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def programs(log: Log, spark_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    programs = Programs(spark_folder, log.dsn)
    yield programs
    programs.end()


@pytest.mark.parametrize("sink", ["table-staged", "table-prepared"])
def test_when_the_driver_is_killed_each_event_is_copied_once(
    log: Log, programs: Programs, spark_folder: Path, chance: random.Random, sink: str
) -> None:
    copy: Copy = into_table(log, sink.partition("-")[2], "copied")
    for moment in turn(MOMENTS, 2):
        log.fill(100, chance, ticks=4)
        moment._replace(action="wait").write(spark_folder / "faults")
        program = programs.start(PROGRAM, str(spark_folder), sink, "local[2]")
        await_that(lambda: has_fired(spark_folder / "faults"), f"{moment}", patience=120)
        kill_with_children(program)

        assert copy.rows() <= log.sent(), moment
    shutil.rmtree(spark_folder / "faults")
    last = programs.start(PROGRAM, str(spark_folder), sink, "local[2]")
    await_that(lambda: not last.is_running, "the end of the last one", patience=240)
    assert last.process.returncode == 0, "\n".join(last.lines)
    assert copy.rows() == log.sent()
