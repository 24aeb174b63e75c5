"""Rules that hold of a table of versions, whatever was done to the table."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from rowbus.spark.lake.tables.history.columns import ORIGIN
from tests.spark.lake.following import Following

LAST = datetime.max.replace(tzinfo=UTC)
ENDED = {"DELETE", "TRUNCATE", "COPY"}


def versions(lake: Following, table: str) -> list[dict[str, Any]]:
    """Give the versions of a table, by their begin."""
    found: Any = lake.delta(f"{table}_history").to_pyarrow_table()
    return sorted(found.to_pylist(), key=lambda it: (it["valid_from"], it["event_id"] or 0, repr(it)))


def current(lake: Following, table: str) -> list[dict[str, Any]]:
    """Give what the current versions say, in the table's columns."""
    columns = list(lake.delta(table).to_pyarrow_table().schema.names)
    return [{name: it[name] for name in columns} for it in versions(lake, table) if it["valid_to"] is None]


def at(found: list[dict[str, Any]], moment: datetime, *columns: str) -> list[tuple[Any, ...]]:
    """Give the rows at a moment, of some columns."""
    there = [
        it
        for it in found
        if it["valid_from"] <= moment and (it["valid_to"] is None or it["valid_to"] > moment)
    ]
    return sorted((tuple(it[name] for name in columns) for it in there), key=repr)


def check(lake: Following, table: str, key: str) -> None:
    """Check that the current versions are the table, and that versions of a key follow one another."""
    rows: Any = lake.delta(table).to_pyarrow_table()
    assert sorted(current(lake, table), key=repr) == sorted(rows.to_pylist(), key=repr)
    by_key = defaultdict[object, list[dict[str, Any]]](list)
    for version in versions(lake, table):
        by_key[version[key]].append(version)
    for of_key in by_key.values():
        check_sequence(of_key)


def check_sequence(of_key: list[dict[str, Any]]) -> None:
    """Check that versions neither overlap nor leave a gap that nothing ended."""
    ordered = sorted(
        of_key,
        key=lambda it: (
            it["valid_from"],
            it["valid_to"] or datetime.max.replace(tzinfo=it["valid_from"].tzinfo),
        ),
    )
    for version in ordered:
        assert version["valid_to"] is None or version["valid_to"] >= version["valid_from"], version
        assert (version["valid_to"] is None) == (version["end_operation"] is None), version
    for earlier, later in pairwise(ordered):
        assert earlier["valid_to"] is not None, (earlier, later)
        assert earlier["valid_to"] <= later["valid_from"], (earlier, later)
        assert earlier["valid_to"] == later["valid_from"] or earlier["end_operation"] in ENDED, (
            earlier,
            later,
        )


def told(lake: Following, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Give versions without their times: the columns, what began them, and what ended them."""
    assert set(columns).isdisjoint(ORIGIN.names)
    return [
        (*(it[name] for name in columns), it["operation"], it["end_operation"])
        for it in versions(lake, table)
    ]
