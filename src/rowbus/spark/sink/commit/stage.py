"""Stages: unlogged tables that hold a task's rows until the batch is committed.

Invariant: a stage and its row in the registry are created in the transaction that fills the stage, so a failed attempt
leaves neither.
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
    """Let the commit of this transaction not wait for the disk."""
    return Statement(_load("set_lazy"), {}, no_rows)


def create_stage(name: str, types: Sequence[str], key: BatchKey) -> Statement[None]:
    """Create a stage with columns of these types, and register the batch it belongs to."""
    parameters = {"stage": name, "types": list(types), **key._asdict()}
    return Statement(_load("create_stage"), parameters, no_rows)


def copy_stage(name: str) -> Query:
    """Return the COPY into a stage made in the same transaction."""
    return _load("copy_stage", name)


def count_stage(name: str) -> Statement[int]:
    """Count the rows of a stage."""
    return Statement(_load("count_stage", name), {}, scalar)


def drop_stages(names: Sequence[str]) -> Statement[int]:
    """Drop stages, existing or not; waits for sessions that use them."""
    return Statement(_load("drop_stages"), {"stages": list(names)}, scalar)


def find_stages(key: BatchKey) -> Statement[list[str]]:
    """Return the names of a batch's stages, of all runs and attempts."""
    return Statement(_load("find_stages"), key._asdict(), _first_column)


def drop_old_stages(moment: datetime) -> Statement[int]:
    """Drop the stages made before a moment, except those in use; never waits. Returns how many."""
    return Statement(_load("drop_old_stages"), {"before": moment}, scalar)


def _load(operation: str, stage: str | None = None) -> Query:
    identifiers = {} if stage is None else {"stage": stage}
    failing = "Failed to stage rows for Spark"
    return load(f"{_FOLDER}/{operation}.sql", identifiers=identifiers, failing=failing, prepare=False)


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]
