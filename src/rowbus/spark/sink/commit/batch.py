"""Keys of micro-batches, and the parts that their tasks make.

Invariant: two runs that Spark may give the same rows have the same `BatchKey`; two that it never does have different
ones. A checkpoint that is deleted and begun again has a new query id, and therefore new keys.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from rowbus.messages.uuids import new_message_id

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    """The identity of a sink: a name the user gave, its checkpoint, or the query's id alone."""

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
        sink = f"query:{query_id}" if self.checkpoint is None else f"checkpoint:{_digest(self.checkpoint)}"
        return BatchKey(sink, target, query_id or "", batch_id)


def new_writer() -> str:
    """Return a random name for a writer, a part of the names of its stages and prepared transactions."""
    return _digest(new_message_id())[:12]


def stage_name(writer: str, task: Task) -> str:
    """Name the stage of one attempt; short enough for an identifier."""
    return f"stage_{writer}_{task.partition}_{task.attempt}"


def gid(key: BatchKey, writer: str, task: Task) -> str:
    """Name the prepared transaction of one attempt; at most 200 bytes."""
    return f"{batch_prefix(key)}{writer}:{task.partition}:{task.attempt}"


PREPARED_PREFIX = "rowbus-spark:"


def batch_prefix(key: BatchKey) -> str:
    """Return the common prefix of a batch's prepared transactions, in all its runs."""
    return f"{PREPARED_PREFIX}{_digest(key.sink_id, key.target, key.query_id)}:{key.batch_id}:"


def query_id_of(parts: Iterable[Part]) -> str | None:
    """Return the query that parts belong to, as its tasks knew it."""
    return next((part.query_id for part in parts if part.query_id is not None), None)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:_DIGEST]
