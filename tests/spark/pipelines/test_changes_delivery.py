"""Batches of events become batches of changes, the same by column as one by one."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rowbus.spark.captured import COLUMNS, _one_by_one, changes_of

JSON = [
    json.dumps({"op": op, "table": ["a", "b"], "pkey": ["id"]})
    for op in ("INSERT", "UPDATE", "DELETE", "TRUNCATE")
]
events = st.tuples(
    st.sampled_from([*JSON, "R", "order_placed", None]),
    st.sampled_from(['{"id":1}', '{"id":2}']),
    st.sampled_from(["a.b", "a.c", "", None]),
    st.none(),
)


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns: list[list[Any]] = (
        [[], [], [], []] if not rows else [list(column) for column in zip(*rows, strict=True)]
    )
    numbers = pa.array(range(len(rows)), pa.int64())
    return pa.RecordBatch.from_arrays(
        [numbers, numbers, *(pa.array(column, pa.string()) for column in columns)], names=list(COLUMNS)
    )


@settings(deadline=None)
@given(st.lists(events))
def test_by_column_is_as_one_by_one(rows: list[tuple[Any, ...]]) -> None:
    assert changes_of(batch(rows)).to_pylist() == _one_by_one(batch(rows)).to_pylist()


def test_url_encoded_rows_are_rewritten_and_changed_keys_divided() -> None:
    found = changes_of(
        batch([("I:id", "id=1", "a.b", None), ("U:id", "id=2", "a.b", "id=1"), ("R", "", "a.b", None)])
    )
    assert [(row["c2"], row["c3"], row["c5"], row["c6"]) for row in found.to_pylist()] == [
        (0, 0, "I", '{"id": "1"}'),
        (1, 0, "D", '{"id": "1"}'),
        (1, 1, "U", '{"id": "2"}'),
        (2, 0, "T", "{}"),
    ]
