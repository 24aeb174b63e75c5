"""What both kinds of lake share: a batch's name, whether the columns fit, and trying again after others' commits.

Invariant: nothing is committed to a table of other columns.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import pyarrow as pa

from rowbus.errors import ConfigurationError
from rowbus.running.backoff import doubling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rowbus.spark.lake.files import DataFile, Layout

TRIES = 10
PAUSE = 0.05  # seconds, twice as long after each try …
LONGEST_PAUSE = 1.0  # … up to this; and a random part of it, so that two do not meet again


class AppTransaction(NamedTuple):
    """Which batch of which application something is; numbers only grow."""

    app: str
    number: int


class Lake(Protocol):
    """A table that files can be committed to."""

    def commit(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        """Make the files part of the table, or its whole contents; False if the batch is there already."""
        ...

    def referenced(self) -> set[str]:
        """Give the files the table names, by their paths within its folder."""
        ...


def retried(commit: Callable[[], bool], conflict: type[Exception]) -> bool:
    """Commit, again and again while others come first; the last conflict is raised."""
    for failures in range(1, TRIES):
        try:
            return commit()
        except conflict:
            time.sleep(random.uniform(0, doubling(failures, first=PAUSE, most=LONGEST_PAUSE)))  # noqa: S311 - no secret
    return commit()


def refuse_other_columns(layout: Layout, found: pa.Schema, partitioned: tuple[str, ...]) -> None:
    """Raise ConfigurationError unless a table has the columns, types and partitions of what is to be written."""
    ours, theirs = _types(layout.schema), _types(found)
    if ours != theirs:
        names = sorted(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
        raise ConfigurationError(
            f"The table {layout.path} has other columns than what is written: {_both(names[0], ours, theirs)}. "
            f"Cast what is written, or write to another table."
        )
    if partitioned != layout.partition_by:
        raise ConfigurationError(
            f"The table {layout.path} is partitioned by {', '.join(partitioned) or 'nothing'}, not by "
            f"{', '.join(layout.partition_by) or 'nothing'}.",
            option="partitionBy",
        )


def _both(name: str, ours: dict[str, str], theirs: dict[str, str]) -> str:
    return f"{name} is {theirs.get(name, 'missing')} there and {ours.get(name, 'missing')} here"


def _types(schema: pa.Schema) -> dict[str, str]:
    """Give the columns' types, without the difference between large and small offsets and names of inner fields."""
    return {name: _plain(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}


def _plain(given: pa.DataType) -> str:
    type_ = cast("Any", given)  # each kind of type has attributes of its own
    if pa.types.is_map(type_):
        return f"map<{_plain(type_.key_type)}, {_plain(type_.item_type)}>"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"list<{_plain(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{field.name} {_plain(field.type)}' for field in list[Any](type_))}>"
    return str(type_).removeprefix("large_")
