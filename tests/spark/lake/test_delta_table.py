"""A Delta table of a lake: what writing it holds in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.fs import LocalFileSystem

from rowbus.spark.lake import files
from rowbus.spark.lake.delta import StoredDelta, data_set
from rowbus.spark.lake.files import PIECE, in_pieces
from rowbus.spark.lake.table import AppTransaction
from rowbus.spark.lake.tables.folder import TableFormat, stored_table

BATCHES = 36
ROWS = 2**19
SCHEMA = pa.schema({"number": pa.float64()})
_compute: Any = pc  # its stubs lack many functions


BEFORE = pa.default_memory_pool()
POOL = pa.proxy_memory_pool(BEFORE)
"""Counts what is allocated in it; it has to live as long as the interpreter."""

NUMBERS = _compute.random(ROWS, initializer=1)


def shifted(number: int) -> Any:  # noqa: ANN401 - a batch, whose stubs are partial
    """Make a batch of 4 MB, much faster than one is written."""
    return pa.RecordBatch.from_arrays([_compute.add(NUMBERS, number)], schema=SCHEMA)


def test_few_of_the_batches_are_in_memory_before_they_are_written(tmp_path: Path) -> None:
    before, held = pa.total_allocated_bytes(), list[int]()

    def rows() -> Iterator[pa.RecordBatch]:
        for number in range(BATCHES):
            batch = shifted(number)
            held.append((pa.total_allocated_bytes() - before) // batch.nbytes)
            yield batch

    StoredDelta(str(tmp_path)).replace(SCHEMA, rows(), None)

    assert max(held) <= BATCHES // 3, held
    assert data_set(str(tmp_path)).count_rows() == BATCHES * ROWS


def test_no_thread_that_reads_holds_objects_of_an_interpreter_that_may_end(tmp_path: Path) -> None:
    StoredDelta(str(tmp_path)).replace(SCHEMA, [], None)

    assert isinstance(data_set(str(tmp_path)).filesystem.base_fs, LocalFileSystem)


def test_the_pieces_of_a_batch_are_its_rows_in_their_order() -> None:
    batch, empty = shifted(1), shifted(2).slice(0, 0)

    pieces: list[Any] = list(in_pieces([batch, empty]))

    assert len(pieces) > 1
    assert all(piece.nbytes <= PIECE for piece in pieces)
    assert pa.Table.from_batches(pieces).combine_chunks().to_batches()[0].equals(batch)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_merge_holds_few_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: TableFormat
) -> None:
    monkeypatch.setattr(files, "GROUP", 2**20)
    table = stored_table(f"{tmp_path}/public.texts", "public.texts", kind)
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("text", pa.string())]
    schema = pa.schema(columns)

    def rows(first: int, last: int, letter: str) -> Iterator[pa.RecordBatch]:
        for number in range(first, last):
            values: Any = [pa.array([number]), pa.array([letter * 2**18])]
            yield pa.RecordBatch.from_arrays(values, schema=schema)

    table.replace(schema, rows(0, 128, "a"), AppTransaction("copy", 1))
    pa.set_memory_pool(POOL)
    try:
        changed = pa.table({"id": pa.array(range(64, 192), pa.int64())})
        table.merge(changed, rows(64, 160, "b"), ["id"], AppTransaction("query", 1))
    finally:
        pa.set_memory_pool(BEFORE)

    found: Any = pa.Table.from_batches(table.read())
    assert (POOL.max_memory() or 0) <= 12 * 2**20
    assert sorted(found.column("id").to_pylist()) == list(range(160))
    assert [text[0] for text in found.sort_by("id").column("text").to_pylist()] == ["a"] * 64 + ["b"] * 96
    assert table.newest("query") == 1
