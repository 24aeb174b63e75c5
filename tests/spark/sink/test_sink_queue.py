"""Rows into queues and among dead letters."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from rowbus.errors import ConfigurationError, ConsumerNotFoundError, QueueNotFoundError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header, decode_headers
from rowbus.transport.composition import identity_of
from rowbus.transport.queues.postgresql import QueueTable
from tests.spark.sink.conftest import Writing, rows

GUARANTEES = ("staged", "prepared", "none")


@pytest.fixture
def queues(pgq: psycopg.Connection, writing: Writing) -> None:
    for name in ("Sales", "Billing"):
        for statement in QueueTable(QueueAddress("public", name)).create():
            pgq.execute(statement.query.native)


def messages(connection: psycopg.Connection, queue: str = "Sales") -> list[tuple[dict[str, Any], Any]]:
    found = connection.execute(f'select headers, body from "{queue}" order by seq').fetchall()
    return [(decode_headers(headers), body) for headers, body in found]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.usefixtures("queues")
def test_rows_become_messages_as_a_client_writes_them(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    batch = rows(body=['{"n": 1}', '{"n": 2}'])
    writing.batch(0, batch, deliver="queue", queue="Sales", messageType="Shop.Counted", exactlyOnce=guarantee)
    (first, body), (second, _) = messages(pgq)
    assert body == b'{"n": 1}'
    assert first[Header.ENCLOSED_MESSAGE_TYPES] == "Shop.Counted"
    assert first[Header.CONTENT_TYPE] == "application/json"
    assert first[Header.MESSAGE_ID] == first[Header.CORRELATION_ID] == first[Header.CONVERSATION_ID]
    assert first[Header.MESSAGE_ID] != second[Header.MESSAGE_ID]
    assert {Header.TIME_SENT, Header.MESSAGE_INTENT, Header.VERSION} <= first.keys()


SENDER = {"endpoint": "Importer", "machine": "machine-9", "hostId": "0696488b-a526-b5ea-d0a4-fd9bb712ddbd"}


@pytest.mark.usefixtures("queues")
def test_messages_say_who_sends_them(writing: Writing, pgq: psycopg.Connection) -> None:
    options = {"deliver": "queue", "queue": "Sales", "messageType": "T"}
    batch = rows(body=["1", "2"], headers=[None, f'{{"{Header.ORIGINATING_ENDPOINT}": "Own"}}'])
    writing.batch(0, batch, **options, **SENDER)
    writing.batch(1, rows(body=["3"]), **options)
    (given, own, default) = [
        [headers[name] for name in identity_of().originating_headers()] for headers, _ in messages(pgq)
    ]

    assert given == ["Importer", "machine-9", "0696488ba526b5ead0a4fd9bb712ddbd"]
    assert own == ["Own", *given[1:]]
    assert default == list(identity_of().originating_headers().values())
    with pytest.raises(ConfigurationError, match="UUID"):
        writing.batch(2, rows(body=["3"]), **options, hostId="nonsense")


@pytest.mark.usefixtures("queues")
def test_a_row_may_say_what_the_message_is(writing: Writing, pgq: psycopg.Connection) -> None:
    batch = rows(
        body=[b"\x00", b"\x01", None],
        message_type=["A", None, "C"],
        id=['the "id"', None, None],
        correlation_id=[None, "corr", None],
        headers=['{"x": "1"}', None, '{"NServiceBus.CorrelationId": "own"}'],
    )
    writing.batch(0, batch, deliver="queue", queue="Sales", messageType="Default")
    (one, body), (two, _), (three, nothing) = messages(pgq)
    assert (one["x"], one[Header.MESSAGE_ID], body) == ("1", 'the "id"', b"\x00")
    assert one[Header.CONTENT_TYPE] == "application/octet-stream"
    assert (two[Header.CORRELATION_ID], two[Header.ENCLOSED_MESSAGE_TYPES]) == ("corr", "Default")
    assert (three[Header.CORRELATION_ID], nothing) == ("own", None)


@pytest.mark.usefixtures("queues")
def test_an_id_without_headers_of_its_own_is_written_safely(
    writing: Writing, pgq: psycopg.Connection
) -> None:
    writing.batch(0, rows(body=["x"], id=['a"b\\']), deliver="queue", queue="Sales", messageType="T")
    assert messages(pgq)[0][0][Header.MESSAGE_ID] == 'a"b\\'


@pytest.mark.usefixtures("queues")
def test_a_message_that_was_one_keeps_its_headers(writing: Writing, pgq: psycopg.Connection) -> None:
    headers = {Header.MESSAGE_ID: "m", Header.TIME_SENT: "nonsense", "other": "x"}
    writing.batch(0, rows(body=["x"], headers=[json.dumps(headers)]), deliver="queue", queue="Sales")
    assert messages(pgq) == [(headers, b"x")]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.usefixtures("queues")
def test_a_column_may_say_which_queue(writing: Writing, pgq: psycopg.Connection, guarantee: str) -> None:
    batch = rows(body=["1", "2", "3"], destination=["Sales", "Billing", '"public"."Sales"'])
    writing.batch(0, batch, deliver="queue", messageType="T", exactlyOnce=guarantee)
    assert [body for _, body in messages(pgq)] == [b"1", b"3"]
    assert [body for _, body in messages(pgq, "Billing")] == [b"2"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.usefixtures("queues")
def test_receivers_are_woken_when_the_batch_is_committed(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    pgq.execute(f"listen {QueueAddress('public', 'Sales').channel}")
    writing.batch(0, rows(body=["1"]), deliver="queue", queue="Sales", messageType="T", exactlyOnce=guarantee)
    assert list(pgq.notifies(timeout=5, stop_after=1))


@pytest.mark.usefixtures("queues")
def test_messages_may_expire(writing: Writing, pgq: psycopg.Connection) -> None:
    options = {"deliver": "queue", "queue": "Sales", "messageType": "T", "timeToBeReceived": "1h"}
    for number, guarantee in enumerate(GUARANTEES):
        writing.batch(number, rows(body=["1"]), **options, exactlyOnce=guarantee)
    query = "select expires - now() at time zone 'UTC' between '59 min' and '1 hour' from \"Sales\""
    assert pgq.execute(query).fetchall() == [(True,)] * 3
    assert messages(pgq)[0][0][Header.TIME_TO_BE_RECEIVED] == "01:00:00"


@pytest.mark.one_version
@pytest.mark.usefixtures("queues")
def test_what_cannot_be_sent_is_refused(writing: Writing, pgq: psycopg.Connection) -> None:
    with pytest.raises(ConfigurationError, match="messageType"):
        writing.batch(0, rows(body=["1"]), deliver="queue", queue="Sales")
    with pytest.raises(ConfigurationError, match="destination"):
        writing.batch(0, rows(body=["1"]), deliver="queue")
    with pytest.raises(ConfigurationError, match="NULL in column destination"):
        writing.batch(0, rows(body=["1"], destination=[None]), deliver="queue", messageType="T")
    with pytest.raises(ConfigurationError, match="not other"):
        writing.batch(0, rows(body=["1"], other=["x"]), deliver="queue", queue="Sales")
    with pytest.raises(QueueNotFoundError):
        writing.batch(0, rows(body=["1"]), deliver="queue", queue="Nowhere", messageType="T")


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_dead_letters_are_those_of_the_consumer(
    writing: Writing, pgq: psycopg.Connection, guarantee: str
) -> None:
    pgq.execute("select pgq.register_consumer('orders', 'billing')")
    batch = rows(ev_id=[7, None], ev_data=["bad", "worse"], reason=["it is bad", None], tick_id=[1, 1])
    options = {"deliver": "deadletter", "log": "orders", "consumer": "billing"}
    writing.batch(0, batch, **options, exactlyOnce=guarantee)
    found = pgq.execute(
        "select dl_reason, ev_id, ev_data, ev_time is not null from pgq.dead_letter order by dl_id"
    )
    assert found.fetchall() == [
        ("it is bad", 7, "bad", True),
        ("a row that Spark could not use", 0, "worse", True),
    ]


def test_dead_letters_of_nobody_are_refused(writing: Writing) -> None:
    with pytest.raises(ConsumerNotFoundError):
        writing.batch(0, rows(ev_data=["x"]), deliver="deadletter", log="orders", consumer="nobody")
