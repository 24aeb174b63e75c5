"""The progress of the query that keeps a lake, kept beside tables in an object store: Spark's checkpoint is a folder.

Spark writes `metadata` once, `offsets/N` before it runs batch N, and `commits/N` when batch N is done. What a query
needs to go on is in one object, so a run may begin on any machine, in an empty folder.

Invariants: a batch's ends are kept before a table has the batch; a query that began at an older batch than what is kept
changes no table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from rowbus.spark.lake.tables.folder import StateFiles

QUERY: Final = "query.json"
_DONE: Final = 'v1\n{"nextBatchWatermarkMs":0}'


class QueryRecord(NamedTuple):
    """A query, by the file that has its id, and how far it is."""

    metadata: str
    batch: int
    offsets: dict[str, str]
    """Where the batch and the one before it end, by their numbers: files of the checkpoint."""

    done: bool = False
    """Whether all tables have the batch."""

    def follows(self, kept: QueryRecord | None) -> bool:
        """Return whether nothing is lost if this replaces what is kept: the same query, as far or further."""
        if kept is None:
            return True
        common = self.offsets.keys() & kept.offsets.keys()
        same = all(self.offsets[number] == kept.offsets[number] for number in common)
        return self.metadata == kept.metadata and self.batch >= kept.batch and bool(common) and same


def read_checkpoint(checkpoint: Path, batch: int) -> QueryRecord:
    """Read what a checkpoint says of a batch that runs."""
    files = (checkpoint / "offsets" / str(number) for number in (batch - 1, batch))
    offsets = {file.name: file.read_text() for file in files if file.exists()}
    return QueryRecord((checkpoint / "metadata").read_text(), batch, offsets)


def write_checkpoint(record: QueryRecord, checkpoint: Path) -> None:
    """Write a checkpoint from which Spark goes on: with the batch if it is not done, else after it."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True)
    (checkpoint / "metadata").write_text(record.metadata)
    for number, ends in record.offsets.items():
        (checkpoint / "offsets" / number).write_text(ends)
        if int(number) < record.batch or record.done:
            (checkpoint / "commits" / number).write_text(_DONE)


def kept_record(state: StateFiles) -> QueryRecord | None:
    """Return what is kept; None before the first batch."""
    found = state.read(QUERY)
    return found and QueryRecord(**found)


def keep(state: StateFiles, record: QueryRecord) -> None:
    """Keep how far a query is; raises StorageError, with nothing done, if another run went on since it began."""
    kept = kept_record(state)
    if not record.follows(kept):
        raise StorageError(
            f"This run is at batch {record.batch} of the lake's query, and another run went on meanwhile. Nothing was "
            "written; run it again, which goes on from there.",
            sqlstate=None,
            transient=True,
        )
    state.write(QUERY, record._asdict())


def put_aside(state: StateFiles) -> str:
    """Put aside what is kept, so that the next run begins a new query; return the file that has it."""
    found = state.read(QUERY)
    name = f"query.until-batch-{found['batch']}.json"
    state.write(name, found)
    state.remove(QUERY)
    return name
