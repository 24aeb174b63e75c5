"""Keys of micro-batches and their parts, the ledger of those published, and the stages that hold rows until then.

Invariants: two runs that Spark may give the same rows have the same `BatchKey`; two that it never does have different
ones. A checkpoint that is deleted and begun again has a new query id, and therefore new keys. A batch enters the ledger
in the transaction that publishes it, or that decides its prepared transactions; only `claim_batch` adds one. A stage
and its row in the registry are created in the transaction that fills the stage, so a failed attempt leaves neither.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rowbus.database.statements import Query, Statement, affected, load, no_rows, scalar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from rowbus.database.statements import Rows

STAGED = "staged"
PREPARED = "prepared"
NONE = "none"

_RUN = "run:"
_DIGEST = 24  # hex digits: 96 bits


class BatchKey(NamedTuple):
    """One batch of one sink into one target: the key of the ledger."""

    sink_id: str
    target: str
    query_id: str
    batch_id: int


class Task(NamedTuple):
    """The attempt of a task that runs in this process; query and batch only in a stream."""

    partition: int
    attempt: int
    """A number that no other attempt of any task of this Spark application has."""

    query_id: str | None = None
    batch_id: int | None = None


class Part(NamedTuple):
    """The part of one task: `place` is its stage, or its prepared transaction; empty if it is published already."""

    guarantee: str
    partition: int
    place: str
    rows: int
    query_id: str | None
    names: tuple[str, ...] = ()
    """The columns of the stage; there they are called c1, c2, …"""

    types: tuple[str, ...] = ()
    """The types of these columns."""

    told: frozenset[str] = frozenset()
    """The receivers to notify when it is published."""


@dataclass(frozen=True, slots=True)
class SinkId:
    """The identity of a sink: a name the user gave, or the query's id, which is in its checkpoint wherever that lies.

    The checkpoint's place names a batch that no task has written, which knows no query.
    """

    named: str | None = None
    checkpoint: str | None = None
    run: str | None = None

    def key(self, target: str, query_id: str | None, batch_id: int) -> BatchKey | None:
        """Return the key of a batch; None when nothing identifies the query (of a batch without tasks)."""
        if self.named is not None:
            return BatchKey(self.named, target, "", batch_id)
        if self.run is not None:
            return BatchKey(f"{_RUN}{self.run}", target, "", batch_id)
        if query_id is None and self.checkpoint is None:
            return None
        sink = f"query:{query_id}" if query_id else f"checkpoint:{_digest(self.checkpoint or '')}"
        return BatchKey(sink, target, query_id or "", batch_id)


def new_writer() -> str:
    """Return a random name for a writer, a part of the names of its stages and prepared transactions."""
    return os.urandom(6).hex()


def stage_name(writer: str, task: Task) -> str:
    """Name the stage of one attempt; short enough for an identifier."""
    return f"stage_{writer}_{task.partition}_{task.attempt}"


def gid(key: BatchKey, writer: str, task: Task) -> str:
    """Name the prepared transaction of one attempt; at most 200 bytes."""
    return f"{batch_prefix(key)}{writer}:{task.partition}:{task.attempt}"


PREPARED_PREFIX = "rowbus-spark:"


def batch_prefix(key: BatchKey) -> str:
    """Return the common prefix of a batch's prepared transactions, in all its runs."""
    return f"{sink_prefix(key)}{key.batch_id}:"


def sink_prefix(key: BatchKey) -> str:
    """Return the common prefix of the prepared transactions of a sink's batches."""
    return f"{PREPARED_PREFIX}{_digest(key.sink_id, key.target, key.query_id)}:"


def query_id_of(parts: Iterable[Part]) -> str | None:
    """Return the query that parts belong to, as its tasks knew it."""
    return next((part.query_id for part in parts if part.query_id is not None), None)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGEST]


_FOLDER = "spark/sink/commit/sql/postgresql"


def set_durable() -> Statement[None]:
    """Make the commit of this transaction durable, and its scans begin at a table's first row."""
    return Statement(_load("set_durable"), {}, no_rows)


def claim_batch(key: BatchKey, guarantee: str, rows: int, written_by: str | None) -> Statement[bool]:
    """Write the batch into the ledger; False when it is there already. Waits for others that claim the batch."""
    parameters = {
        **key._asdict(),
        "guarantee": guarantee,
        "row_count": rows,
        "written_by": written_by or "",
    }
    return Statement(_load("claim_batch"), parameters, _any)


class BatchRecord(NamedTuple):
    """The ledger's record of a batch, and the newest one."""

    writer: str | None
    """The query that wrote the batch; empty: a batch write; None: the ledger does not have it."""

    newest: int | None
    """The number of the newest batch that is no older."""


def find_writer(key: BatchKey) -> Statement[BatchRecord]:
    """Look up who wrote the batch, and the newest one."""
    return Statement(_load("find_writer"), key._asdict(), _record)


def purge_ledger(key: BatchKey, keep: int) -> Statement[int]:
    """Delete batches of the sink that are more than `keep` older than this one, and a week old."""
    return Statement(_load("purge_ledger"), {**key._asdict(), "keep": keep}, affected)


def purge_runs(before: datetime) -> Statement[int]:
    """Delete batch writes without an identity."""
    return Statement(_load("purge_runs"), {"before": before}, affected)


def _load(operation: str) -> Query:
    return load(f"{_FOLDER}/{operation}.sql", failing="Failed to commit a batch of Spark's", prepare=False)


def _record(rows: Rows, _count: int) -> BatchRecord:
    return BatchRecord._make(rows[0])


def _any(_rows: Rows, count: int) -> bool:
    return count > 0


def set_lazy() -> Statement[None]:
    """Let the commit of this transaction not wait for the disk."""
    return Statement(_load_stage("set_lazy"), {}, no_rows)


def create_stage(name: str, types: Sequence[str], key: BatchKey) -> Statement[None]:
    """Create a stage with columns of these types, and register the batch it belongs to."""
    parameters = {"stage": name, "types": list(types), **key._asdict()}
    return Statement(_load_stage("create_stage"), parameters, no_rows)


def copy_stage(name: str) -> Query:
    """Return the COPY into a stage made in the same transaction."""
    return _load_stage("copy_stage", name)


def count_stage(name: str) -> Statement[int]:
    """Count the rows of a stage."""
    return Statement(_load_stage("count_stage", name), {}, scalar)


def drop_stages(names: Sequence[str]) -> Statement[int]:
    """Drop stages, existing or not; waits for sessions that use them."""
    return Statement(_load_stage("drop_stages"), {"stages": list(names)}, scalar)


def find_stages(key: BatchKey) -> Statement[list[str]]:
    """Return the names of a batch's stages, of all runs and attempts."""
    return Statement(_load_stage("find_stages"), key._asdict(), _first_column)


def drop_old_stages(moment: datetime) -> Statement[int]:
    """Drop the stages made before a moment, except those in use; never waits. Returns how many."""
    return Statement(_load_stage("drop_old_stages"), {"before": moment}, scalar)


def _load_stage(operation: str, stage: str | None = None) -> Query:
    identifiers = {} if stage is None else {"stage": stage}
    failing = "Failed to stage rows for Spark"
    return load(f"{_FOLDER}/{operation}.sql", identifiers=identifiers, failing=failing, prepare=False)


def _first_column(rows: Rows, _count: int) -> list[str]:
    return [row[0] for row in rows]
