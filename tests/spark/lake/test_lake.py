"""The lake sinks without a JVM: what Spark repeats, aborts or does twice leaves each batch in the table once."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import types as spark
from pyspark.sql.datasource import WriterCommitMessage

from rowbus.errors import ConfigurationError
from rowbus.spark.lake import writer as lake
from rowbus.spark.lake.leftovers import collect
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.lake.writer import LakeStreamWriter
from tests.fixtures.every import every

COLUMNS = spark.StructType(
    [
        spark.StructField("number", spark.LongType()),
        spark.StructField("type", spark.StringType()),
        spark.StructField("time", spark.TimestampType()),
        spark.StructField("headers", spark.MapType(spark.StringType(), spark.StringType())),
        spark.StructField("body", spark.BinaryType()),
        spark.StructField("day", spark.DateType()),
    ]
)
HEADERS = pa.map_(pa.string(), pa.string())
TIME = datetime(2026, 11, 21, 7, 0, 0, 123456, UTC)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves


@dataclass
class Table:
    """A table to be written, and what is in it."""

    kind: str
    path: Path

    def options(self, **given: object) -> dict[str, str]:
        texts = {name: str(value) for name, value in given.items()}
        return {"deliver": self.kind, "path": str(self.path), "txnappid": "query"} | texts

    def stream(self, *, overwrite: bool = False, **given: str) -> LakeStreamWriter:
        return lake.stream_writer(self.options(**given), COLUMNS, overwrite)

    def arrow(self) -> Any:  # noqa: ANN401 - a table, whose stubs are partial
        if self.kind == "delta":
            from deltalake import DeltaTable  # noqa: PLC0415 - slow to import

            return DeltaTable(self.path).to_pyarrow_table()
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - as above

        catalog = SqlCatalog("rowbus", uri=f"sqlite:///{self.path}/catalog.db")
        return catalog.load_table(f"lake.{self.path.name}").scan().to_arrow()

    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return sorted(rows, key=lambda row: row["number"] or 0)

    def matching(self, column: str, value: object) -> list[object]:
        """Give the numbers of the rows that a reader finds by a value, skipping files as it likes."""
        if self.kind == "delta":
            from deltalake import DeltaTable  # noqa: PLC0415 - slow to import

            found = DeltaTable(self.path).to_pyarrow_dataset().to_table(["number"], ds.field(column) == value)
        else:
            from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - as above

            catalog = SqlCatalog("rowbus", uri=f"sqlite:///{self.path}/catalog.db")
            text = value.isoformat() if isinstance(value, date) else value
            found = catalog.load_table(f"lake.{self.path.name}").scan(f"{column} = {text!r}").to_arrow()
        return list(found.column("number").to_pylist())

    def numbers(self) -> list[int]:
        return [row["number"] for row in self.rows()]

    def files(self) -> set[str]:
        return {f"data/{file.name}" for file in self.path.glob("data/*.parquet")}


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(request.param, tmp_path / "events")


def rows(*numbers: int, day: date = date(2026, 11, 21), zone: str = "UTC") -> pa.RecordBatch:
    """Make rows as Spark hands them to a sink: with the session's time zone."""
    return pa.RecordBatch.from_pydict(
        {
            "number": pa.array(numbers, pa.int64()),
            "type": [f"t{number % 2}" for number in numbers],
            "time": pa.array([TIME] * len(numbers), pa.timestamp("us", zone)),
            "headers": pa.array(
                [[("a", None), ("b", "c")]] * len(numbers), pa.map_(pa.string(), pa.string())
            ),
            "body": [b"\xff"] * len(numbers),
            "day": pa.array([day] * len(numbers), pa.date32()),
        }
    )


def task(writer: LakeStreamWriter, *batches: pa.RecordBatch) -> WriterCommitMessage:
    """Run a task as Spark does: with a pickled writer, and a message that is pickled back."""
    message: WriterCommitMessage = pickle.loads(  # noqa: S301 - our own
        pickle.dumps(pickle.loads(pickle.dumps(writer)).write(iter(batches)))  # noqa: S301 - as above
    )
    return message


