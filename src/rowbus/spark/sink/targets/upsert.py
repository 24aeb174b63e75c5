"""`deliver=upsert`: merges rows into a table by key, so that the newest row of each key stays.

The newest sequence of every key, also of deleted ones, is kept beside the table (`rowbus_spark.upsert_1`, …). So a
late row neither undoes a newer one nor restores a deleted one.

Invariant: the result of a key depends on its rows, not on their order, nor on how they fell into batches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rowbus.database.postgresql.arrow_copy import Rows
from rowbus.errors import ConfigurationError, StorageError
from rowbus.spark.merge_rule import merge_rule
from rowbus.spark.options import REQUIRED, Option, names, text
from rowbus.spark.sink.targets.publication import TargetTable
from rowbus.spark.sink.targets.table import require_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.merge_rule import MergeRule
    from rowbus.spark.sink.commit.batch import BatchKey, Part

OPTIONS = (
    Option("table", text, REQUIRED, "The table, as SQL writes its name; it has a unique index on the keys."),
    Option("mergeKeys", names, REQUIRED, "The columns that say which row is meant."),
    Option(
        "sequenceBy",
        text,
        None,
        "The column by which the newest row of a key is found, such as `ev_id`. Without, a key may come only once in a "
        "batch, and the last batch wins.",
    ),
    Option(
        "deleteWhen",
        text,
        None,
        "Which rows delete: a boolean column, or `column=value` (several values: `column=D|T`).",
    ),
)
"""The options of `deliver=upsert`, beside those of every target."""

_NO_INDEX = "42P10"
_TWICE = "21000"


@dataclass(frozen=True)
class UpsertTarget:
    """Merges into a table."""

    table: str
    rule: MergeRule

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return f"upsert:{self.table}"

    def staged(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Rows:
        """Stage the columns as they are."""
        return Rows(schema, batches)

    def direct(
        self, _session: Session, _batches: Iterator[pa.RecordBatch], _schema: pa.Schema
    ) -> tuple[Query, Rows] | None:
        """Return None: COPY cannot merge."""

    def publish(self, session: Session, parts: Sequence[Part], _key: BatchKey) -> frozenset[str]:
        """Merge all stages at once: the newest row of a key may be in any of them."""
        if not parts:
            return frozenset()
        table = TargetTable(self.table)
        written = set(parts[0].names) - {self.rule.sequence, self.rule.delete}
        require_columns(session, table, sorted(written | set(self.rule.keys)))
        try:
            session.run(table.merge_stages(parts, self.rule))
        except StorageError as error:
            raise self._explained(error) from error
        return frozenset()

    def announce(self, session: Session, told: frozenset[str]) -> None:
        """Do nothing: no receiver waits for these rows."""

    def _explained(self, error: StorageError) -> Exception:
        keys = ", ".join(self.rule.keys)
        if error.sqlstate == _NO_INDEX:
            return ConfigurationError(
                f"Table {self.table} has no unique index on ({keys}), by which rows could be merged; create one.",
                option="mergeKeys",
            )
        if error.sqlstate == _TWICE:
            return ConfigurationError(
                f"{error}. Give the option sequenceBy: the column that says which row of a key is the newest.",
                option="sequenceBy",
            )
        return error


def make(options: Mapping[str, Any], columns: tuple[str, ...], *, overwrite: bool) -> UpsertTarget:
    """Return the target that the options describe; raises ConfigurationError. Mode complete merges, too."""
    del overwrite
    if options["exactlyOnce"] == "prepared":
        raise ConfigurationError(
            "deliver=upsert merges a batch in one transaction, which exactlyOnce=prepared cannot do: prepared "
            "transactions would wait for each other's rows. Leave it at staged.",
            option="exactlyOnce",
        )
    return UpsertTarget(options["table"], merge_rule(options, columns))
