"""Addresses: parsed as the transport parses them, written as .NET writes them, refused when a person may be misread."""

from __future__ import annotations

import hashlib
import pickle

import pytest

from rowbus.errors import ConfigurationError, InvalidAddressError
from rowbus.messages.address import (
    MAX_IDENTIFIER_BYTES,
    MAX_QUEUE_BYTES,
    QueueAddress,
    validate_endpoint_name,
)
from tests.fixtures.every import every


@every(
    "text, schema, table",
    [
        ("Sales", "default", "Sales"),
        ('"Sales"', "default", "Sales"),
        ("Sales.Orders", "Sales", "Orders"),
        ('"Sales.Orders"', "default", "Sales.Orders"),
        ('public."a.b"', "public", "a.b"),
        ('"public"."a.b"', "public", "a.b"),
        ('"my.schema".orders', "my.schema", "orders"),
        ("a.b.c", "a", "b.c"),
        ('a."b"."c"', "a", 'b"."c'),
        (".Orders", "default", "Orders"),
        ('"".Orders', "default", "Orders"),
        ('"a""b"."c""d"', 'a"b', 'c"d'),
        ('"a""b"', "default", 'a"b'),
        ('"a"b"', "default", 'a"b'),
        ('we"ird', "default", 'we"ird'),
        ('"open', "default", '"open'),
        ('open"', "default", 'open"'),
        ('"open.dot', "default", '"open.dot'),
        ('a"b"c.d', 'a"b"c', "d"),
        ('""""', "default", '"'),
        (" Sales ", "default", " Sales "),
        ("Zażółć.🚀", "Zażółć", "🚀"),
    ],
)
def test_the_first_dot_outside_quotes_splits_schema_from_table(text: str, schema: str, table: str) -> None:
    assert QueueAddress.parse(text, "default") == QueueAddress(schema, table)


@every("text", ["", '""', "Sales.", 'Sales.""', ".", '"."."', '"', 'a."'])
def test_an_address_from_the_wire_must_name_a_table(text: str) -> None:
    with pytest.raises(InvalidAddressError) as caught:
        QueueAddress.parse(text)

    assert caught.value.address == text


@every(
    "address, canonical",
    [
        (QueueAddress("public", "Sales"), '"public"."Sales"'),
        (QueueAddress("public", "Shop.Sales"), '"public"."Shop.Sales"'),
        (QueueAddress('a"b', '"'), '"a""b".""""'),
    ],
)
def test_the_canonical_form_is_schema_first_with_quotes_doubled(
    address: QueueAddress, canonical: str
) -> None:
    assert address.canonical == canonical
    assert str(address) == canonical
    assert QueueAddress.parse(canonical, "elsewhere") == address


def test_the_default_schema_is_public() -> None:
    assert QueueAddress.parse("Sales").schema == "public"
    assert QueueAddress.from_user("Sales").schema == "public"
    assert QueueAddress.for_endpoint("Sales").schema == "public"


@every("text", ["Sales.Orders", "a.b.c", ".Orders", "Sales."])
def test_a_dotted_name_without_quotes_is_refused_from_a_person(text: str) -> None:
    with pytest.raises(InvalidAddressError) as caught:
        QueueAddress.from_user(text)

    assert caught.value.address == text
    assert "ambiguous" in caught.value.reason
    assert f'"{text}"' in str(caught.value)


def test_the_refusal_of_a_dotted_name_shows_how_to_write_both_readings() -> None:
    with pytest.raises(InvalidAddressError) as caught:
        QueueAddress.from_user("Sales.Orders", "app")

    table_with_dot, schema_and_table = '"Sales.Orders"', '"Sales"."Orders"'
    assert table_with_dot in caught.value.reason
    assert schema_and_table in caught.value.reason
    assert QueueAddress.from_user(table_with_dot, "app") == QueueAddress("app", "Sales.Orders")
    assert QueueAddress.from_user(schema_and_table, "app") == QueueAddress("Sales", "Orders")


@every("text", ["Sales", '"Sales.Orders"', 'public."a.b"', '"a""b".c', 'Sales."Orders"'])
def test_what_a_person_cannot_have_meant_otherwise_reads_as_on_the_wire(text: str) -> None:
    assert QueueAddress.from_user(text, "app") == QueueAddress.parse(text, "app")


@every("text", ['"Sales', 'Sales"', '"Sales.Orders', '"Sales"."Orders', '"'])
def test_an_open_quote_is_refused_from_a_person(text: str) -> None:
    with pytest.raises(InvalidAddressError, match="not closed"):
        QueueAddress.from_user(text)


