"""The settings are the seed's, with the seed's defaults, and what cannot work is refused before any I/O."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import timedelta

import pytest

import rowbus
from rowbus.errors import ConfigurationError, InvalidAddressError
from tests.fixtures.every import every

STORE = rowbus.PostgresDelayedMessageStore()
HALF_A_MINUTE = timedelta(seconds=30)


def test_the_defaults_are_the_documented_ones() -> None:
    settings = rowbus.DelayedDeliverySettings(STORE)

    assert settings.store is STORE
    assert settings.number_of_retries == 0
    assert settings.maximum_recovery_failures_per_second == 1
    assert settings.time_to_trigger_store_circuit_breaker == HALF_A_MINUTE
    assert settings.time_to_trigger_fetch_circuit_breaker == HALF_A_MINUTE
    assert settings.time_to_trigger_dispatch_circuit_breaker == HALF_A_MINUTE


def test_every_setting_of_the_seeds_example_can_be_made() -> None:
    settings = rowbus.DelayedDeliverySettings(
        STORE,
        number_of_retries=7,
        maximum_recovery_failures_per_second=2,
        time_to_trigger_store_circuit_breaker=timedelta(seconds=20),
        time_to_trigger_dispatch_circuit_breaker=timedelta(seconds=15),
        time_to_trigger_fetch_circuit_breaker=timedelta(seconds=45),
    )

    assert settings.number_of_retries == 7
    with pytest.raises(FrozenInstanceError):
        settings.number_of_retries = 8  # type: ignore[misc]  # that it cannot be set is the point


def test_the_default_of_no_retries_can_be_said_out_loud() -> None:
    assert rowbus.DelayedDeliverySettings(STORE, number_of_retries=0).number_of_retries == 0


@every(
    "setting, value",
    [
        ("number_of_retries", -1),
        ("maximum_recovery_failures_per_second", 0),
        ("time_to_trigger_store_circuit_breaker", timedelta(0)),
        ("time_to_trigger_fetch_circuit_breaker", timedelta(0)),
        ("time_to_trigger_dispatch_circuit_breaker", timedelta(seconds=-1)),
    ],
)
def test_what_cannot_work_is_refused_by_name(setting: str, value: float | timedelta) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        rowbus.DelayedDeliverySettings(STORE, **{setting: value})  # type: ignore[arg-type]  # some of each


def test_a_store_that_lacks_a_method_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="object, which lacks"):
        rowbus.DelayedDeliverySettings(object())  # type: ignore[arg-type]  # that it is none is the point


def test_an_endpoints_name_must_leave_room_for_its_timeouts_queue() -> None:
    settings = rowbus.DelayedDeliverySettings(STORE)
    rowbus.Endpoint("x" * 46, delayed_delivery=settings)

    with pytest.raises(InvalidAddressError):
        rowbus.Endpoint("x" * 47, delayed_delivery=settings)


async def test_a_store_without_a_database_says_that_it_needs_an_endpoint() -> None:
    store = rowbus.PostgresDelayedMessageStore()
    await store.initialize("Sales", rowbus.TransactionMode.RECEIVE_ONLY)

    with pytest.raises(ConfigurationError, match="no database of its own"):
        await store.next()


async def test_a_store_that_is_not_initialized_says_so() -> None:
    with pytest.raises(ConfigurationError, match="not initialized"):
        rowbus.PostgresDelayedMessageStore().enlist(object())


def test_its_table_is_named_after_the_endpoint_unless_it_has_a_name() -> None:
    named = rowbus.PostgresDelayedMessageStore(schema="my_schema", table="my_delayed_messages")

    assert str(STORE.address("Shop.Sales")) == '"public"."Shop.Sales.delayed"'
    assert str(named.address("Shop.Sales")) == '"my_schema"."my_delayed_messages"'


def test_in_sql_server_its_table_is_that_of_nservicebus_unless_that_is_a_queues() -> None:
    msmq = rowbus.SqlServerDelayedMessageStore("mssql://sa:secret@localhost/shop")
    named = rowbus.SqlServerDelayedMessageStore("mssql://sa:secret@localhost/shop", table_name="Later")
    beside_queues = rowbus.SqlServerDelayedMessageStore()

    assert msmq.address("Sales").table == "Sales.timeouts"
    assert named.address("Sales").table == "Later"
    assert beside_queues.address("Sales").table == "Sales.delayed"  # `Sales.Timeouts` is a queue there
