"""The messages to ServiceControl: equal to those that .NET's plug-ins wrote, but for times and ids; or not sent."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from rowbus.errors import MessageSerializationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import DelayedSend, Send
from rowbus.messages.headers import Identity
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.messages.state_change import StateChange
from rowbus.messages.timestamps import format_timestamp, parse_time_span
from rowbus.platform.forms import (
    LONGEST_SPAN,
    LONGEST_TAG,
    MOST_ENTRIES,
    Measurement,
    checked,
    decoded,
    encoded,
    is_countable,
    messages_of,
    ticks_at,
)
from rowbus.platform.reports import CheckResult, Reporter, instant, json_bytes
from rowbus.running.host import Process
from tests.fixtures.dotnet_rows import scenario
from tests.fixtures.every import every
from tests.fixtures.places import GOLDEN

HOST = "0696488ba526b5ead0a4fd9bb712ddbd"
WEB = QueueAddress("public", "Shop.Web")
NOW = datetime(2026, 11, 22, 10, 50, 28, 108781, tzinfo=UTC)
TIMES = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")
# Bodies were recorded on the machine `vm`; in the headers, it was given another name afterwards.
IN_BODIES = Reporter(Identity("Shop.Web", "vm", HOST), WEB)
IN_HEADERS = Reporter(Identity("Shop.Web", "machine-1", HOST), WEB)
PROCESS = Process(29046, "root", "/srv/shop/ShopWeb.dll")
FORTY = timedelta(seconds=40)


def recorded(file: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        (GOLDEN / "servicecontrol" / f"{file}.json").read_text(encoding="utf-8")
    )
    return rows


def body_of(row: dict[str, Any]) -> bytes:
    return base64.b64decode(row["body_base64"])


def timeless(body: bytes) -> bytes:
    return TIMES.sub(b"<time>", body)


def like(row: dict[str, Any]) -> OutgoingMessage:
    """Return our message for a row of .NET's."""
    kind = row["headers"]["NServiceBus.EnclosedMessageTypes"].rpartition(".")[2]
    if kind == "RegisterEndpointStartup":
        return IN_BODIES.startup(PROCESS, NOW, FORTY)
    if kind == "EndpointHeartbeat":
        return IN_BODIES.heartbeat(NOW, FORTY)
    body = json.loads(body_of(row))
    result = CheckResult(body["CustomCheckId"], body["Category"], body["FailureReason"])
    return IN_BODIES.check_result(result, NOW, None)


@every("row", recorded("dotnet_to_servicecontrol"), ids=lambda row: row["seq"])
def test_heartbeats_and_checks_equal_dotnets_byte_for_byte_but_for_times(row: dict[str, Any]) -> None:
    ours = like(row)
    assert timeless(ours.body) == timeless(body_of(row))
    assert list(ours.headers.items()) == list(row["headers"].items())


METRICS = recorded("dotnet_to_monitoring")
METADATA = [row for row in METRICS if "NServiceBus.Metric.Type" not in row["headers"]]
MEASURED = [row for row in METRICS if "NServiceBus.Metric.Type" in row["headers"]]


@every("row", METADATA, ids=lambda row: row["seq"])
def test_metadata_equal_dotnets_byte_for_byte(row: dict[str, Any]) -> None:
    ours = IN_HEADERS.metadata()
    assert ours.body == body_of(row)
    assert list(ours.headers.items()) == list(row["headers"].items())
    assert ours.time_to_be_received == timedelta(days=7)


@every("row", MEASURED, ids=lambda row: row["seq"])
def test_measurements_equal_dotnets_byte_for_byte_but_for_the_keys_of_tags(row: dict[str, Any]) -> None:
    found, keys = decoded(body_of(row))
    assert encoded(found, keys) == body_of(row)
    (ours,) = IN_HEADERS.measurements(row["headers"]["NServiceBus.Metric.Type"], found)
    assert list(ours.headers.items()) == list(row["headers"].items())
    assert decoded(ours.body)[0] == found
    assert len(ours.body) == len(body_of(row))


SAGA_AUDITS = [
    row
    for row in scenario("saga")["rows"]
    if row["headers"].get("NServiceBus.EnclosedMessageTypes", "").endswith("SagaUpdatedMessage")
]
SALES = Reporter(Identity("Sales", "machine-1", HOST), QueueAddress("public", "Sales"))


def stamp(moment: str) -> str:
    return format_timestamp(datetime.fromisoformat(moment))