def test_the_parts_of_an_endpoint_name_are_joined_with_dots_and_not_parsed_again() -> None:
    sales = QueueAddress.for_endpoint("Shop.Sales", schema="app")

    assert sales == QueueAddress("app", "Shop.Sales")
    assert QueueAddress.for_endpoint("Shop.Sales", qualifier="Delayed").table == "Shop.Sales.Delayed"
    assert QueueAddress.for_endpoint("Sales", discriminator="eu-1").table == "Sales.eu-1"
    assert QueueAddress.for_endpoint("Sales", qualifier="Q", discriminator="1").table == "Sales.Q.1"


@every(
    "schema, table, reason",
    [
        ("", "Sales", "schema name is empty"),
        ("public", "", "table name is empty"),
        ("pub\0lic", "Sales", "NUL"),
        ("public", "Sa\0les", "NUL"),
        ("public", "\ud83d", "surrogate"),
    ],
)
def test_names_no_table_can_have_are_refused(schema: str, table: str, reason: str) -> None:
    with pytest.raises(InvalidAddressError, match=reason):
        QueueAddress(schema, table)


def test_the_limits_leave_room_for_what_is_appended() -> None:
    assert MAX_IDENTIFIER_BYTES == 63
    assert MAX_QUEUE_BYTES == 55
    assert len(QueueAddress("public", "q" * MAX_QUEUE_BYTES).sequence) == MAX_IDENTIFIER_BYTES


@every("table", ["q" * 55, "ż" * 27 + "q", "🚀" * 13 + "qqq"])
def test_a_queue_name_of_55_bytes_is_valid(table: str) -> None:
    QueueAddress("s" * 63, table).validate()


@every("table", ["q" * 56, "ż" * 28, "🚀" * 14])
def test_a_longer_queue_name_is_refused_with_limit_length_and_name(table: str) -> None:
    address = QueueAddress("public", table)

    with pytest.raises(InvalidAddressError) as caught:
        address.validate()

    assert caught.value.address == address.canonical
    assert table in caught.value.reason
    assert "56 bytes" in caught.value.reason
    assert "at most 55" in caught.value.reason


def test_a_schema_name_of_64_bytes_is_refused() -> None:
    with pytest.raises(InvalidAddressError, match=r"64 bytes.*at most 63"):
        QueueAddress("s" * 64, "Sales").validate()


def test_an_address_that_is_too_long_can_still_be_read_from_the_wire() -> None:
    assert QueueAddress.parse("q" * 200).table == "q" * 200


def test_an_endpoint_name_leaves_room_for_its_delayed_table() -> None:
    validate_endpoint_name("e" * 47)
    validate_endpoint_name("e" * 55, delayed_suffix="")
    validate_endpoint_name("e" * 51, delayed_suffix="Due")


@every("name, suffix, limit", [("e" * 48, "Delayed", 47), ("e" * 56, "", 55), ("ż" * 24, "Delayed", 47)])
def test_a_longer_endpoint_name_is_refused_with_limit_length_and_name(
    name: str, suffix: str, limit: int
) -> None:
    with pytest.raises(InvalidAddressError) as caught:
        validate_endpoint_name(name, delayed_suffix=suffix)

    assert f"{len(name.encode())} bytes" in str(caught.value)
    assert f"at most {limit}" in str(caught.value)
    assert name in str(caught.value)


@every("name", ["", "a\0b", "\udc00"])
def test_an_endpoint_name_that_cannot_be_a_table_is_refused(name: str) -> None:
    with pytest.raises(InvalidAddressError):
        validate_endpoint_name(name)


def test_the_body_string_lock_is_the_one_dotnet_takes() -> None:
    assert QueueAddress("public", "error").body_string_lock == 2737185284475993401


def test_the_channel_is_a_digest_of_the_canonical_form_and_fits_an_identifier() -> None:
    digest = hashlib.md5('"public"."Żółw"'.encode(), usedforsecurity=False).hexdigest()

    assert QueueAddress("public", "Żółw").channel == f"rowbus_{digest}"
    assert len(QueueAddress("s" * 63, "q" * 55).channel.encode()) <= MAX_IDENTIFIER_BYTES


def test_addresses_are_values() -> None:
    address = QueueAddress("public", 'a"b')

    assert address == QueueAddress("public", 'a"b')
    assert address != QueueAddress("public", "a")
    assert len({address, QueueAddress("public", 'a"b')}) == 1
    assert pickle.loads(pickle.dumps(address)).canonical == address.canonical  # noqa: S301 - our own bytes
    assert repr(address) == "QueueAddress(schema='public', table='a\"b')"


def test_the_error_is_a_configuration_error_and_a_value_error_and_shows_long_names_briefly() -> None:
    with pytest.raises(InvalidAddressError) as caught:
        QueueAddress("public", "q" * 10_000).validate()

    assert isinstance(caught.value, ConfigurationError)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 600
