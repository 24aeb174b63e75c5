"""A data source that is Rowbus's, and fails where a test wants it to.

`format("rowbus_faulty")` hands everything on to `format("rowbus")`. The option `faults` names a folder; a file `plan`
in it says at which call something happens: the process kills itself, raises, ends everybody's sessions, or waits until
the test has done what it wants to. Spark makes these objects anew in many processes, so what is remembered is
remembered in files.

Invariant: a fault happens once; whoever renames the plan first has it.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rowbus.spark.datasource import RowbusDataSource

T = TypeVar("T")
PAUSE = 0.005  # seconds between two looks
FORMAT = "rowbus_faulty"

DRIVER_POINTS = (  # what Spark calls in the one process beside the driver, in this order
    "source.prepare",
    "source.limit",
    "source.initial",
    "source.latest",
    "source.report",
    "source.partitions",
    "source.commit",
)
TASK_POINTS = ("source.read", "source.read.rows")
SINK_POINTS = ("sink.make", "sink.write", "sink.write.rows", "sink.commit", "sink.abort")


class InjectedError(Exception):
    """Error that a plan with the action `raise` raises."""


class Plan(NamedTuple):
    """At the `nth` time that a point is passed `moment` (before or after) its call, `action` happens."""

    point: str
    moment: str = "before"
    nth: int = 1
    action: str = "kill"

    def write(self, folder: Path) -> None:
        """Put the plan where the data source looks for it; forget the one before."""
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        unfinished = folder / "plan.new"
        unfinished.write_text(json.dumps(self))
        unfinished.rename(folder / "plan")


def has_fired(folder: Path) -> bool:
    """Say whether the plan's moment has come."""
    return (folder / "fired").exists()


def release(folder: Path) -> None:
    """Let a process go on that waits."""
    (folder / "go").touch()


class Faults:
    """A wrapper of each call; costs a look for a file when there is no plan."""

    def __init__(self, folder: str, dsn: str) -> None:
        self._folder = Path(folder)
        self._dsn = dsn

    def at(self, point: str, moment: str) -> None:
        """Do what the plan says for this moment, if it is the planned one."""
        try:
            plan = Plan(*json.loads((self._folder / "plan").read_text()))
        except FileNotFoundError:
            return
        if (plan.point, plan.moment) == (point, moment) and self._count() == plan.nth:
            self._fire(plan)

    def _count(self) -> int:
        descriptor = os.open(self._folder / "count", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, b".")
            return os.lseek(descriptor, 0, os.SEEK_CUR)
        finally:
            os.close(descriptor)

    def _fire(self, plan: Plan) -> None:
        (self._folder / "pid").write_text(str(os.getpid()))
        (self._folder / "plan").rename(self._folder / "fired")
        match plan.action:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "raise":
                raise InjectedError(f"planned: {plan.moment} {plan.point}")
            case "sever":
                self._end_all_sessions()
            case "wait":
                self._wait()

    def _end_all_sessions(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )

    def _wait(self) -> None:
        parent = os.getppid()
        while not (self._folder / "go").exists() and os.getppid() == parent:
            time.sleep(PAUSE)


class FaultySource(DataSource):
    """`rowbus`, with a plan of faults."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def _theirs(self) -> RowbusDataSource:
        return RowbusDataSource({key: value for key, value in self.options.items() if key != "faults"})

    def _faults(self) -> Faults:
        return Faults(self.options["faults"], self.options["dsn"])

    def schema(self) -> StructType | str:
        return self._theirs().schema()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return FaultyReader(self._theirs().streamReader(schema), self._faults())

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001, N802 - Spark's signature
        faults = self._faults()
        faults.at("sink.make", "before")
        writer = FaultyWriter(self._theirs().streamWriter(schema, overwrite), faults)
        faults.at("sink.make", "after")
        return writer


class FaultyReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream reader of Rowbus's; calls and values go through unchanged."""

    def __init__(self, theirs: Any, faults: Faults) -> None:  # noqa: ANN401 - whatever the options made
        self._theirs = theirs
        self._faults = faults

    def _call(self, point: str, method: str, *values: Any) -> Any:  # noqa: ANN401 - whatever Spark gives
        self._faults.at(point, "before")
        result = getattr(self._theirs, method)(*values)
        self._faults.at(point, "after")
        return result

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._call("source.prepare", "prepareForTriggerAvailableNow")

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        limit: ReadLimit = self._call("source.limit", "getDefaultReadLimit")
        return limit

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        offset: dict[str, Any] = self._call("source.initial", "initialOffset")
        return offset

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        offset: dict[str, Any] = self._call("source.latest", "latestOffset", start, limit)
        return offset

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        offset: dict[str, Any] | None = self._call("source.report", "reportLatestOffset")
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        found: Sequence[InputPartition] = self._call("source.partitions", "partitions", start, end)
        return found

    def commit(self, end: dict[str, Any]) -> None:
        self._call("source.commit", "commit", end)

    def stop(self) -> None:
        self._theirs.stop()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._faults.at("source.read", "before")
        yield from self._passing("source.read.rows", self._theirs.read(partition))
        self._faults.at("source.read", "after")

    def _passing(self, point: str, rows: Iterator[T]) -> Iterator[T]:
        for row in rows:
            self._faults.at(point, "before")
            yield row


class FaultyWriter(DataSourceStreamArrowWriter):
    """A stream writer of Rowbus's; batches and messages go through unchanged."""

    def __init__(self, theirs: Any, faults: Faults) -> None:  # noqa: ANN401 - whatever the options made
        self._theirs = theirs
        self._faults = faults

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        self._faults.at("sink.write", "before")
        message: WriterCommitMessage = self._theirs.write(self._passing(iterator))
        self._faults.at("sink.write", "after")
        return message

    def _passing(self, rows: Iterator[Any]) -> Iterator[Any]:
        for row in rows:
            self._faults.at("sink.write.rows", "before")
            yield row

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._faults.at("sink.commit", "before")
        self._theirs.commit(messages, batchId)
        self._faults.at("sink.commit", "after")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        self._faults.at("sink.abort", "before")
        self._theirs.abort(messages, batchId)
        self._faults.at("sink.abort", "after")


def options_with_faults(options: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Give the options of the faulty source."""
    return {**options, "faults": str(folder)}
