"""A Spark cluster of a master and two workers, each a process of its own: the stream depends on none of them.

Everything listens on the loopback interface only. The driver is a process of its own too.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from rowbus.spark.runtimes import provide_java
from tests.fixtures.places import ROOT
from tests.fixtures.processes import Program, Programs, await_that, children, kill_below
from tests.spark.crash.faults import Plan, has_fired
from tests.spark.crash.scene import Log, into_table

pytestmark = [
    pytest.mark.slow,
    pytest.mark.turns("kills with Spark", 3),
    pytest.mark.one_version,
    pytest.mark.spark,
    pytest.mark.timeout(600),
]

PROGRAM = ROOT / "tests" / "spark" / "crash" / "stream_program.py"
MEETING = ROOT / "tests" / "spark" / "meeting_program.py"
EXECUTORS = ("spark.executor.memory=512m", "spark.executor.cores=1", "spark.driver.bindAddress=127.0.0.1")


class Service:
    """A master or a worker."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self._output = folder / f"{name}.log"
        with self._output.open("wb") as file:
            self.process = subprocess.Popen(
                [Path(_find_spark_home()) / "bin" / "spark-class", *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)},
            )

    def await_text(self, pattern: str) -> str:
        """Wait until it has written something, and give the first group of it."""

        def found() -> re.Match[str] | None:
            return re.search(pattern, self._output.read_text("utf-8", errors="replace"))

        await_that(lambda: found() is not None, f"{pattern!r} of {self._output.name}")
        match = found()
        assert match is not None
        return match[1]

    def kill(self) -> None:
        """Kill it and the executors that it has started."""
        kill_below(self.process.pid)
        self.process.wait()


class Cluster:
    """A master and two workers of one core each."""

    def __init__(self, folder: Path) -> None:
        deploy = "org.apache.spark.deploy"
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.master = Service(folder, "master", f"{deploy}.master.Master", *ports)
        self.services = [self.master]
        self.url = self.master.await_text(r"Starting Spark master at (spark://\S+)")
        size = ("--cores", "1", "--memory", "600m", "--work-dir", str(folder / "work"))
        self.workers = [
            Service(folder, f"worker-{number}", f"{deploy}.worker.Worker", *ports, *size, self.url)
            for number in (1, 2)
        ]
        self.services += self.workers
        for worker in self.workers:
            worker.await_text(r"(Successfully registered with master)")

    def end(self) -> None:
        for service in self.services:
            service.kill()


@pytest.fixture
def cluster(spark_folder: Path) -> Iterator[Cluster]:
    provide_java()
    cluster = Cluster(spark_folder)
    yield cluster
    cluster.end()


@pytest.fixture
def log(log_database: str) -> Iterator[Log]:
    log = Log(log_database)
    log.create()
    yield log
    log.roll_back_prepared()


@pytest.fixture
def programs(log: Log, spark_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    programs = Programs(spark_folder, log.dsn)
    yield programs
    programs.end()


def await_end(driver: Program) -> None:
    """Wait until the driver's query is done: with five JVMs on a machine that may take its time."""
    await_that(lambda: not driver.is_running, f"the driver, which said {driver.lines[-5:]}", patience=240)
    assert driver.process.returncode == 0, "\n".join(driver.lines)


@pytest.mark.parametrize("sink", ["table-staged", "table-prepared"])
def test_a_stream_on_two_workers_copies_each_event_once(
    cluster: Cluster, log: Log, programs: Programs, spark_folder: Path, sink: str
) -> None:
    copy = into_table(log, sink.partition("-")[2], "copied")
    log.fill(2_000, random.Random(6), ticks=6)

    driver = programs.start(PROGRAM, str(spark_folder), sink, cluster.url, *EXECUTORS)
    await_end(driver)

    executors = [line.split()[1:] for line in driver.lines if line.startswith("executor")]
    assert sorted(name for name, tasks in executors if int(tasks)) == ["0", "1"], "one worker did it all"
    assert copy.rows() == log.sent()


def test_two_executors_read_at_once_and_write_at_once(
    cluster: Cluster, log: Log, programs: Programs, spark_folder: Path
) -> None:
    copy = into_table(log, "staged", "copied")
    log.fill(2_000, random.Random(9), ticks=6)
    (spark_folder / "meeting").mkdir()

    driver = programs.start(MEETING, str(spark_folder / "meeting"), cluster.url, *EXECUTORS)
    await_end(driver)  # its tasks have met while they read, and while they wrote

    assert copy.rows() == log.sent()
    tasks = [line.split()[1:] for line in driver.lines if line.startswith("task")]
    times = [(executor, int(begun), int(ended)) for executor, begun, ended in tasks]
    assert any(
        one[0] != other[0] and one[1] < other[2] and other[1] < one[2]
        for one, other in combinations(times, 2)
    ), times


def test_when_a_worker_is_killed_with_its_executor_the_query_goes_on_with_the_other(
    cluster: Cluster, log: Log, programs: Programs, spark_folder: Path
) -> None:
    copy = into_table(log, "staged", "copied")
    log.fill(1_000, random.Random(7), ticks=6)
    Plan("sink.write.rows", "before", 3, "wait").write(spark_folder / "faults")
    driver = programs.start(PROGRAM, str(spark_folder), "table-staged", cluster.url, *EXECUTORS)
    await_that(lambda: has_fired(spark_folder / "faults"), "the planned moment", patience=240)

    waiting = int((spark_folder / "faults" / "pid").read_text())
    next(worker for worker in cluster.workers if waiting in children(worker.process.pid)).kill()

    await_end(driver)
    assert copy.rows() == log.sent()


def test_when_the_driver_is_killed_another_one_goes_on(
    cluster: Cluster, log: Log, programs: Programs, spark_folder: Path
) -> None:
    copy = into_table(log, "staged", "copied")
    log.fill(1_000, random.Random(8), ticks=6)
    Plan("sink.commit", "after", 1, "wait").write(spark_folder / "faults")
    driver = programs.start(PROGRAM, str(spark_folder), "table-staged", cluster.url, *EXECUTORS)
    await_that(lambda: has_fired(spark_folder / "faults"), "the planned moment", patience=240)
    kill_below(driver.pid)

    another = programs.start(PROGRAM, str(spark_folder), "table-staged", cluster.url, *EXECUTORS)

    await_end(another)
    assert copy.rows() == log.sent()
