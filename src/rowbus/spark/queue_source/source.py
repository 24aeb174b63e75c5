"""The queue source: `mode=peek` reads, `mode=receive` takes; `queue_source.options` has the options.

Invariant: impossible combinations of options are refused here, before anything is read or taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rowbus.database.location import resolve_dsn
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.spark.column_list import parse_columns
from rowbus.spark.json_rows.layout import lay_out
from rowbus.spark.options import parse_options
from rowbus.spark.queue_source.options import COLUMNS, QUEUE_SOURCE
from rowbus.spark.queue_source.rows import Shape

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rowbus.spark.queue_source.peek import QueuePeekReader
    from rowbus.spark.queue_source.receive import QueueStreamReader

_OF = "the queue source"


def schema(options: Mapping[str, str]) -> StructType:
    """Return the columns, all nullable."""
    given = parse_options(options, QUEUE_SOURCE, of=_OF)
    if given["rowSchema"] is not None:
        columns = parse_columns(given["rowSchema"])
        _shape_of(columns, given)
        return columns
    return _shape(given).struct()


def batch_reader(options: Mapping[str, str], schema: StructType) -> QueuePeekReader:
    """Return the reader of a batch; raises ConfigurationError with `mode=receive`."""
    from rowbus.database.postgresql.arrow import Access  # noqa: PLC0415 - as below
    from rowbus.spark.queue_source.peek import PeekSettings, QueuePeekReader  # noqa: PLC0415 - only what is asked for

    given = parse_options(options, QUEUE_SOURCE, of=_OF)
    if given["mode"] != "peek":
        raise ConfigurationError(
            "mode=receive needs spark.readStream: only a checkpoint says what has been processed. "
            "A run with trigger(availableNow=True) ends by itself.",
            option="mode",
        )
    dsn = resolve_dsn(given["readDsn"] or given["dsn"])
    access = Access(dsn, given["reader"])
    settings = PeekSettings(
        access, _addresses(given), _shape_of(schema, given), given["maxBlocksPerPartition"]
    )
    return QueuePeekReader(settings)


def check_stream(options: Mapping[str, str]) -> None:
    """Raise ConfigurationError for options that are no stream's. No I/O."""
    given = parse_options(options, QUEUE_SOURCE, of=_OF)
    _refuse_impossible_stream(given, _addresses(given))


def stream_reader(options: Mapping[str, str], schema: StructType) -> QueueStreamReader:
    """Return the reader of a stream; raises ConfigurationError without `mode=receive`, or without a consumer."""
    from rowbus.spark.queue_source.receive import QueueStreamReader, ReceiveSettings  # noqa: PLC0415 - as above

    given = parse_options(options, QUEUE_SOURCE, of=_OF)
    addresses = _addresses(given)
    _refuse_impossible_stream(given, addresses)
    settings = ReceiveSettings(
        dsn=resolve_dsn(given["dsn"]),
        address=addresses[0],
        consumer=given["consumer"],
        shape=_shape_of(schema, given),
        reader=given["reader"],
        max_per_trigger=given["maxOffsetsPerTrigger"],
        max_per_partition=given["maxRecordsPerPartition"],
        lease=timedelta(milliseconds=given["leaseMs"]),
        fail_on_lease_loss=given["failOnLeaseLoss"],
        archive=given["onAck"] == "archive",
        release_on_offset=given["releaseOn"] == "offset",
        poll_interval=given["pollIntervalMs"] / 1000,
        lock_timeout=given["lockTimeoutMs"] / 1000,
    )
    return QueueStreamReader(settings)


def _refuse_impossible_stream(given: Mapping[str, Any], addresses: tuple[QueueAddress, ...]) -> None:
    if given["mode"] != "receive":
        raise ConfigurationError(
            "A stream takes messages out of the queue; say so by mode=receive (mode=peek is for spark.read).",
            option="mode",
        )
    if given["consumer"] is None:
        raise ConfigurationError(
            "Option 'consumer' is missing: a name of this query's own, under which it takes messages.",
            option="consumer",
        )
    if given["readDsn"] is not None:
        raise ConfigurationError(
            "Messages cannot be taken from a replica: leave out 'readDsn'.", option="readDsn"
        )
    if given["where"].values:
        raise ConfigurationError(
            "A stream takes messages as they come; 'where' is for mode=peek. Filter what it has taken in Spark.",
            option="where",
        )
    if len(addresses) > 1:
        raise ConfigurationError("A stream receives from one queue; union several streams.", option="queue")


def _addresses(given: Mapping[str, Any]) -> tuple[QueueAddress, ...]:
    return tuple(QueueAddress.from_user(name, given["schema"]) for name in given["queue"])


def _shape_of(schema: StructType, given: Mapping[str, Any]) -> Shape:
    """Return the columns to read for the schema that Spark asks for; raises ConfigurationError."""
    shape = _shape(given)
    if schema.names == list(shape.columns) and not given["fromBody"]:
        return shape
    whole = shape._replace(columns=COLUMNS)
    layout = lay_out(schema, whole.types(), given, of=_OF, body="body", mode=given["parseMode"])
    return whole._replace(columns=layout.needed, layout=layout)


def _shape(given: Mapping[str, Any]) -> Shape:
    """Return the columns to read; raises ConfigurationError for unknown ones."""
    columns: tuple[str, ...] = given["columns"]
    if unknown := set(columns) - set(COLUMNS):
        raise ConfigurationError(
            f"The queue source has no column {min(unknown)!r}; there are {', '.join(COLUMNS)}.",
            option="columns",
        )
    return Shape(columns, given["bodyAs"], where=given["where"])
