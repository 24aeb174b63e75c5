"""A data source that is Rowbus's, whose tasks wait for one another while they read, and again while they write.

`format("rowbus_meeting")` hands everything on to `format("rowbus")`. The option `meeting` names a folder in which each
task leaves a file when it is in the middle of its work, and goes on when two have.

Invariant: a job of which no two tasks run at once never ends.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from rowbus.spark.datasource import RowbusDataSource

T = TypeVar("T")
FORMAT = "rowbus_meeting"
PAUSE = 0.005  # seconds between two looks
SIZE = 2


def meet(folder: str, what: str) -> None:
    """Say that this task is at this point, and wait until another one is."""
    context = TaskContext.get()
    assert context is not None
    (Path(folder) / f"{what}-{context.partitionId()}").touch()
    parent = os.getppid()
    while len(list(Path(folder).glob(f"{what}-*"))) < SIZE and os.getppid() == parent:
        time.sleep(PAUSE)


def met_after_the_first(rows: Iterator[T], folder: str, what: str) -> Iterator[T]:
    """Hand rows on; meet when the first ones were taken."""
    first = True
    for row in rows:
        yield row
        if first:
            meet(folder, what)
        first = False


class MeetingSource(DataSource):
    """`rowbus`, whose tasks meet."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def _theirs(self) -> RowbusDataSource:
        return RowbusDataSource({key: value for key, value in self.options.items() if key != "meeting"})

    def schema(self) -> StructType | str:
        return self._theirs().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return MeetingReader(self._theirs().reader(schema), self.options["meeting"])

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        return MeetingWriter(self._theirs().writer(schema, overwrite), self.options["meeting"])


class MeetingReader(DataSourceReader):
    """A reader of Rowbus's, whose tasks meet when they have read something."""

    def __init__(self, theirs: Any, folder: str) -> None:  # noqa: ANN401 - whatever the options made
        self._theirs = theirs
        self._folder = folder

    def partitions(self) -> Sequence[InputPartition]:
        found: Sequence[InputPartition] = self._theirs.partitions()
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return met_after_the_first(self._theirs.read(partition), self._folder, "reading")


class MeetingWriter(DataSourceArrowWriter):
    """A writer of Rowbus's, whose tasks meet when they have written something."""

    def __init__(self, theirs: Any, folder: str) -> None:  # noqa: ANN401 - as above
        self._theirs = theirs
        self._folder = folder

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        message: WriterCommitMessage = self._theirs.write(
            met_after_the_first(iterator, self._folder, "writing")
        )
        return message

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._theirs.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._theirs.abort(messages)
