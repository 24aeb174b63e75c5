"""A batch reader of queues that takes nothing, error queues included: each message in a table is a row.

Invariant: nothing is locked, changed or hidden from receivers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from rowbus.database.postgresql.database import Database
from rowbus.spark.queue_source import claim_table as spark_claims
from rowbus.spark.queue_source.rows import read_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from rowbus.database.postgresql.arrow import Access
    from rowbus.messages.address import QueueAddress
    from rowbus.spark.queue_source.rows import Shape

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
        with Database(self._settings.access.dsn, application_name="rowbus spark").session() as session:
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
