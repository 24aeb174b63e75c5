"""A Delta table of a lake: what writing it holds in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import LocalFileSystem

from rowbus.spark.lake.delta import PIECE, StoredDelta, data_set, in_pieces

BATCHES = 36
ROWS = 2**19
SCHEMA = pa.schema({"number": pa.float64()})
_compute: Any = pc  # its stubs lack many functions


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
