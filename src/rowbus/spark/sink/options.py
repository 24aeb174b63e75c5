"""Options that every target takes; each target adds its own.

Invariant: these options decide the identity of a sink (`SinkId`), and so whether a batch counts as published. They must
not depend on anything that may differ when the same batch is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rowbus.errors import ConfigurationError
from rowbus.spark.options import REQUIRED, Option, choice, integer, text
from rowbus.spark.sink.commit.batch import NONE, PREPARED, STAGED, SinkId
from rowbus.spark.sink.commit.batch_commit import KEEP

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGETS = {
    "log": "rowbus.spark.sink.targets.log",
    "queue": "rowbus.spark.sink.targets.queue",
    "table": "rowbus.spark.sink.targets.table",
    "upsert": "rowbus.spark.sink.targets.upsert",
    "deadletter": "rowbus.spark.sink.targets.dead_letter",
    "changes": "rowbus.spark.sink.targets.changes",
}
"""The module of each value of `deliver`; it has `OPTIONS`, and `make` returns the `Target`."""

SINK = (
    Option("deliver", choice(*TARGETS), REQUIRED, "Where rows go."),
    Option(
        "rowSchema", text, None, "The columns of a table made in SQL, as `id bigint, total decimal(10,2)`."
    ),
    Option("dsn", text, None, "The database; without, that of ROWBUS_DATABASE, else the embedded server."),
    Option(
        "exactlyOnce",
        choice(STAGED, PREPARED, NONE),
        STAGED,
        "`staged`: rows wait in unlogged tables, and one transaction publishes the batch. `prepared`: each task "
        "leaves a prepared transaction, and these commit one by one. `none`: each task publishes at once; rows may "
        "come again.",
    ),
    Option(
        "txnAppId",
        text,
        None,
        "The sink's name in the ledger, instead of its checkpoint's. With txnVersion a batch write is idempotent.",
    ),
    Option("txnVersion", integer(0), None, "The number of this batch write among those of its txnAppId."),
    Option(
        "ledgerBatches", integer(200), KEEP, "How many batches the ledger keeps; older ones go after a week."
    ),
)
"""The options of every target."""


def stream_identity(options: Mapping[str, Any], given: Mapping[str, str]) -> SinkId:
    """Return the identity of a streaming sink. Raises ConfigurationError for the version of a batch write."""
    if options["txnVersion"] is not None:
        raise ConfigurationError(
            "Option 'txnVersion' is for batch writes; a stream's versions are the numbers of its batches.",
            option="txnVersion",
        )
    checkpoint = next((value for name, value in given.items() if name.lower() == "checkpointlocation"), None)
    return SinkId(named=options["txnAppId"], checkpoint=checkpoint)


def batch_identity(options: Mapping[str, Any], writer: str) -> SinkId:
    """Return the identity of a batch write: the one the user gave, or a random one. Raises ConfigurationError."""
    if (options["txnAppId"] is None) != (options["txnVersion"] is None):
        missing = "txnVersion" if options["txnVersion"] is None else "txnAppId"
        raise ConfigurationError(
            f"A batch write is idempotent by both txnAppId and txnVersion: {missing!r} is missing.",
            option=missing,
        )
    named = options["txnAppId"]
    if named is not None and options["exactlyOnce"] == NONE:
        raise ConfigurationError(
            "With exactlyOnce=none nothing is kept in the ledger; leave out txnAppId and txnVersion, or choose staged.",
            option="exactlyOnce",
        )
    return SinkId(run=writer) if named is None else SinkId(named=named)
