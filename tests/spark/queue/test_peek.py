"""mode=peek: every message of a queue's table as a row, whatever is in it, and nothing is taken or locked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from rowbus.errors import ConfigurationError, QueueNotFoundError
from rowbus.spark.queue_source import source as queue_source
from tests.fixtures.every import every
from tests.spark.queue.queues import Queue, numbers, read, spark_schema

HEADERS = (
    '{"NServiceBus.MessageId":"m1","NServiceBus.EnclosedMessageTypes":"Shop.Placed, Shop, Version=1.0;Shop.Event",'
    '"NServiceBus.CorrelationId":"c1","NServiceBus.TimeSent":"2026-11-21 07:00:00:123456 Z","none":null}'
)


def put(queue: Queue, headers: str, body: bytes | None = b"", expires: datetime | None = None) -> None:
    queue.ask(
        'insert into "Work" (id, headers, body, expires) values (gen_random_uuid(), %s, %s, %s)',
        headers,
        body,
        expires,
    )


def test_a_message_is_a_row_with_what_its_headers_say(queue: Queue) -> None:
    put(queue, HEADERS, b'{"number": 1}', datetime(2026, 11, 22, 7, 0))  # noqa: DTZ001 - as the column holds it

    (row,) = read(queue.peeker())

    ((row_id, seq),) = queue.ask('select id::text, seq from "Work"')
    assert row == {
        "queue": queue.address.canonical,
        "id": row_id,
        "message_id": "m1",
        "message_type": "Shop.Placed",
        "correlation_id": "c1",
        "time_sent": datetime(2026, 11, 21, 7, 0, 0, 123456, UTC),
        "expires": datetime(2026, 11, 22, 7, 0, tzinfo=UTC),
        "seq": seq,
        "headers": {
            "NServiceBus.MessageId": "m1",
            "NServiceBus.EnclosedMessageTypes": "Shop.Placed, Shop, Version=1.0;Shop.Event",
            "NServiceBus.CorrelationId": "c1",
            "NServiceBus.TimeSent": "2026-11-21 07:00:00:123456 Z",
            "none": None,
        },
        "headers_text": HEADERS,
        "body": '{"number": 1}',
    }


@pytest.mark.parametrize("headers", ["", "{", "[]", '{"a":1}', '{"a":"b"', "not json"])
def test_headers_nobody_can_read_are_rows_too_with_their_text(queue: Queue, headers: str) -> None:
    put(queue, headers, b"body")

    (row,) = read(queue.peeker())

    assert (row["headers_text"], row["body"], row["message_type"], row["time_sent"]) == (
        headers,
        "body",
        None,
        None,
    )
    assert row["headers"] == ({} if not headers else None)


def test_values_that_are_not_what_their_names_promise_are_null(queue: Queue) -> None:
    put(queue, '{"NServiceBus.TimeSent":"yesterday","NServiceBus.EnclosedMessageTypes":null}', None)

    (row,) = read(queue.peeker())

    assert (row["time_sent"], row["message_type"], row["body"]) == (None, None, None)


def test_bodies_are_text_or_exactly_their_bytes(queue: Queue) -> None:
    put(queue, "{}", b"caf\xc3\xa9 \xff\x00")

    assert [row["body"] for row in read(queue.peeker())] == ["café �\x00"]
    assert [row["body"] for row in read(queue.peeker(bodyAs="binary"))] == [b"caf\xc3\xa9 \xff\x00"]


def test_looking_takes_nothing_waits_for_nobody_and_sees_what_is_in_somebodys_hands(queue: Queue) -> None:
    queue.send(1, 2)
    with psycopg.connect(queue.dsn) as receiver:
        receiver.execute('delete from "Work" where seq = (select min(seq) from "Work")')

        assert sorted(numbers(read(queue.peeker()))) == [1, 2]

    assert queue.waiting() == [2]


def test_tasks_share_a_big_queue_and_each_message_is_in_exactly_one(queue: Queue) -> None:
    queue.send(*range(3000))
    queue.ask('delete from "Work" where seq % 3 = 0')
    reader = queue.peeker(maxBlocksPerPartition=7)

    assert len(reader.partitions()) > 10
    assert sorted(numbers(read(reader))) == sorted(queue.waiting())


def test_what_was_added_after_the_planning_is_seen_by_the_last_task(queue: Queue) -> None:
    reader = queue.peeker(maxBlocksPerPartition=1)
    partitions = list(reader.partitions())
    queue.send(*range(500))

    assert len(read(reader, partitions)) == 500


def test_several_queues_are_one_table(queue: Queue) -> None:
    error = Queue(queue.dsn, "error")
    queue.send(1)
    error.send(2)

    rows = read(queue.peeker(queue="Work, error"))

    assert sorted((row["queue"], row["body"]) for row in rows) == [
        (queue.address.canonical, '{"number":1}'),
        (error.address.canonical, '{"number":2}'),
    ]


def test_columns_are_picked_in_the_order_asked_for(queue: Queue) -> None:
    queue.send(1)
    (row,) = read(queue.peeker(columns="body, seq"))

    assert list(row.items()) == [("body", '{"number":1}'), ("seq", row["seq"])]


def test_batches_have_exactly_the_schema_spark_compares_them_with(queue: Queue) -> None:
    queue.send(1)
    reader = queue.peeker()
    (found,) = [batch for part in reader.partitions() for batch in reader.read(part)]

    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - slow to import

    assert found.schema.equals(to_arrow_schema(spark_schema(queue.options()), timezone="UTC"))
    assert found.schema.field("time_sent").type == pa.timestamp("us", tz="UTC")
    assert all(field.nullable for field in found.schema)


def test_an_expired_message_is_still_seen(queue: Queue) -> None:
    queue.send(1, time_to_be_received=timedelta(microseconds=1))

    assert numbers(read(queue.peeker())) == [1]


@pytest.mark.one_version
@every(
    "given, words",
    [
        ({"mode": "receive"}, "readStream"),
        ({"columns": "boddy"}, "no column 'boddy'"),
        ({"queue": "a.b"}, "dot is ambiguous"),
        ({"maxBlocks": "3"}, "maxBlocksPerPartition"),
    ],
)
def test_what_cannot_work_is_refused_with_the_way_out(
    queue: Queue, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        queue.peeker(**given)


def test_a_queue_that_is_not_there_is_said_to_be_missing(queue: Queue) -> None:
    with pytest.raises(QueueNotFoundError, match="Nothere"):
        queue.peeker(queue="Nothere").partitions()


@pytest.mark.one_version
def test_a_stream_must_say_that_it_takes_messages(queue: Queue) -> None:
    options = queue.options(consumer="lake")

    with pytest.raises(ConfigurationError, match="mode=receive"):
        queue_source.stream_reader(options, spark_schema(options))


@pytest.mark.parametrize("driver", ["adbc", "psycopg"])
def test_every_driver_gives_the_same_rows(queue: Queue, driver: str) -> None:
    put(queue, HEADERS, b"\x00", datetime(2026, 11, 22, 7, 0))  # noqa: DTZ001 - as the column holds it
    put(queue, "{", None)
    with psycopg.connect(queue.dsn, autocommit=True) as connection:
        connection.execute(f"alter database {connection.info.dbname} set timezone to 'Asia/Tokyo'")

    rows = read(queue.peeker(reader=driver, bodyAs="binary"))

    assert [(row["expires"], row["body"], row["headers_text"]) for row in rows] == [
        (datetime(2026, 11, 22, 7, 0, tzinfo=UTC), b"\x00", HEADERS),
        (None, None, "{"),
    ]
