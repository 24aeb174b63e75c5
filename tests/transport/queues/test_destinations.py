"""Destinations that are allowed: by names alone, in both databases."""

from __future__ import annotations

import pytest

import rowbus
from rowbus.errors import ConfigurationError, InvalidAddressError
from rowbus.messages.address import QueueAddress
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.settings import Allowed
from rowbus.transport.queues.destination_rule import destination_rule
from tests.fixtures.every import every

SALES = QueueAddress("shop", "Sales")
SALES_THERE = SqlServerAddress("dbo", "Sales", "shop")
SAME, ANY = rowbus.AllowedDestinations.SAME_SCHEMA, rowbus.AllowedDestinations.ANY_QUEUE


@every(
    "allowed, destination, expected",
    [
        (SAME, QueueAddress("shop", "Billing"), True),
        (SAME, QueueAddress("public", "Billing"), False),
        (SAME, QueueAddress("Shop", "Billing"), False),
        (ANY, QueueAddress("public", "Billing"), True),
        (("Billing",), QueueAddress("shop", "Billing"), True),
        (("Billing",), QueueAddress("shop", "Sales"), False),
        (('"archive"."*"',), QueueAddress("archive", "Sales"), True),
        (('"archive"."*"',), QueueAddress("shop", "Sales"), False),
        ((), QueueAddress("shop", "Sales"), False),
    ],
)
def test_what_is_allowed(allowed: Allowed, destination: QueueAddress, *, expected: bool) -> None:
    assert destination_rule(allowed, SALES).allows(destination) is expected


@every(
    "allowed, destination, expected",
    [
        (SAME, SqlServerAddress("dbo", "Billing", "shop"), True),
        (SAME, SqlServerAddress("ledger", "Billing", "shop"), False),
        (SAME, SqlServerAddress("dbo", "Billing", "other"), False),
        (("*@[ledger]",), SqlServerAddress("ledger", "Billing", "shop"), True),
        (("*@[ledger]",), SqlServerAddress("ledger", "Billing", "other"), False),
    ],
)
def test_what_is_allowed_on_sql_server(
    allowed: Allowed, destination: SqlServerAddress, *, expected: bool
) -> None:
    assert destination_rule(allowed, SALES_THERE).allows(destination) is expected


def test_an_ambiguous_name_is_refused_before_anything_is_received() -> None:
    with pytest.raises(InvalidAddressError, match="ambiguous"):
        rowbus.Endpoint("Sales", settings=rowbus.EndpointSettings(allowed_destinations=("archive.Sales",)))


def test_a_single_text_is_no_list() -> None:
    with pytest.raises(ConfigurationError, match="tuple"):
        rowbus.EndpointSettings(allowed_destinations="Billing")  # type: ignore[arg-type] # what a user may give
