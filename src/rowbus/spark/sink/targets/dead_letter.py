"""`deliver=deadletter`: writes rows as dead letters of a consumer.

`rowbus log dead-letters` shows and replays them. Invariant: nothing is written unless the consumer is registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from rowbus.database.postgresql.arrow_copy import Rows
from rowbus.errors import ConfigurationError, ConsumerNotFoundError
from rowbus.spark.options import REQUIRED, Option, text
from rowbus.spark.sink.targets import publication
from rowbus.spark.sink.targets.publication import require_known, text_batch, text_columns, text_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from rowbus.database.postgresql.connection import Session
    from rowbus.database.statements import Query
    from rowbus.spark.sink.commit.batch import BatchKey, Part

_EXTRAS: Final = ("ev_extra1", "ev_extra2", "ev_extra3", "ev_extra4")
_STAGED: Final = ("reason", "ev_id", "ev_time", "ev_txid", "ev_retry", "ev_type", "ev_data", *_EXTRAS)
_KNOWN: Final = (*_STAGED, "log", "tick_id")

OPTIONS = (
    Option("log", text, REQUIRED, "The log whose events these were."),
    Option("consumer", text, REQUIRED, "The consumer, registered with the log, that gives up on them."),
)
"""The options of `deliver=deadletter`, beside those of every target."""


@dataclass(frozen=True)
class DeadLetterTarget:
    """Writes dead letters of one consumer."""

    log: str
    consumer: str

    @property
    def name(self) -> str:
        """The target's name in the ledger."""
        return f"deadletter:{self.log}/{self.consumer}"

    def staged(self, batches: Iterator[pa.RecordBatch], _schema: pa.Schema) -> Rows:
        """Stage the reason and the event's fields, as text."""
        shaped = text_schema(len(_STAGED))
        return Rows(shaped, (text_batch(text_columns(batch, _STAGED), shaped) for batch in batches))

    def direct(
        self, _session: Session, _batches: Iterator[pa.RecordBatch], _schema: pa.Schema
    ) -> tuple[Query, Rows] | None:
        """Return None: the statement replaces the consumer's name by its number."""

    def publish(self, session: Session, parts: Sequence[Part], _key: BatchKey) -> frozenset[str]:
        """Write the dead letters. Raises ConsumerNotFoundError."""
        for part in parts:
            if not session.run(publication.dead_letter_stage(self.log, self.consumer, part.place)):
                raise ConsumerNotFoundError(
                    f"There is no consumer {self.consumer!r} of log {self.log!r}; register it first.",
                    log=self.log,
                    consumer=self.consumer,
                )
        return frozenset()

    def announce(self, session: Session, told: frozenset[str]) -> None:
        """Do nothing: no receiver waits for these rows."""


def make(options: Mapping[str, Any], columns: tuple[str, ...], *, overwrite: bool) -> DeadLetterTarget:
    """Return the target that the options describe; raises ConfigurationError."""
    if overwrite:
        raise ConfigurationError("Dead letters are added: use mode append (a stream's output mode: append).")
    require_known(columns, _KNOWN, of="deliver=deadletter")
    return DeadLetterTarget(options["log"], options["consumer"])
