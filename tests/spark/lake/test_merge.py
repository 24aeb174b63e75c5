"""Merging into a Delta or Iceberg table: of each key the newest row stays, each batch once, without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark
from pyspark.sql.datasource import WriterCommitMessage

from rowbus.errors import ConfigurationError
from rowbus.spark.lake import writer as lake
from rowbus.spark.lake.leftovers import collect
from tests.fixtures.every import every

COLUMNS = spark.StructType(
    [
        spark.StructField("id", spark.LongType()),
        spark.StructField("note", spark.StringType()),
        spark.StructField("seq", spark.LongType()),
        spark.StructField("op", spark.StringType()),
    ]
)
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about themselves

Row = tuple[int | None, str, int | None, str]


class Merged:
    """A table that batches are merged into."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind

    def options(self, **given: str) -> dict[str, str]:
        rule = {"mergekeys": "id", "sequenceby": "seq", "deletewhen": "op=D|T"}
        asked = {"deliver": self.kind, "path": str(self.path), "txnappid": "query"} | rule | given
        return {name: value for name, value in asked.items() if value}

    def merge(self, number: int, *tasks: Sequence[Row], **given: str) -> None:
        """Run a micro-batch as Spark does: pickled writers in tasks, another one that commits."""
        messages = [self._task(rows, given) for rows in tasks]
        lake.stream_writer(self.options(**given), COLUMNS, overwrite=False).commit(messages, number)

    def _task(self, rows: Sequence[Row], given: dict[str, str]) -> WriterCommitMessage:
        writer = lake.stream_writer(self.options(**given), COLUMNS, overwrite=False)
        copied = pickle.loads(pickle.dumps(writer))  # noqa: S301 - our own
        columns: list[Any] = list(zip(*rows, strict=True)) or [(), (), (), ()]
        kinds = (pa.int64(), pa.string(), pa.int64(), pa.string())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        message: WriterCommitMessage = copied.write(iter([pa.RecordBatch.from_arrays(arrays, COLUMNS.names)]))
        return message

    def table(self) -> pa.Table:
        if self.kind == "delta":
            return DeltaTable(self.path).to_pyarrow_table()
        with self.iceberg() as table:
            found: pa.Table = table.scan().to_arrow()
            return found

    @contextmanager
    def iceberg(self) -> Generator[Any]:
        from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - slow to import

        with closing(SqlCatalog("rowbus", uri=f"sqlite:///{self.path}/catalog.db")) as catalog:
            yield catalog.load_table(f"lake.{self.path.name}")

    def rows(self) -> list[tuple[int, str]]:
        return sorted((row["id"], row["note"]) for row in self.table().to_pylist())

    def leftovers(self) -> list[str]:
        return collect(str(self.path), self.kind, older_than=timedelta(0), dry_run=True)


@pytest.fixture(params=["delta", "iceberg"])
def merged(request: pytest.FixtureRequest, tmp_path: Path) -> Merged:
    return Merged(tmp_path / "orders", request.param)


def test_rows_are_inserted_updated_and_deleted_by_key(merged: Merged) -> None:
    merged.merge(0, [(1, "a", 1, "I"), (2, "b", 2, "I")], [(3, "c", 3, "I")])
    merged.merge(1, [(2, "B", 4, "U"), (3, "", 5, "D")], [(4, "d", 6, "I")])

    assert merged.rows() == [(1, "a"), (2, "B"), (4, "d")]
    assert merged.table().schema.names == ["id", "note", "seq"]


def test_the_newest_row_of_a_key_counts_whichever_task_has_it(merged: Merged) -> None:
    merged.merge(0, [(1, "new", 3, "U"), (2, "x", 1, "I")], [(1, "old", 2, "I"), (2, "", 2, "D")], [])

    assert merged.rows() == [(1, "new")]


def test_a_late_row_does_not_undo_a_newer_one(merged: Merged) -> None:
    merged.merge(0, [(1, "new", 5, "U")])
    merged.merge(1, [(1, "late", 4, "U")])
    assert merged.rows() == [(1, "new")]
    merged.merge(2, [(1, "", 4, "D")])
    assert merged.rows() == [(1, "new")]


