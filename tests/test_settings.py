"""Settings: documented defaults, refused before any I/O when they cannot work, never changed afterwards."""

from __future__ import annotations

import dataclasses
import os
from datetime import timedelta
from typing import Any

import pytest

from rowbus.errors import ConfigurationError
from rowbus.settings import EndpointSettings, FailureHandling, TransactionMode, default_concurrency
from tests.fixtures.every import every


def test_the_defaults_are_those_of_nservicebus() -> None:
    settings = EndpointSettings()

    assert settings.schema is None  # the database's default: public, dbo
    assert settings.error_queue == "error"
    assert settings.transaction_mode is TransactionMode.SENDS_ATOMIC_WITH_RECEIVE
    assert settings.peek_delay == timedelta(seconds=1)
    assert settings.time_to_trigger_circuit_breaker == timedelta(seconds=30)
    assert settings.max_records_to_peek is None


def test_and_beyond_them_the_careful_ones() -> None:
    settings = EndpointSettings()

    assert settings.failure_handling is FailureHandling.SAVEPOINT
    assert settings.batch_size == 1
    assert settings.notifications
    assert settings.install
    assert not settings.foreign_notifications
    assert not settings.body_string
    assert not settings.purge_on_startup


@every("processors, concurrency", [(None, 2), (1, 2), (2, 2), (16, 16)])
def test_the_default_concurrency_is_the_number_of_processors_and_at_least_two(
    monkeypatch: pytest.MonkeyPatch, processors: int | None, concurrency: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)

    assert default_concurrency() == concurrency
    assert EndpointSettings().effective_concurrency == concurrency


def test_a_concurrency_that_is_given_counts() -> None:
    assert EndpointSettings(concurrency=1).effective_concurrency == 1


@every(
    "wrong, says",
    [
        ({"peek_delay": timedelta(milliseconds=99)}, "peek_delay is 0.099 s; it must be at least 100 ms"),
        ({"concurrency": -1}, "concurrency is -1; it must be at least 0"),
        ({"batch_size": 0}, "batch_size is 0; it must be at least 1"),
        ({"max_records_to_peek": 0}, "max_records_to_peek is 0; it must be at least 1, or None"),
        ({"throttle_after_failures": 0}, "throttle_after_failures is 0; it must be at least 1, or None"),
        ({"throttle_delay": timedelta(-1)}, "throttle_delay is -1 day, 0:00:00; it must not be negative"),
        ({"audit_time_to_be_received": timedelta()}, "audit_time_to_be_received must be longer than nothing"),
    ],
)
def test_what_cannot_work_is_refused_with_its_limit(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        EndpointSettings(**wrong)


@every(
    "right",
    [
        {"peek_delay": timedelta(milliseconds=100)},
        {"max_records_to_peek": 1},
        {"batch_size": 1},
        {"concurrency": 0},
    ],
)
def test_the_limits_themselves_are_allowed(right: dict[str, Any]) -> None:
    EndpointSettings(**right)


def test_a_distributed_transaction_is_refused_and_the_equivalent_named() -> None:
    with pytest.raises(ConfigurationError, match="SENDS_ATOMIC_WITH_RECEIVE"):
        EndpointSettings(transaction_mode=TransactionMode.TRANSACTION_SCOPE)


def test_settings_are_never_changed() -> None:
    settings = EndpointSettings()

    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.schema = "other"  # type: ignore[misc]  # that it cannot is the point


def test_settings_are_given_by_name_only() -> None:
    with pytest.raises(TypeError):
        EndpointSettings("public")  # type: ignore[call-arg]  # that it cannot is the point


def test_every_setting_has_a_default() -> None:
    assert all(field.default is not dataclasses.MISSING for field in dataclasses.fields(EndpointSettings))
