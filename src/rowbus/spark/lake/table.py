"""The protocol of a lake's table, and what Delta and Iceberg share.

Those are the record of a batch, the check of columns, and retries after conflicts. Invariant: nothing is committed to
a table with other columns.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import pyarrow as pa

from rowbus.errors import ConfigurationError
from rowbus.running.backoff import doubling
from rowbus.spark.checkpoint import refuse_older

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from rowbus.spark.lake.files import DataFile, Layout
    from rowbus.spark.merge_rule import MergeRule

TRIES = 10
PAUSE = 0.05  # seconds, doubled after each try …
LONGEST_PAUSE = 1.0  # … up to this, times a random fraction, so that two writers do not collide again


class AppTransaction(NamedTuple):
    """An application and the number of its batch; numbers only grow."""

    app: str
    number: int

    def is_in(self, place: str, newest: int | None) -> bool:
        """Return whether a table's newest batch is this one. Raises ConfigurationError if it is a later one."""
        refuse_older(place, self.number, newest)
        return newest == self.number


class Lake(Protocol):
    """A table that files can be committed to."""

    def commit(self, files: Sequence[DataFile], batch: AppTransaction | None, *, overwrite: bool) -> bool:
        """Add the files to the table, or replace its contents; False if the batch is there already."""
        ...

    def merge(self, rows: pa.Table, batch: AppTransaction | None, rule: MergeRule) -> bool:
        """Write the newest row of each key, or delete it; False if the batch is there already."""
        ...

    def referenced(self) -> set[str]:
        """Return the files that the table names, by their paths within its folder."""
        ...


@contextmanager
def own_errors(
    batches: Iterator[pa.RecordBatch], *kinds: type[Exception]
) -> Generator[Iterator[pa.RecordBatch]]:
    """Give batches for a library to read; raise an error of these kinds that ends them, not the library's own."""
    ended_by: list[Exception] = []

    def noted() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except kinds as error:
            ended_by.append(error)
            raise

    try:
        yield noted()
    except Exception:
        if ended_by:
            raise ended_by[0] from None
        raise


def retried(commit: Callable[[], bool], conflict: type[Exception]) -> bool:
    """Commit, and retry after conflicts; raises the last conflict."""
    for failures in range(1, TRIES):
        try:
            return commit()
        except conflict:
            time.sleep(random.uniform(0, doubling(failures, first=PAUSE, most=LONGEST_PAUSE)))  # noqa: S311 - no secret
    return commit()


def refuse_other_columns(layout: Layout, found: pa.Schema, partitioned: tuple[str, ...]) -> None:
    """Raise ConfigurationError unless a table has the columns, types and partitions of the layout."""
    ours, theirs = _types(layout.schema), _types(found)
    if ours != theirs:
        names = sorted(name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name))
        raise ConfigurationError(
            f"The table {layout.path} has other columns than the data frame: {_both(names[0], ours, theirs)}. "
            f"Cast the columns, or write to another table."
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
    return {name: plain_type(type_) for name, type_ in zip(schema.names, schema.types, strict=True)}


def plain_type(given: pa.DataType) -> str:
    """Return a type as text, ignoring the size of Arrow's offsets and the names of inner fields."""
    type_ = cast("Any", given)  # each kind of type has attributes of its own
    if pa.types.is_map(type_):
        return f"map<{plain_type(type_.key_type)}, {plain_type(type_.item_type)}>"
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return f"list<{plain_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return f"struct<{', '.join(f'{field.name} {plain_type(field.type)}' for field in list[Any](type_))}>"
    return str(type_).removeprefix("large_")
