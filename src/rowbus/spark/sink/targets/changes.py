"""`deliver=changes`: applies changes of captured tables to the tables of a replica.

The rows are events of the log source. All tables of a micro-batch change in one transaction, so readers of the replica
see the source as it was at a tick.

Invariant: changes of tables that are not in the replica are skipped; the copy of a table that is added later contains
them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# PyArrow has no annotations of its own.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from rowbus.database.postgresql.arrow_copy import Rows
from rowbus.errors import ConfigurationError
from rowbus.log.event import ALTER, TRUNCATE, UPDATE, changes_in, kind_of
from rowbus.spark.options import REQUIRED, Option, text
from rowbus.spark.pipelines import replica

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.log.event import EventKind
    from rowbus.spark.sink.commit.batch import BatchKey, Part

_compute: Any = pc  # its stubs know neither texts as scalars nor arrays of any type

COLUMNS: Final = ("ev_id", "ev_txid", "ev_type", "ev_data", "ev_extra1", "ev_extra2")
"""The columns of the log source that it reads."""

_TYPES: Final = (pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.string(), pa.string())
STAGED: Final = pa.schema([pa.field(f"c{number}", type_) for number, type_ in enumerate(_TYPES, 1)])

OPTIONS = (Option("replica", text, REQUIRED, "The replica, which `rowbus spark replicate` has copied."),)
"""The options of `deliver=changes`, beside those of every target."""


@dataclass(frozen=True)
class ChangesTarget:
    """Applies changes to a replica."""

    replica: str

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return f"replica:{self.replica}"

    def staged(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Rows:  # noqa: ARG002 - the protocol's
        """Stage the row changes of each event."""
        return Rows(STAGED, map(changes_of, batches))

    def direct(
        self,
        session: Session,  # noqa: ARG002 - the protocol's
        batches: Iterator[pa.RecordBatch],  # noqa: ARG002 - as above
        schema: pa.Schema,  # noqa: ARG002 - as above
    ) -> tuple[Query, Rows] | None:
        """Raise ConfigurationError: the last change of a row is known only for a whole batch."""
        raise ConfigurationError(
            "A replica needs exactlyOnce=staged: changes are applied by batch.", option="exactlyOnce"
        )

    def publish(self, session: Session, parts: Sequence[Part], key: BatchKey) -> frozenset[str]:
        """Apply the changes to all tables."""
        stages = [part.place for part in parts]
        session.run(replica.apply_changes(self.replica, key.query_id or None, key.batch_id, stages))
        return frozenset()

    def announce(self, session: Session, told: frozenset[str]) -> None:
        """Do nothing: no receiver waits for these rows."""


def make(options: Mapping[str, Any], columns: tuple[str, ...], *, overwrite: bool) -> ChangesTarget:
    """Return the target that the options describe; raises ConfigurationError."""
    missing = [name for name in COLUMNS if name not in columns]
    if missing or overwrite:
        raise ConfigurationError(
            f"A replica is changed by a log's events, in mode append, with the columns {', '.join(COLUMNS)}"
            + (f"; {', '.join(missing)} missing." if missing else ".")
        )
    return ChangesTarget(options["replica"])


def changes_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the row changes of events, in order; by column unless an event has to be decoded by itself."""
    types: Any = batch.column("ev_type").dictionary_encode()
    kinds = [kind_of(type_) for type_ in types.dictionary.to_pylist()]
    if any(kind is not None and _needs_decoding(kind, batch) for kind in kinds):
        return _one_by_one(batch)
    operations = _compute.take(
        pa.array([kind and kind.operation for kind in kinds], pa.string()), types.indices
    )
    has_table = _compute.not_equal(
        batch.column("ev_extra1"), ""
    )  # null for null, as where it is NULL there is none
    told = _compute.and_(_compute.is_valid(operations), has_table)
    batch, operations = batch.filter(told), operations.filter(told)
    rows = _compute.if_else(_compute.equal(operations, TRUNCATE), "{}", batch.column("ev_data"))
    parts = pa.repeat(pa.scalar(0, pa.int32()), batch.num_rows)
    columns = [
        batch.column("ev_extra1"),
        batch.column("ev_id"),
        parts,
        batch.column("ev_txid"),
        operations,
        rows,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STAGED)


def _needs_decoding(kind: EventKind, batch: pa.RecordBatch) -> bool:
    """Return whether rows must be rewritten, or an update may have changed the key, or a table its name."""
    if kind.operation == TRUNCATE:
        return False
    return (
        kind.operation == ALTER
        or not kind.is_json
        or (kind.operation == UPDATE and batch.column("ev_extra2").null_count < batch.num_rows)
    )


def _one_by_one(batch: pa.RecordBatch) -> pa.RecordBatch:
    names = ("ev_type", "ev_data", "ev_extra1", "ev_extra2")
    told = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
    ids = zip(batch.column("ev_id").to_pylist(), batch.column("ev_txid").to_pylist(), strict=True)
    rows = [
        (change.table, event, part, txid, change.operation, change.row)
        for (event, txid), facts in zip(ids, told, strict=True)
        for part, change in enumerate(changes_in(*facts))
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(STAGED)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, STAGED, strict=True)], schema=STAGED
    )
