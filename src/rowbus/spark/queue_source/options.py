"""The options of the queue source: `format("rowbus").option("queue", …)`.

Two columns are the table's own, so the database decides. The other two are in the headers, which are JSON: there the
database leaves out what it can be sure of, text without escapes, and whoever parses the headers decides.

Invariants: nothing is taken out of a queue unless `mode` says so; the database never leaves out a message for which the
conditions are true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rowbus.messages.timestamps import format_timestamp
from rowbus.spark.filters import MOMENT, NUMBER, TEXT, where_option
from rowbus.spark.json_rows.layout import JSON_OPTIONS, mode_option
from rowbus.spark.options import REQUIRED, Option, boolean, choice, integer, milliseconds, names, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from rowbus.spark.filters import Conditions, Kind

KINDS: Final[Mapping[str, Kind]] = {
    "message_type": TEXT,
    "time_sent": MOMENT,
    "expires": MOMENT,
    "seq": NUMBER,
}
"""The columns that conditions may be on."""

IN_HEADERS: Final = ("message_type", "time_sent")


def literals(where: Conditions) -> dict[str, object]:
    """Return the conditions as the statement that looks at messages takes them; None is no condition."""
    own = {
        f"{column}_{name}": sorted(limit) if name == "one_of" and limit is not None else limit
        for column in KINDS
        if column not in IN_HEADERS
        for name, limit in where.of(column)._asdict().items()
    }
    sent = where.of("time_sent")
    return {
        **own,
        "texts": _texts(where),
        "sent_least": _digits(sent.lowest),
        "sent_most": _digits(sent.highest),
    }


def in_headers(where: Conditions) -> tuple[str, ...]:
    """Return the columns from headers that there are conditions on."""
    return tuple(column for column in IN_HEADERS if column in where.values)


def _digits(moment: datetime | None) -> str | None:
    """Return the digits of a moment as headers have it."""
    return None if moment is None else "".join(filter(str.isdigit, format_timestamp(moment)))


def _texts(where: Conditions) -> list[str] | None:
    """Return the texts of which one is in the headers of each message with a type that is asked for."""
    types = where.of("message_type")
    if types.one_of is not None:
        return sorted(types.one_of)
    return None if types.prefix is None else [types.prefix]


COLUMNS: Final = (
    "queue",
    "id",
    "message_id",
    "message_type",
    "correlation_id",
    "time_sent",
    "expires",
    "seq",
    "headers",
    "headers_text",
    "body",
)
"""The columns of the queue source, in their order."""

QUEUE_SOURCE: Final = (
    Option(
        "queue",
        names,
        REQUIRED,
        'the queue to read, or with `mode=peek` several; `schema.table` needs quotes: `"sales"."Orders"`',
    ),
    Option(
        "mode",
        choice("peek", "receive"),
        "peek",
        "`peek` looks without taking anything (batch); `receive` takes messages as one consumer among others (stream)",
    ),
    Option("dsn", text, None, "the database; else ROWBUS_DATABASE, else the embedded server"),
    Option("readDsn", text, None, "`peek`: read from this database, say a replica"),
    Option("schema", text, "public", "the schema of queues given without one"),
    Option(
        "columns",
        names,
        COLUMNS,
        "the columns to read, in this order; headers are not parsed if none needs them",
    ),
    Option(
        "bodyAs",
        choice("string", "binary"),
        "string",
        "the type of `body`; invalid UTF-8 becomes U+FFFD in a string",
    ),
    Option(
        "rowSchema", text, None, "typed rows in SQL: the columns, as `order_id string, total decimal(10,2)`"
    ),
    where_option(KINDS, "`peek`: "),
    mode_option("parseMode"),
    *JSON_OPTIONS,
    Option("maxRecordsPerPartition", integer(), 50_000, "`receive`: a task reads at most this many messages"),
    Option(
        "maxBlocksPerPartition",
        integer(),
        8192,
        "`peek`: a task reads at most this many blocks (of 8 kB) of the table",
    ),
    Option(
        "consumer", text, None, "`receive`: the consumer's name, required; one checkpoint, one live query"
    ),
    Option(
        "maxOffsetsPerTrigger",
        integer(),
        10_000,
        "`receive`: take at most this many messages for a micro-batch",
    ),
    Option(
        "leaseMs",
        milliseconds,
        600_000,
        "`receive`: without a sign of life for so long, messages go back to the queue",
    ),
    Option(
        "failOnLeaseLoss",
        boolean,
        True,
        "`receive`: fail when messages went back to the queue; else go on without them",
    ),
    Option(
        "onAck",
        choice("delete", "archive"),
        "delete",
        "`receive`: delete what Spark has committed, or keep it in rowbus_spark.claimed_message",
    ),
    Option(
        "releaseOn",
        choice("offset", "commit"),
        "offset",
        "`receive`: when Spark asks for the next batch, or (asynchronous progress tracking) later",
    ),
    Option("pollIntervalMs", milliseconds, 300, "`receive`: look at an empty queue at most this often"),
    Option(
        "lockTimeoutMs",
        milliseconds,
        10_000,
        "`receive`: wait this long for the consumer's previous query to end",
    ),
    Option(
        "reader",
        choice("auto", "adbc", "psycopg"),
        "auto",
        "the driver that reads rows; `auto`: ADBC if installed",
    ),
)
"""The options that `spark.read` and `spark.readStream` understand for queues."""
