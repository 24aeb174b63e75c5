"""The keys of changed rows are found among those of a table, whatever columns they are of."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rowbus.spark.lake.merge import RowKeys
from tests.fixtures.every import every


def places(changes: dict[str, list[object]], rows: dict[str, list[object]]) -> list[int | None]:
    found: list[int | None] = RowKeys(pa.table(changes), list(changes)).places(pa.table(rows)).to_pylist()
    return found


@every(
    "changed, there, expected",
    [
        (["b", "a"], ["a", "c", "b"], [1, None, 0]),
        ([Decimal("1.50")], [Decimal("1.50"), Decimal("2.00")], [0, None]),
        ([math.nan], [1.0, math.nan], [None, 0]),
        (["b", None], ["a", None], [None, 1]),
        ([[1, 2], [1]], [[1], [], [1, 2]], [1, None, 0]),
    ],
)
def test_a_key_of_one_column_is_found(
    changed: list[object], there: list[object], expected: list[int | None]
) -> None:
    assert places({"k": changed}, {"k": there}) == expected


def test_integers_of_other_widths_are_the_same_keys() -> None:
    keys = RowKeys(pa.table({"k": pa.array([3], pa.int32())}), ["k"])

    assert keys.places(pa.table({"k": pa.array([2, 3], pa.int64())})).to_pylist() == [None, 0]


_KEY = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c"]), st.booleans())


@given(changed=st.lists(_KEY, unique=True, min_size=1), there=st.lists(_KEY, min_size=1))
def test_a_key_of_several_columns_is_found(
    changed: list[tuple[int, str, bool]], there: list[tuple[int, str, bool]]
) -> None:
    def columns(rows: list[tuple[int, str, bool]]) -> dict[str, list[object]]:
        return {name: list(column) for name, column in zip("xyz", zip(*rows, strict=True), strict=True)}

    expected = [changed.index(key) if key in changed else None for key in there]
    assert places(columns(changed), columns(there)) == expected
