"""Fixtures of the queue source's tests: a database with a queue, and Spark's readers without a JVM."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

import rowbus
from rowbus.database.postgresql.connection import Session
from rowbus.database.postgresql.database import Database
from rowbus.messages.address import QueueAddress
from rowbus.spark.queue_source import source as queue_source
from rowbus.spark.queue_source.claim_table import ClaimTable
from rowbus.spark.queue_source.receive import QueueStreamReader
from rowbus.spark.queue_source.source import QueuePeekReader
from rowbus.spark.sink.janitor import clean
from rowbus.transport.queues.installer import create_queue

ALL = ReadAllAvailable()
Offset = dict[str, Any]
Rows = list[dict[str, Any]]
T = TypeVar("T")
Reader = QueuePeekReader | QueueStreamReader


@dataclass
class Queue:
    """A queue in a database of the test's own, and the readers made of it."""

    dsn: str
    name: str = "Work"
    readers: list[QueueStreamReader] = field(default_factory=list)

    def __post_init__(self) -> None:
        asyncio.run(self._create())

    async def _create(self) -> None:
        session = await Database(self.dsn).connect()
        await create_queue(session, self.address)
        await session.close()

    @property
    def address(self) -> QueueAddress:
        return QueueAddress("public", self.name)

    @property
    def table(self) -> ClaimTable:
        return ClaimTable(self.address, "lake")

    def options(self, **given: object) -> dict[str, str]:
        return {"queue": self.name, "dsn": self.dsn} | {
            name.lower(): str(value) for name, value in given.items()
        }

    def receiver(self, **given: object) -> QueueStreamReader:
        """Make what Spark makes beside the driver."""
        options = self.options(**{"mode": "receive", "consumer": "lake", "lockTimeoutMs": 0} | given)
        reader = queue_source.stream_reader(options, spark_schema(options))
        self.readers.append(reader)
        return reader

    def peeker(self, **given: object) -> QueuePeekReader:
        options = self.options(**given)
        return queue_source.batch_reader(options, spark_schema(options))

    def send(self, *numbers: int, time_to_be_received: timedelta | None = None) -> None:
        messages = [{"number": number} for number in numbers]
        with psycopg.connect(self.dsn) as connection:
            rowbus.Client(connection).send_many(
                self.name, messages, type="Shop.Work", time_to_be_received=time_to_be_received
            )

    def ask(self, query: str, *parameters: object) -> list[Any]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(query, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def waiting(self) -> list[int]:
        """Give the numbers of the messages in the queue, in the order in which they would be received."""
        rows = self.ask(f"select convert_from(body, 'UTF8') from \"{self.name}\" order by seq")
        return [json.loads(body)["number"] for (body,) in rows]

    def claimed(self) -> list[int]:
        rows = self.ask(
            "select convert_from(body, 'UTF8') from rowbus_spark.claimed_message order by claim_id, position"
        )
        return [json.loads(body)["number"] for (body,) in rows]

    def session(self) -> AbstractContextManager[Session]:
        return Database(self.dsn).session()

    def expire_leases(self) -> None:
        """Make all leases end now, as if nobody had given a sign of life for long."""
        self.ask(
            "update rowbus_spark.claim set lease_until = now() - interval '1 second' where state = 'held'"
        )


def spark_schema(options: dict[str, str]) -> StructType:
    return queue_source.schema(options)


def read(reader: Reader, partitions: list[InputPartition] | None = None) -> Rows:
    """Read partitions as executors do: with pickled copies."""
    found: Rows = []
    if partitions is None:
        assert isinstance(reader, QueuePeekReader)
        partitions = list(reader.partitions())
    for partition in partitions:
        for batch in copied(reader).read(copied(partition)):
            found += batch.to_pylist(maps_as_pydicts="strict")
    return found


def copied(thing: T) -> T:
    """Send something to another process and back."""
    made: T = pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own
    return made


def batch(reader: QueueStreamReader, start: Offset, end: Offset) -> list[int]:
    """Read a micro-batch and give the numbers of its messages."""
    return numbers(read(reader, list(reader.partitions(start, end))))


def numbers(rows: Rows) -> list[int]:
    return numbers_of(row["body"] for row in rows)


def numbers_of(bodies: Iterable[str | bytes | None]) -> list[int]:
    return [json.loads(body or "")["number"] for body in bodies]


def expired(session: Session) -> int:
    """Put back what nobody has given a sign of life for; give how many messages that were."""
    return clean(session).returned