def test_a_batch_that_spark_commits_again_changes_nothing_and_leaves_no_file(merged: Merged) -> None:
    merged.merge(0, [(1, "a", 1, "I")])
    merged.merge(1, [(1, "b", 2, "U")])
    merged.merge(1, [(1, "", 3, "D")])
    assert merged.leftovers() == []
    with pytest.raises(ConfigurationError, match="the checkpoint is older"):
        merged.merge(0, [(1, "", 4, "D")])

    assert merged.rows() == [(1, "b")]


def test_two_drivers_that_merge_a_batch_at_once_merge_it_once(merged: Merged) -> None:
    merged.merge(0, [(number, "a", 1, "I") for number in range(4)], sequenceby="")
    for number in range(1, 4):
        with ThreadPoolExecutor(2) as pool:
            list(
                pool.map(
                    lambda _driver, number=number: merged.merge(
                        number, [(number, "b", 1, "U")], sequenceby=""
                    ),
                    range(2),
                )
            )

    assert merged.rows() == [(0, "a"), (1, "b"), (2, "b"), (3, "b")]


def test_two_queries_that_merge_at_once_both_get_in(merged: Merged) -> None:
    merged.merge(0, [(0, "a", 1, "I"), (1, "a", 1, "I")])
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda key: merged.merge(1, [(key, "b", 2, "U")], txnappid=f"query {key}"), range(2)))

    assert merged.rows() == [(0, "b"), (1, "b")]


def test_without_a_sequence_the_last_batch_wins_and_a_key_comes_once(merged: Merged) -> None:
    merged.merge(0, [(1, "a", 9, "I")], sequenceby="")
    merged.merge(1, [(1, "b", 1, "I")], sequenceby="")
    assert merged.rows() == [(1, "b")]
    with pytest.raises(ConfigurationError, match="sequenceBy"):
        merged.merge(2, [(1, "c", 1, "I")], [(1, "d", 1, "I")], sequenceby="")


def test_a_row_without_a_key_a_sequence_or_a_word_on_deletion_is_refused(merged: Merged) -> None:
    with pytest.raises(ConfigurationError, match="its id is NULL"):
        merged.merge(0, [(None, "a", 1, "I")])
    with pytest.raises(ConfigurationError, match="its seq is NULL"):
        merged.merge(0, [(1, "a", None, "I")])
    with pytest.raises(ConfigurationError, match="Name the values that delete: op=D"):
        merged.merge(0, [(1, "a", 1, "I")], deletewhen="op")


def test_a_partitioned_table_is_merged_across_its_partitions(merged: Merged) -> None:
    merged.merge(0, [(1, "a", 1, "I"), (2, "b", 1, "I")], partitionby="note")
    merged.merge(1, [(1, "b", 2, "U"), (3, "", 2, "D")], partitionby="note")

    assert merged.rows() == [(1, "b"), (2, "b")]
    with (
        nullcontext()
        if merged.kind == "iceberg"
        else pytest.raises(ConfigurationError, match="take it for NULL")
    ):
        merged.merge(2, [(2, "", 3, "U")], partitionby="note")


@every(
    "given, said",
    [
        ({"mergekeys": ""}, "give 'mergeKeys', too"),
        ({"mergekeys": "number"}, "no column number"),
        ({"mergekeys": "id,id"}, "named once"),
        ({"mergekeys": "id,op"}, "says which rows delete"),
        ({"sequenceby": "op"}, "says which rows delete"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused(merged: Merged, given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        lake.stream_writer(merged.options(**given), COLUMNS, overwrite=False)


_ROWS = st.lists(st.tuples(st.integers(1, 4), st.sampled_from("IUD")), max_size=12)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(_ROWS, min_size=1, max_size=4), data=st.data())
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_merged_table_is_what_its_changes_say(
    batches: list[list[tuple[int, str]]],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
) -> None:
    merged, model, sequence = Merged(tmp_path_factory.mktemp("merged") / "t", kind), dict[int, str](), 0
    for number, batch in enumerate(batches):
        rows: list[Row] = []
        for key, operation in batch:
            sequence += 1
            rows.append((key, f"n{sequence}", sequence, operation))
            model[key] = f"n{sequence}"
            if operation == "D":
                del model[key]
        shuffled = data.draw(st.permutations(rows))
        merged.merge(number, shuffled[::2], shuffled[1::2])
        if data.draw(st.booleans()):
            merged.merge(number, shuffled)
    if any(batches):
        assert merged.rows() == sorted(model.items())
