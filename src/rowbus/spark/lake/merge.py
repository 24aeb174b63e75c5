"""What a micro-batch changes in a table: of each key its newest row, written or deleted.

Invariant: the result depends on the rows of a batch, not on their order nor on the tasks that wrote them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from rowbus.spark.merge_rule import MergeRule

DELETED: Final = "rowbus deleted"
"""The column of a batch that says whether a row deletes; not in the table."""

_PLACE: Final = "rowbus place"

_compute: Any = pc  # its stubs lack many functions


def newest(rows: pa.Table, rule: MergeRule) -> pa.Table:
    """Return the newest row of each key, with the column `DELETED` and without that of the rule's deletion.

    Raises ConfigurationError for a key that is NULL, or that comes twice where nothing says which row is newer.
    """
    for name in rule.keys:
        if rows.column(name).null_count:
            raise ConfigurationError(f"A row has no key: its {name} is NULL.", option="mergeKeys")
    given: Any = rows
    ordered = given.sort_by([(rule.sequence, "descending")]) if rule.sequence else given
    places = pa.array(range(rows.num_rows), pa.int64())
    keyed = ordered.select(list(rule.keys)).append_column(_PLACE, places)
    first = keyed.group_by(list(rule.keys), use_threads=False).aggregate([(_PLACE, "min")])
    if rule.sequence is None and first.num_rows < rows.num_rows:
        raise ConfigurationError(
            f"A batch has several rows with the same {', '.join(rule.keys)}. Give the option sequenceBy: the column "
            "that says which of them is the newest.",
            option="sequenceBy",
        )
    return _with_deletions(ordered.take(first.column(f"{_PLACE}_min")), rule)


def _with_deletions(rows: Any, rule: MergeRule) -> pa.Table:  # noqa: ANN401 - a table, whose stubs are partial
    """Say of each row whether it deletes."""
    if rule.delete is None:
        deleted: Any = pa.repeat(pa.scalar(False), rows.num_rows)  # noqa: FBT003 - a value of the column
    elif rule.delete_values is None:
        deleted = _compute.fill_null(rows.column(rule.delete).cast(pa.bool_()), False)  # noqa: FBT003 - as above
    else:
        texts = rows.column(rule.delete).cast(pa.string())
        deleted = _compute.is_in(texts, pa.array(list(rule.delete_values), pa.string()))
    kept = [name for name in rows.schema.names if name != rule.delete]
    table: pa.Table = rows.select(kept).append_column(DELETED, deleted)
    return table