def sent_as(told: dict[str, Any]) -> Send | DelayedSend:
    """Return what a saga sent, from what .NET told of it."""
    headers = {
        "NServiceBus.MessageId": told["ResultingMessageId"],
        "NServiceBus.EnclosedMessageTypes": f"{told['MessageType']}, Shop.Messages",
        "NServiceBus.TimeSent": stamp(told["TimeSent"]),
        "NServiceBus.MessageIntent": told["Intent"],
    }
    destination = told["Destination"] or "Subscriber"
    is_canonical = destination.startswith('"')
    address = QueueAddress.parse(destination) if is_canonical else QueueAddress("public", destination)
    message = OutgoingMessage(headers, b"")
    if told["DeliveryAt"]:
        return DelayedSend(address, message, datetime.fromisoformat(told["DeliveryAt"]))
    if told["DeliveryDelay"]:
        return DelayedSend(address, message, parse_time_span(told["DeliveryDelay"]))
    return Send(address, message)


@every("row", SAGA_AUDITS, ids=lambda row: row["order"])
def test_changes_of_sagas_equal_dotnets_byte_for_byte_but_for_times(row: dict[str, Any]) -> None:
    told = json.loads(body_of(row))
    began = told["Initiator"]
    incoming: dict[str, str | None] = {
        "NServiceBus.MessageId": began["InitiatingMessageId"],
        "NServiceBus.EnclosedMessageTypes": began["MessageType"],
        "NServiceBus.TimeSent": stamp(began["TimeSent"]),
        "NServiceBus.OriginatingMachine": began["OriginatingMachine"],
        "NServiceBus.OriginatingEndpoint": began["OriginatingEndpoint"],
        "NServiceBus.MessageIntent": began["Intent"],
        "NServiceBus.IsSagaTimeoutMessage": "True" if began["IsSagaTimeoutMessage"] else None,
    }
    sends = [sent_as(one) for one in told["ResultingMessages"]]
    copies = [send for send in sends for _ in range(2 if send.destination.table == "Subscriber" else 1)]
    change = StateChange(
        told["SagaType"],
        told["SagaId"],
        told["SagaState"],
        told["IsNew"],
        told["IsCompleted"],
        NOW,
        NOW,
        tuple(copies),
    )

    ours = SALES.saga_change(change, incoming)

    # An address that was routed to by name alone stays so in .NET; ours is canonical.
    expected = body_of(row).replace(b':"Billing","Res', rb':"\u0022public\u0022.\u0022Billing\u0022","Res')
    assert timeless(ours.body) == timeless(expected)
    assert ours.headers == row["headers"]
    assert ours.time_to_be_received is None


def test_ticks_are_dotnets() -> None:
    (found, _) = decoded(body_of(MEASURED[0]))
    assert found[0].ticks == 639309414295886319
    assert ticks_at(1_795_344_629_588_631_000) == 639309414295886310


@every(
    "text, written",
    [
        ('"', b'{"A":"\\u0022"}'),
        ("é<&'+`\x7f", b'{"A":"\\u00E9\\u003C\\u0026\\u0027\\u002B\\u0060\\u007F"}'),
        ('a\\"b\n\\u00e9', b'{"A":"a\\\\\\u0022b\\n\\\\u00e9"}'),
        ("😀", b'{"A":"\\uD83D\\uDE00"}'),
    ],
)
def test_texts_are_escaped_as_dotnet_does(text: str, written: bytes) -> None:
    assert json_bytes({"A": text}) == written
    assert json.loads(written) == {"A": text}


@every(
    "moment, text",
    [
        (NOW, "2026-11-22T10:50:28.108781Z"),
        (NOW.replace(microsecond=166000), "2026-11-22T10:50:28.166Z"),
        (NOW.replace(second=20, microsecond=0), "2026-11-22T10:50:20Z"),
        (datetime.fromisoformat("2026-11-22T12:00:00+02:00"), "2026-11-22T10:00:00Z"),
    ],
)
def test_moments_end_in_a_z(moment: datetime, text: str) -> None:
    assert instant(moment) == text


def test_a_naive_moment_is_refused() -> None:
    with pytest.raises(ValueError, match="naive"):
        instant(datetime(2026, 11, 22))  # noqa: DTZ001 - the fault


def spoilt(message: OutgoingMessage, old: bytes, new: bytes) -> OutgoingMessage:
    assert old in message.body
    return message._replace(body=message.body.replace(old, new))


BEAT = IN_BODIES.heartbeat(NOW, FORTY)


