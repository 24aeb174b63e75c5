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
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rowbus.database.postgresql.arrow_copy import Rows
from rowbus.errors import ConfigurationError
from rowbus.spark.captured import COLUMNS, STAGED, changes_of
from rowbus.spark.lake.files import in_pieces
from rowbus.spark.options import REQUIRED, Option, text
from rowbus.spark.pipelines import replica

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.sink.commit.batch import BatchKey, Part

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
        return Rows(STAGED, map(changes_of, in_pieces(batches)))

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
