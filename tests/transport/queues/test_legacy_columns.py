"""Columns that old software puts beside the headers become headers."""

from __future__ import annotations

from rowbus.messages.headers import Header, decode_headers
from rowbus.transport.queues.sqlserver_shape import merged


def test_headers_without_legacy_columns_stay_as_they_are() -> None:
    text = '{ "a" :"b"}'

    assert merged(text) == text
    assert merged(text, None, "") == text


def test_no_headers_are_an_empty_document() -> None:
    assert decode_headers(merged("")) == {}


def test_columns_become_headers() -> None:
    found = decode_headers(merged('{"a":"b"}', "c-1", "Sales@host"))

    assert found == {"a": "b", Header.CORRELATION_ID: "c-1", Header.REPLY_TO_ADDRESS: "Sales@host"}


def test_a_header_wins_over_its_column() -> None:
    text = f'{{"{Header.CORRELATION_ID}":"header"}}'

    assert merged(text, "column") == text
    assert decode_headers(merged(text, "column", "reply"))[Header.CORRELATION_ID] == "header"


def test_headers_that_cannot_be_read_stay_as_they_are() -> None:
    assert merged("{broken", "c-1") == "{broken"