@every(
    "message, reason",
    [
        (spoilt(BEAT, b"EndpointName", b"endpointName"), "endpointName"),
        (spoilt(BEAT, b'"Shop.Web"', b'""'), "EndpointName"),
        (spoilt(BEAT, b'"Shop.Web"', b"null"), "EndpointName"),
        (spoilt(BEAT, b'Z"', b'+00:00"'), "ExecutedAt"),
        (spoilt(BEAT, b"0696488b-a526-b5ea-d0a4-fd9bb712ddbd", HOST.encode()), "HostId"),
        (spoilt(BEAT, b"{", b"["), "JSON"),
        (BEAT._replace(headers={**BEAT.headers, "NServiceBus.ReplyToAddress": "Shop.Web"}), "not quoted"),
        (BEAT._replace(headers={"NServiceBus.EnclosedMessageTypes": "Other"}), "no type"),
        (spoilt(IN_HEADERS.metadata(), b"\\u0022", b""), "LocalAddress"),
        (spoilt(IN_HEADERS.metadata(), b"\\u0022public\\u0022.", b""), "LocalAddress"),
        (spoilt(IN_HEADERS.metadata(), b"public", b"Shop"), "LocalAddress"),
        (spoilt(IN_HEADERS.metadata(), b"public", b"order"), "LocalAddress"),
    ],
    ids=str,
)
def test_what_would_break_the_teams_page_is_not_sent(message: OutgoingMessage, reason: str) -> None:
    with pytest.raises(MessageSerializationError, match=reason):
        checked(message)


@every("cut", [4, 20, 30, 187])
def test_measurements_that_are_cut_are_not_sent(cut: int) -> None:
    (message,) = IN_HEADERS.measurements("ProcessingTime", [Measurement(1, "A", 1)])
    with pytest.raises(MessageSerializationError):
        checked(message._replace(body=message.body[:cut] if cut < len(message.body) else message.body[:-1]))


def test_measurements_are_split_where_offsets_or_entries_end() -> None:
    far = [Measurement(LONGEST_SPAN + 2, "A", 3), Measurement(1, "A", 1), Measurement(2, "B", 2)]
    assert [len(one) for one in messages_of(far)] == [2, 1]
    many = [Measurement(1, "A", 1)] * (MOST_ENTRIES + 1)
    assert [len(one) for one in messages_of(many)] == [MOST_ENTRIES, 1]
    assert list(messages_of([])) == []


def test_a_negative_time_is_none_and_a_tag_has_an_end() -> None:
    (message,) = IN_HEADERS.measurements("CriticalTime", [(5, "A" * 5000, -1), (6, "B", 1)])
    assert decoded(message.body)[0] == [(5, "A" * LONGEST_TAG, 0), (6, "B", 1)]


@every(
    "schema, counts",
    [("public", True), ("nsb_2", True), ("Shop", False), ("my-shop", False), ("user", False)],
)
def test_queues_are_countable_whose_schema_needs_no_quotes(schema: str, *, counts: bool) -> None:
    assert is_countable(QueueAddress(schema, "Shop.Web")) is counts


@every(
    "address, counts",
    [
        (SqlServerAddress("dbo", "Shop.Web", "nsb"), True),
        (SqlServerAddress("Sales Dept", "Br-acket", "my-nsb"), True),
        (SqlServerAddress("dbo", "Shop.Web", ""), False),
        (SqlServerAddress("sch@ma", "Shop.Web", "nsb"), False),
        (SqlServerAddress("dbo", "[Shop]", "nsb"), False),
        (SqlServerAddress("dbo", "Shop's", "nsb"), False),
    ],
    ids=str,
)
def test_queues_on_sql_server_are_countable_whose_names_need_no_quotes(
    address: SqlServerAddress, *, counts: bool
) -> None:
    metadata = Reporter(Identity("Shop.Web", "machine-1", HOST), address).metadata
    assert is_countable(address) is counts
    if counts:
        assert json.loads(metadata().body)["LocalAddress"] == address.canonical
    else:
        with pytest.raises(MessageSerializationError, match="LocalAddress"):
            metadata()


def test_every_word_that_postgresql_takes_only_in_quotes_needs_quotes(database: str) -> None:
    with psycopg.connect(database) as connection:
        words = connection.execute(
            "select word from pg_get_keywords() where catcode in ('R', 'T')"
        ).fetchall()
    assert [word for (word,) in words if is_countable(QueueAddress(word, "Sales"))] == []