def commit(
    table: Table,
    messages: Sequence[WriterCommitMessage | None],
    number: int,
    *,
    overwrite: bool = False,
    **given: str,
) -> None:
    """Commit as Spark does: in a writer of its own."""
    table.stream(overwrite=overwrite, **given).commit(messages, number)


# -------------------------------------------------------------------------------------------------------- what is there


def test_rows_of_all_tasks_are_in_the_table_as_they_were(table: Table) -> None:
    writer = table.stream()
    commit(
        table, [task(writer, rows(1), rows(2, zone="Europe/Rome")), task(writer, rows(3)), task(writer)], 0
    )

    assert table.numbers() == [1, 2, 3]
    found = table.rows()[1]
    assert dict(found.pop("headers")) == {"a": None, "b": "c"}
    assert found == {"number": 2, "type": "t0", "time": TIME, "body": b"\xff", "day": date(2026, 11, 21)}


def test_nothing_is_seen_before_the_commit(table: Table) -> None:
    commit(table, [task(table.stream(), rows(1))], 0)
    task(table.stream(), rows(2))

    assert table.numbers() == [1]


@every("column, value", [("number", 2), ("type", "t0"), ("time", TIME), ("day", date(2026, 11, 21))])
def test_readers_that_skip_files_by_their_statistics_skip_none_that_has_the_rows(
    table: Table, column: str, value: object
) -> None:
    for number in (1, 2):
        commit(table, [task(table.stream(), rows(number))], number, txnAppId=column)

    assert 2 in table.matching(column, value)


def test_a_column_may_have_any_value_or_is_refused_with_its_type(tmp_path: Path) -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)  # which many take for "until now"
    inner = spark.StructType([spark.StructField("text", spark.StringType(), nullable=False)])
    columns = {"until": spark.TimestampType(), "day": spark.DateType(), "part": inner}
    schema = spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])
    for kind, days in (
        ("delta", [-800_000, 3_000_000]),
        ("iceberg", [0, None]),
    ):  # 221 BC, and the year 10183
        given: list[Any] = [
            pa.array([end, None], pa.timestamp("us", "UTC")),
            pa.array(days, pa.date32()),
            pa.array([{"text": "a"}, None], pa.struct([("text", pa.string())])),
        ]
        table = Table(kind, tmp_path / kind)
        writer = lake.stream_writer(table.options(), schema, overwrite=False)
        writer.commit([task(writer, pa.RecordBatch.from_arrays(given, schema.names))], 0)
        found = table.arrow()
        assert found.column("until").to_pylist() == [end, None]
        assert found.column("day").cast(pa.int32()).to_pylist() == days
        assert found.column("part").to_pylist() == [{"text": "a"}, None]
        given[1] = pa.array([-800_000, 0], pa.date32())
        by = {} if kind == "iceberg" else {"partitionBy": "day"}
        writer = lake.stream_writer(table.options(**by), schema, overwrite=False)
        with pytest.raises(ConfigurationError, match="outside of the years 1 to 9999"):
            writer.commit([task(writer, pa.RecordBatch.from_arrays(given, schema.names))], 1)
    empty = Table("delta", tmp_path / "empty")
    with pytest.raises(ConfigurationError, match="called 'part' but for upper and lower case"):
        lake.stream_writer(empty.options(), schema.add("Part", inner), overwrite=False)
    for odd in (spark.NullType(), spark.DayTimeIntervalType(), spark.VariantType()):
        within = spark.ArrayType(spark.MapType(spark.StringType(), odd))
        with pytest.raises(ConfigurationError, match="which lakes do not have"):
            lake.stream_writer(empty.options(), spark.StructType().add("x", within), overwrite=False)
    written = task(empty.stream(partitionBy="type"), rows(1).set_column(1, "type", pa.array([""])))
    with pytest.raises(ConfigurationError, match="take it for NULL"):
        commit(empty, [written], 0, partitionBy="type")


