"""The JSON that ServiceControl gives about itself."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from rowbus.errors import ConfigurationError
from rowbus.platform.servicecontrol import HeartbeatPlan, MetricsPlan, platform_connection
from tests.fixtures.every import every
from tests.fixtures.places import GOLDEN

SERVICECONTROL = '"public"."Particular.ServiceControl"'


def text_of(name: str) -> str:
    return (GOLDEN / "servicecontrol" / f"connection_{name}.json").read_text(encoding="utf-8")


@every("read", [str, json.loads])
def test_the_primarys_json_gives_heartbeats_and_checks(read: Any) -> None:  # noqa: ANN401 - either form
    connection = platform_connection(read(text_of("primary")))
    assert connection.heartbeats == HeartbeatPlan(
        SERVICECONTROL, timedelta(seconds=10), timedelta(seconds=40)
    )
    assert connection.checks == SERVICECONTROL
    assert connection.metrics is None


def test_both_jsons_as_one_object_give_all() -> None:
    both = {**json.loads(text_of("primary"))["settings"], **json.loads(text_of("monitoring"))}
    connection = platform_connection(both)
    assert connection.heartbeats is not None
    assert connection.metrics == MetricsPlan('"public"."Particular.Monitoring"', timedelta(seconds=1))


def test_what_is_not_enabled_is_not_sent() -> None:
    connection = platform_connection({"Heartbeats": {"Enabled": False}, "CustomChecks": {"Enabled": False}})
    assert connection == (None, None, None, None)


@every(
    "given, reason",
    [
        ("{", "not JSON"),
        ("[]", "no object"),
        ({}, "none of Heartbeats"),
        ({"heartbeats": {"enabled": True}}, "none of Heartbeats"),
        ({"Heartbeats": {"HeartbeatsQueue": "Q"}}, "Enabled"),
        ({"Heartbeats": {"Enabled": True}}, "HeartbeatsQueue"),
        ({"Metrics": {"Enabled": True, "MetricsQueue": "Q", "Interval": "1s"}}, "Interval"),
        ({"Metrics": {"Enabled": True, "MetricsQueue": "Q", "Interval": 1}}, "Interval"),
        ({"Metrics": {"Enabled": True, "MetricsQueue": "Q", "Interval": "00:00:00"}}, "100 ms"),
    ],
)
def test_what_is_not_servicecontrols_json_is_refused(given: Any, reason: str) -> None:  # noqa: ANN401 - what users give
    with pytest.raises(ConfigurationError, match=reason):
        platform_connection(given)
