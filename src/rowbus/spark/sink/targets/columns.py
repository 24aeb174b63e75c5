"""Columns of a data frame, matched by name and converted to text, in the order of a stage.

Invariant: a column that the target does not know is an error; it is never dropped.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingTypeArgument=false
# Above: pyarrow's classes are generic in types that its own functions leave unknown.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rowbus.database.postgresql.arrow_copy import as_text
from rowbus.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


def require_known(columns: Iterable[str], known: Collection[str], *, of: str) -> None:
    """Raise ConfigurationError for an unknown column; names match in any case."""
    if unknown := [name for name in columns if name.lower() not in known]:
        raise ConfigurationError(
            f"{of} takes the columns {', '.join(known)}, and not {', '.join(unknown)}; drop or rename it."
        )


def text_columns(batch: pa.RecordBatch, names: Sequence[str]) -> list[pa.Array[Any]]:
    """Return the columns of these names as text; nulls for those that the batch lacks."""
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    return [
        as_text(batch.column(places[name])) if name in places else pa.nulls(batch.num_rows, pa.string())
        for name in names
    ]


def text_schema(count: int) -> pa.Schema:
    """Return the schema of a stage with so many columns of text."""
    return pa.schema([pa.field(f"c{number}", pa.string()) for number in range(1, count + 1)])


def text_batch(columns: list[pa.Array[Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of these columns."""
    return pa.RecordBatch.from_arrays(columns, schema=schema)