def test_delta_is_told_bounds_that_hold_although_it_counts_in_milliseconds(tmp_path: Path) -> None:
    table = Table("delta", tmp_path)
    commit(table, [task(table.stream(), rows(1, 2))], 0)
    actions = [
        json.loads(line) for line in (tmp_path / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    ]
    (stats,) = [json.loads(action["add"]["stats"]) for action in actions if "add" in action]

    assert stats["numRecords"] == 2
    assert (
        datetime.fromisoformat(stats["minValues"]["time"])
        <= TIME
        <= datetime.fromisoformat(stats["maxValues"]["time"])
    )
    assert (stats["minValues"]["number"], stats["maxValues"]["number"]) == (1, 2)
    assert stats["nullCount"]["number"] == 0


def test_partitions_have_files_of_their_own_and_are_found_again(table: Table) -> None:
    writer = table.stream(partitionBy="day,type")
    later = date(2026, 11, 22)
    commit(table, [task(writer, rows(1, 2, 3), rows(4, day=later))], 0, partitionBy="day,type")
    commit(table, [task(table.stream(partitionBy="day,type"), rows(5))], 1, partitionBy="day,type")

    assert [(row["number"], row["day"], row["type"]) for row in table.rows()] == [
        (number, later if number == 4 else date(2026, 11, 21), f"t{number % 2}") for number in range(1, 6)
    ]
    assert len(table.files()) == 4


def test_a_task_begins_another_file_when_one_is_full(table: Table) -> None:
    message = task(table.stream(targetFileBytes="1"), rows(1), rows(2), rows(3))
    commit(table, [message], 0)

    assert (len(table.files()), table.numbers()) == (3, [1, 2, 3])


def test_complete_mode_replaces_what_was_there(table: Table) -> None:
    commit(table, [task(table.stream(), rows(1, 2))], 0)
    commit(table, [task(table.stream(overwrite=True), rows(3))], 1, overwrite=True)
    commit(table, [task(table.stream(overwrite=True), rows(4))], 1, overwrite=True)

    assert table.numbers() == [3]


# ---------------------------------------------------------------------------------------------- each batch exactly once


@pytest.mark.parametrize("number", [0, 7])
def test_a_batch_that_is_committed_again_changes_nothing(table: Table, number: int) -> None:
    first = [task(table.stream(), rows(1, 2))]
    commit(table, first, number)
    replayed = [task(table.stream(), rows(1, 2))]
    commit(table, replayed, number)

    assert table.numbers() == [1, 2]
    assert len(table.files()) == 1, "the files of the second attempt are left"


def test_a_batch_of_an_older_checkpoint_and_a_number_that_does_not_grow_are_refused(table: Table) -> None:
    """Refuse it: it may read more now than was written, and a batch that is skipped loses that."""
    for number in (0, 1, 2):
        commit(table, [task(table.stream(), rows(number))], number)
    older = table.stream()
    with pytest.raises(
        ConfigurationError, match="has batch 2 already, and this is batch 1: the checkpoint is older"
    ):
        commit(table, [task(older, rows(1, 3))], 1)

    assert table.numbers() == [0, 1, 2]


def test_two_queries_number_their_batches_apart(table: Table) -> None:
    commit(table, [task(table.stream(), rows(1))], 0)
    commit(table, [task(table.stream(), rows(2))], 0, txnappid="other")

    assert table.numbers() == [1, 2]


def test_only_the_files_of_successful_attempts_count(table: Table) -> None:
    writer = table.stream()
    task(writer, rows(1))
    commit(table, [task(writer, rows(1)), None], 0)

    assert table.numbers() == [1]
    assert len(table.files()) == 2


def test_two_drivers_that_commit_a_batch_at_once_commit_it_once(table: Table) -> None:
    commit(table, [task(table.stream(), rows(0))], 0)
    for number in range(1, 6):
        attempts = [[task(table.stream(), rows(number))] for _ in range(2)]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda messages, number=number: commit(table, messages, number), attempts))

    assert table.numbers() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("columns", [None, "type"])
