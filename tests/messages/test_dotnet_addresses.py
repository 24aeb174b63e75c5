"""Addresses and endpoint names as .NET took them: the golden rows addresses-parsed and queue-names."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from rowbus.errors import ConfigurationError, InvalidAddressError
from rowbus.messages.address import QueueAddress, validate_endpoint_name
from tests.fixtures.dotnet_rows import scenario
from tests.fixtures.every import every

SENT = "sent_to "
MISSING: Final = re.compile("The destination queue '(?P<address>.*?)' could not be found")
ADDRESSES: Final[dict[str, Any]] = scenario("addresses-parsed")
NAMES: Final[dict[str, Any]] = scenario("queue-names")


def where_dotnet_sent_them() -> list[tuple[str, str]]:
    """Return each spelling that .NET took, and the canonical address of the table that got the message."""
    return [
        (row["headers"]["x-address"], QueueAddress(row["schema"], row["table"]).canonical)
        for row in ADDRESSES["rows"]
    ]


def what_dotnet_did_not_find() -> list[tuple[str, str]]:
    """Return each spelling of a table that is not there, and the address that .NET then names."""
    found = [(name.removeprefix(SENT), MISSING.search(text)) for name, text in ADDRESSES["facts"].items()]
    return [(spelling, told["address"]) for spelling, told in found if told]


@every("spelling, canonical", [*where_dotnet_sent_them(), *what_dotnet_did_not_find()])
def test_each_spelling_of_an_address_means_the_table_it_means_in_dotnet(
    spelling: str, canonical: str
) -> None:
    assert QueueAddress.parse(spelling, "public").canonical == canonical


def test_an_empty_address_is_refused_as_in_dotnet() -> None:
    assert "sent_to " in ADDRESSES["facts"]
    with pytest.raises(InvalidAddressError):
        QueueAddress.parse("", "public")


@every("row", NAMES["facts"]["subscription_rows"], ids=lambda row: row["endpoint"])
def test_the_name_of_an_endpoint_makes_the_address_it_makes_in_dotnet(row: dict[str, str]) -> None:
    validate_endpoint_name(row["endpoint"])
    assert QueueAddress("public", row["endpoint"]).canonical == row["queueaddress"]


@every(
    "name",
    [name.removeprefix("start_raised_") for name, text in NAMES["facts"].items() if "exceeds 55" in text],
)
def test_a_name_too_long_for_dotnet_is_too_long_here(name: str) -> None:
    with pytest.raises(ConfigurationError):
        validate_endpoint_name(name)
