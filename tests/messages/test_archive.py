"""Messages as events of a log: whatever they are, they come back byte for byte."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.errors import MessageDeserializationError
from rowbus.log.archive import TEXT, ArchivedMessage, archived_event, archived_message
from rowbus.log.event import Event
from rowbus.messages.address import QueueAddress
from rowbus.messages.dispatch import AppendedEvent
from rowbus.messages.message import MessageRow
from tests.fixtures.every import every

ERROR = QueueAddress("public", "error")
TEXTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
)  # what PostgreSQL's text holds


def as_read(event: AppendedEvent) -> Event:
    return Event(1, datetime.now(UTC), 1, None, *event[1:])


def row(headers: str = "{}", body: bytes | None = b"{}") -> MessageRow:
    return MessageRow(str(uuid.uuid4()), time_left=None, headers=headers, body=body, seq=1)


@given(headers=TEXTS, body=st.none() | st.binary() | TEXTS.map(str.encode))
def test_headers_and_body_come_back_byte_for_byte(headers: str, body: bytes | None) -> None:
    kept = row(headers, body)
    event = archived_event("failed", kept, ERROR)

    assert event.log == "failed"
    assert "\0" not in "".join(text for text in event if text)
    assert archived_message(as_read(event)) == ArchivedMessage(headers, body, '"public"."error"', kept.id)


def test_text_stays_readable_and_the_type_is_the_messages() -> None:
    types = "Shop.OrderPlaced, Shop, Version=1.0.0.0;Shop.IEvent"
    headers = f'{{"NServiceBus.EnclosedMessageTypes":"{types}"}}'
    event = archived_event("failed", row(headers, b'{"order":"\xc3\xa9"}'), ERROR)

    assert (event.type, event.data, event.extra1) == ("Shop.OrderPlaced", '{"order":"é"}', headers)


@every("headers", ["{}", "not JSON", "", '{"NServiceBus.EnclosedMessageTypes":null}'])
def test_a_message_of_no_known_type_is_an_event_without_a_type(headers: str) -> None:
    assert archived_event("failed", row(headers), ERROR).type is None


def test_events_that_are_no_messages_are_told_apart() -> None:
    captured = Event(
        1, datetime.now(UTC), 1, None, "I:id", '{"id":1}', "public.orders", '{"id":0}', None, None
    )
    assert archived_message(captured) is None


def test_what_a_strangers_event_leaves_out_of_a_message_is_empty() -> None:
    event = Event(1, datetime.now(UTC), 1, None, None, "{}", None, TEXT, None, None)
    assert archived_message(event) == ArchivedMessage("", b"{}", "", "")


def test_a_body_that_somebody_changed_is_an_error_that_says_so() -> None:
    event = archived_event("failed", row(body=b"\xff"), ERROR)
    with pytest.raises(MessageDeserializationError, match="base64"):
        archived_message(as_read(event._replace(data="not base64!")))
