"""Calls readers as Spark does: in its order, and on pickled copies where Spark uses copies."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit

from rowbus.spark.log_source.readers import LogStreamReader

Options = Callable[..., dict[str, str]]
Offset = dict[str, Any]
Row = dict[str, Any]


def as_spark(offset: Offset) -> Offset:
    """Pass an offset through the checkpoint, where it is text."""
    copy: Offset = json.loads(json.dumps(offset))
    assert json.dumps(copy) == json.dumps(offset)
    return copy


def rows_of(reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[Any]) -> list[Row]:
    """Read partitions in executors: from copies, in no particular order."""
    rows: list[Row] = []
    for partition in reversed(partitions):
        copy, part = pickle.loads(pickle.dumps((reader, partition)))  # noqa: S301 - our own objects
        for found in copy.read(part):
            rows += found.to_pylist()
    return rows


def between(reader: DataSourceStreamReader, start: Offset, end: Offset) -> list[Row]:
    """Read what lies between two offsets."""
    return rows_of(reader, reader.partitions(as_spark(start), as_spark(end)))


def datas(rows: Sequence[Row]) -> list[str]:
    return [row["ev_data"] for row in sorted(rows, key=lambda row: row["ev_id"])]


def assert_one_sentence(error: PySparkException) -> None:
    """Check that neither Python nor Java shows where a mistake was found: there is one line, and Spark's code."""
    assert "Traceback" not in str(error)
    assert len(str(error).partition("SQLSTATE")[0].strip().splitlines()) == 1


class Query:
    """A streaming query in one process: every batch is read, and committed one batch late, as Spark does."""

    def __init__(self, reader: LogStreamReader, start: Offset | None = None) -> None:
        self.reader = reader
        self.at = as_spark(start or reader.initialOffset())

    def batches(self, limit: ReadLimit | None = None) -> Iterator[list[Row]]:
        """Give the rows of batches until there is nothing more."""
        while (rows := self.batch(limit)) is not None:
            yield rows

    def batch(self, limit: ReadLimit | None = None) -> list[Row] | None:
        """Give the rows of the next batch; None when there is none."""
        end = self.reader.latestOffset(self.at, limit)
        if json.dumps(end) == json.dumps(self.at):
            return None
        rows = between(self.reader, self.at, end)
        self.at = as_spark(end)
        return rows
