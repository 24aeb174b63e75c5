"""Stages: the unlogged tables in which a task's rows wait for their batch to be committed.

Invariant: a stage and its row in the registry come into being in the transaction that fills it, so that an attempt that
fails leaves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowbus.database.statements import Query, Statement, load, no_rows, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rowbus.database.statements import Rows
    from rowbus.spark.sink.commit.batch import BatchKey

_FOLDER = "spark/sink/commit/sql/postgresql"


def set_lazy() -> Statement[None]:
    """Have this transaction's commit not wait for the disk."""
    return Statement(_load("set_lazy"), {}, no_rows)


def create_stage(name: str, types: Sequence[str], key: BatchKey) -> Statement[None]:
    """Create a stage with columns of these types, and note whose it is."""
    parameters = {"stage": name, "types": list(types), **key._asdict()}
    return Statement(_load("create_stage"), parameters, no_rows)


def copy_stage(name: str) -> Query:
    """Return the COPY into a stage made in the same transaction."""
    return _load("copy_stage", name)


def count_stage(name: str) -> Statement[int]:
    """Count the rows of a stage."""
    return Statement(_load("count_stage", name), {}, scalar)


def drop_stages(names: Sequence[str]) -> Statement[int]:
    """Drop stages, whether they are there or not; waits for whoever uses them."""
    return Statement(_load("drop_stages"), {"stages": list(names)}, scalar)


def find_stages(key: BatchKey) -> Statement[list[str]]:
    """Name the stages of a batch, whichever run or attempt made them."""
    return Statement(_load("find_stages"), key._asdict(), _first_column)


def drop_old_stages(moment: datetime) -> Statement[int]:
    """Drop the stages made before a moment, except those in use, and say how many; waits for nobody."""
    return Statement(_load("drop_old_stages"), {"before": moment}, scalar)


def _load(operation: str, stage: str | None = None) -> Query:
    identifiers = {} if stage is None else {"stage": stage}
    failing = "Failed to stage rows for Spark"
    return load(f"{_FOLDER}/{operation}.sql", identifiers=identifiers, failing=failing, prepare=False)


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]
