"""Addresses on SQL Server: NServiceBus's vectors, and that every address survives the wire.

Source: docs/wire-format.md#addresses-on-sql-server.
"""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowbus.errors import InvalidAddressError
from rowbus.messages.address import QueueAddress
from rowbus.messages.sqlserver_address import SqlServerAddress, SqlServerAddresses
from tests.fixtures.every import every

ADDRESSES = SqlServerAddresses("dbo", "cat")
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40)
BRACKETED = st.text("[]@.x", min_size=1, max_size=12)


@every(
    "text, table, schema, catalog",
    [
        ("my.table", "my.table", "dbo", "cat"),
        ("my.table@", "my.table", "dbo", "cat"),
        ("my.table@sch", "my.table", "sch", "cat"),
        ("my.table@[my.sch@ma]", "my.table", "my.sch@ma", "cat"),
        ("my.table@my]]schema", "my.table", "my]]schema", "cat"),
        ("my.table@[my]]schema]", "my.table", "my]schema", "cat"),
        ("t@[]@[other]", "t", "dbo", "other"),
        ("t@sch@other", "t", "sch", "other"),
        ("t@[sch]@[other]", "t", "sch", "other"),
        ("[X]", "[X]", "dbo", "cat"),
        ("my.tb[e@[my.[sch@ma]@[my.c@ta]]og]", "my.tb[e", "my.[sch@ma", "my.c@ta]og"),
    ],
)
def test_an_address_from_the_wire_is_read_as_nservicebus_reads_it(
    text: str, table: str, schema: str, catalog: str
) -> None:
    assert ADDRESSES.parse(text) == SqlServerAddress(schema, table, catalog)


@every("canonical", ["my.tb[e@[my.[sch@ma]@[my.c@ta]]og]", "Sales@[dbo]@[cat]", "[X]@[a]]b]@[c.d]"])
def test_a_canonical_address_is_its_own_canonical_form(canonical: str) -> None:
    assert ADDRESSES.parse(canonical).canonical == canonical
    assert str(ADDRESSES.from_user(canonical)) == canonical


@given(NAMES | BRACKETED, NAMES | BRACKETED, NAMES | BRACKETED)
def test_every_address_survives_the_wire(table: str, schema: str, catalog: str) -> None:
    address = SqlServerAddress(schema, table.replace("@", "a"), catalog)

    assert SqlServerAddresses("other", "another").parse(address.canonical) == address
    assert ADDRESSES.from_user(address.canonical) == address


@given(NAMES | BRACKETED, NAMES | BRACKETED)
def test_an_address_in_the_connections_own_catalog_survives_too(table: str, schema: str) -> None:
    address = SqlServerAddress(schema, table.replace("@", "a"), "")

    assert SqlServerAddresses("other", "").parse(address.canonical) == address


def test_brackets_are_doubled_in_the_qualified_name_and_the_lock_has_nservicebus_name() -> None:
    address = SqlServerAddress("my]schema", "[X]", "c")

    assert address.qualified == "[c].[my]]schema].[[X]]]"
    assert address.creation_lock == "[c].[my]]schema].[[X]]]_lock"
    assert SqlServerAddress("dbo", "T", "").qualified == "[dbo].[T]"


def test_equal_addresses_are_equal_and_never_equal_to_postgresqls() -> None:
    address = ADDRESSES.parse("Sales")

    assert address == ADDRESSES.parse("Sales@[dbo]")
    assert hash(address) == hash(ADDRESSES.parse("Sales@dbo@cat"))
    assert address != QueueAddress("dbo", "Sales")
    assert pickle.loads(pickle.dumps(address)) == address  # noqa: S301 - our own


def test_an_endpoints_name_is_not_parsed_again() -> None:
    address = ADDRESSES.for_endpoint("Shop.[Sales]", qualifier="Delayed", discriminator="a")

    assert address == SqlServerAddress("dbo", "Shop.[Sales].Delayed.a", "cat")


def test_a_neighbour_is_in_the_same_schema_and_catalog_unless_it_says_otherwise() -> None:
    address = SqlServerAddress("sales", "Sales", "cat")

    assert address.neighbour("Billing") == SqlServerAddress("sales", "Billing", "cat")
    assert address.neighbour("Billing@[x]@[other]") == SqlServerAddress("x", "Billing", "other")


@every(
    "text, reason",
    [
        ("", "no table"),
        ("@dbo", "no table"),
        ("[dbo].[Sales]", "as statements write it"),
        ('"dbo"."Sales"', "as statements write it"),
        ("Sales@[dbo", "schema is not closed"),
        ("Sales@[dbo]@[cat", "catalog is not closed"),
        ("Sales@dbo@cat@host", "three parts"),
    ],
)
def test_what_a_person_may_not_have_meant_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidAddressError, match=reason):
        ADDRESSES.from_user(text)


@every("dotted", ["Shop.Sales", "dbo.Sales"])
def test_dots_mean_nothing(dotted: str) -> None:
    assert ADDRESSES.from_user(dotted) == SqlServerAddress("dbo", dotted, "cat")


@every("name", ["", "a\0b", "\ud800"])
def test_an_impossible_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidAddressError):
        SqlServerAddress("dbo", name, "cat")
    with pytest.raises(InvalidAddressError):
        SqlServerAddress(name, "Sales", "cat")


def test_a_table_cannot_hold_an_at() -> None:
    with pytest.raises(InvalidAddressError, match="@"):
        SqlServerAddress("dbo", "a@b", "cat")
    with pytest.raises(InvalidAddressError, match="@"):
        ADDRESSES.validate_endpoint_name("a@b")


@every("letter", ["x", "ü", "🚀"])
def test_lengths_are_counted_in_utf_16_and_checked_only_when_asked(letter: str) -> None:
    width = len(letter.encode("utf-16-le")) // 2
    longest = letter * (128 // width)

    SqlServerAddress("dbo", longest, "cat").validate()
    too_long = SqlServerAddress("dbo", longest + letter, "cat")
    with pytest.raises(InvalidAddressError, match="128"):
        too_long.validate()


def test_an_endpoints_name_leaves_room_for_its_delayed_table() -> None:
    ADDRESSES.validate_endpoint_name("x" * 120)
    ADDRESSES.validate_endpoint_name("x" * 128, delayed_suffix="")
    with pytest.raises(InvalidAddressError, match="120"):
        ADDRESSES.validate_endpoint_name("x" * 121)


def test_a_table_is_known_by_its_name_in_small_letters_too() -> None:
    address = SqlServerAddress("Shop", "Sales", "db")
    assert address.is_among([address])
    assert address.is_among([SqlServerAddress("Shop", "sales", "db")])
    assert not address.is_among(
        [SqlServerAddress("Shop", "SALES", "db"), SqlServerAddress("x", "sales", "db")]
    )
    assert not SqlServerAddress("Shop", "sales", "db").is_among([address])


def test_a_table_of_postgresqls_is_known_by_its_name_alone() -> None:
    assert not QueueAddress("shop", "Sales").is_among([QueueAddress("shop", "sales")])
    assert QueueAddress("shop", "Sales").is_among([QueueAddress("shop", "Sales")])