def test_several_queries_that_begin_at_once_all_get_into_one_table(table: Table, columns: str | None) -> None:
    def write(number: int) -> None:
        given = {"txnappid": f"query {number}"} | ({"partitionBy": columns} if columns else {})
        writer = lake.stream_writer(table.options(**given), COLUMNS, False)  # noqa: FBT003 - as Spark calls it
        writer.commit([task(writer, rows(number))], 0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))

    assert table.numbers() == [0, 1, 2, 3]


def test_somebody_else_between_looking_and_committing_is_noticed(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(table, [task(table.stream(), rows(0))], 0)
    is_in, calls = AppTransaction.is_in, list[bool]()

    def interrupted(batch: AppTransaction, place: str, newest: int | None) -> bool:
        answer = is_in(batch, place, newest)
        calls.append(answer)
        if len(calls) == 1:
            commit(table, [task(table.stream(), rows(1))], 1)
        return answer

    monkeypatch.setattr(AppTransaction, "is_in", interrupted)
    commit(table, [task(table.stream(), rows(1))], 1)

    assert (table.numbers(), calls) == ([0, 1], [False, False, True])


def test_abort_after_a_commit_that_happened_takes_nothing_away(table: Table) -> None:
    messages = [task(table.stream(), rows(1))]
    commit(table, messages, 0)
    table.stream().abort(messages, 0)

    assert table.numbers() == [1]


def test_a_batch_write_with_a_number_is_done_once(table: Table) -> None:
    for _ in range(2):
        writer = lake.batch_writer(table.options(txnVersion=3), COLUMNS, False)  # noqa: FBT003 - as Spark calls it
        writer.commit([pickle.loads(pickle.dumps(writer)).write(iter([rows(1)]))])  # noqa: S301 - our own

    assert table.numbers() == [1]


# ------------------------------------------------------------------------------------------------------------ leftovers


def test_leftovers_are_collected_when_they_are_old_and_nothing_else_is(table: Table) -> None:
    writer = table.stream()
    commit(table, [task(writer, rows(1))], 0)
    kept = table.files()
    task(writer, rows(2))
    (old,) = table.files() - kept
    for name in table.files():
        os.utime(table.path / name, (0, 0))
    task(writer, rows(3))

    assert collect(str(table.path), table.kind, dry_run=True) == [old]
    assert old in table.files()
    assert collect(str(table.path), table.kind) == [old]
    assert (len(table.files()), table.numbers()) == (2, [1])


def test_collecting_where_nothing_is_does_nothing(table: Table) -> None:
    assert collect(str(table.path), table.kind, older_than=timedelta(0)) == []


# --------------------------------------------------------------------------------------------------------- refusals


def test_other_columns_are_refused_by_name(table: Table) -> None:
    commit(table, [task(table.stream(), rows(1))], 0)
    other = spark.StructType([*COLUMNS.fields[:-1], spark.StructField("day", spark.StringType())])
    writer = lake.stream_writer(table.options(), other, False)  # noqa: FBT003 - as Spark calls it
    batch = rows(2)
    batch = batch.set_column(5, "day", pa.array(["today"]))

    with pytest.raises(ConfigurationError, match=r"day is date32.* there and string here"):
        writer.commit([task(writer, batch)], 1)
    assert table.numbers() == [1]


def test_other_partitions_are_refused(table: Table) -> None:
    commit(table, [task(table.stream(), rows(1))], 0)

    with pytest.raises(ConfigurationError, match="partitioned by nothing, not by day"):
        commit(table, [task(table.stream(partitionBy="day"), rows(2))], 1, partitionBy="day")


@every(
    "given, words",
    [
        ({"partitionBy": "dya"}, "no column 'dya'"),
        ({"partitionBy": "time"}, "cannot separate files"),
        ({"partitionBy": "day,day"}, "once each"),
        ({"partitionBy": ",".join(COLUMNS.names)}, "leave others for the files"),
        ({"txnVersion": "1"}, "leave out 'txnVersion'"),
        ({"path": ""}, "path"),
        ({"tabel": "x"}, "did you mean 'table'"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Table("delta", tmp_path).stream(**given)
