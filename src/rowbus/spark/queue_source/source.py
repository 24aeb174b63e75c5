"""The queue source: `mode=peek` reads, `mode=receive` takes; `queue_source.options` has the options.

Invariants: impossible combinations of options are refused here, before anything is read or taken; `mode=peek` locks,
changes and hides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rowbus.database.location import resolve_dsn
from rowbus.database.postgresql.database import Database
from rowbus.errors import ConfigurationError
from rowbus.messages.address import QueueAddress
from rowbus.spark.column_list import parse_columns
from rowbus.spark.datasource import one_sentence
from rowbus.spark.json_rows.layout import lay_out
from rowbus.spark.options import parse_options
from rowbus.spark.queue_source import claim_table as spark_claims
from rowbus.spark.queue_source.options import COLUMNS, QUEUE_SOURCE
from rowbus.spark.queue_source.rows import Shape, read_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from rowbus.database.postgresql.arrow import Access
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


NO_END: Final = 2**32 - 2  # beyond any table's last block


@dataclass(frozen=True, slots=True)
class PeekSettings:
    """The options, with names resolved."""

    access: Access
    addresses: tuple[QueueAddress, ...]
    shape: Shape
    max_blocks: int


@dataclass
class Blocks(InputPartition):
    """Some blocks of a queue's table."""

    address: QueueAddress
    first: int
    end: int


class QueuePeekReader(DataSourceReader):
    """Reads each queue by ranges of blocks; each range is one statement, so one snapshot."""

    def __init__(self, settings: PeekSettings) -> None:
        """Take the settings. No I/O."""
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the tables, at their present size, into ranges; raises QueueNotFoundError."""
        database = Database(self._settings.access.dsn, application_name="rowbus spark")
        with one_sentence(), database.session() as session:
            return [
                part
                for address in self._settings.addresses
                for part in self._cut(address, session.run(spark_claims.count_blocks(address)))
            ]

    def _cut(self, address: QueueAddress, blocks: int) -> list[Blocks]:
        size = self._settings.max_blocks
        starts = range(0, max(blocks, 1), size)
        return [
            Blocks(
                address, start, NO_END if start == starts[-1] else start + size
            )  # the last one, with rows added later
            for start in starts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the messages in some blocks."""
        assert isinstance(partition, Blocks)  # noqa: S101 - Spark gives back what `partitions` made
        settings = self._settings
        query = spark_claims.peek(partition.address, partition.first, partition.end, settings.shape.where)
        return read_rows(settings.access, query, partition.address.canonical, settings.shape)
