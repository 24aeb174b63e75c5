"""What ServiceControl says of itself: the JSON of `GET /api/connection`, and of its monitoring's `GET /connection`.

Invariant: what is read here is complete: a part that is on has its queue and its times.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple, cast

from rowbus.errors import ConfigurationError, InvalidTimestampError
from rowbus.messages.timestamps import parse_time_span

Platform = Mapping[str, Any] | str
"""The JSON in which ServiceControl says where its queues are, as text or as a dict."""

FREQUENCY: Final = timedelta(seconds=10)
INTERVAL: Final = timedelta(seconds=1)
LIFETIMES: Final = 4  # how many heartbeats may be missed before the endpoint counts as dead
SHORTEST: Final = timedelta(milliseconds=100)
PARTS: Final = frozenset({"Heartbeats", "CustomChecks", "Metrics", "SagaAudit"})


class HeartbeatPlan(NamedTuple):
    """Where heartbeats go, how often, and how long one is worth receiving."""

    queue: str
    every: timedelta
    time_to_live: timedelta


class MetricsPlan(NamedTuple):
    """Where metrics go, and how often."""

    queue: str
    every: timedelta


class PlatformConnection(NamedTuple):
    """What is sent to the platform, None for what is not; queues as .NET writes addresses."""

    heartbeats: HeartbeatPlan | None = None
    checks: str | None = None
    metrics: MetricsPlan | None = None
    saga_audit: str | None = None


def platform_connection(given: Platform) -> PlatformConnection:
    """Read ServiceControl's JSON, monitoring's, or both as one object, which is what ServicePulse shows.

    Raises ConfigurationError, which names the part that is not as ServiceControl writes it.
    """
    parts = _parts(given)
    connection = PlatformConnection(_heartbeats(parts), _checks(parts), _metrics(parts), _saga_audit(parts))
    if connection == PlatformConnection() and not parts.keys() & PARTS:
        raise _refused("it has none of Heartbeats, CustomChecks, Metrics and SagaAudit")
    return connection


def _parts(given: Platform) -> Mapping[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError as error:
            raise _refused(f"it is not JSON: {error}") from None
    if not isinstance(given, Mapping):
        raise _refused("it is no object")
    inner = given.get("settings", {})
    if not isinstance(inner, Mapping):
        raise _refused("its settings are no object")
    return {**cast("Mapping[str, Any]", inner), **given}


def _heartbeats(parts: Mapping[str, Any]) -> HeartbeatPlan | None:
    part = _enabled(parts, "Heartbeats")
    if part is None:
        return None
    every = _span(part, "Frequency", FREQUENCY)
    return HeartbeatPlan(_queue(part, "HeartbeatsQueue"), every, _span(part, "TimeToLive", LIFETIMES * every))


def _checks(parts: Mapping[str, Any]) -> str | None:
    part = _enabled(parts, "CustomChecks")
    return None if part is None else _queue(part, "CustomChecksQueue")


def _metrics(parts: Mapping[str, Any]) -> MetricsPlan | None:
    part = _enabled(parts, "Metrics")
    return (
        None if part is None else MetricsPlan(_queue(part, "MetricsQueue"), _span(part, "Interval", INTERVAL))
    )


def _saga_audit(parts: Mapping[str, Any]) -> str | None:
    part = _enabled(parts, "SagaAudit")
    return None if part is None else _queue(part, "SagaAuditQueue")


def _enabled(parts: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    part = parts.get(name)
    if part is None:
        return None
    if not isinstance(part, Mapping) or not isinstance(part.get("Enabled"), bool):  # pyright: ignore[reportUnknownMemberType]
        raise _refused(f"its {name} do not say whether they are Enabled")
    return cast("Mapping[str, Any]", part) if part["Enabled"] else None


def _queue(part: Mapping[str, Any], name: str) -> str:
    queue = part.get(name)
    if not isinstance(queue, str) or not queue:
        raise _refused(f"it names no {name}")
    return queue


def _span(part: Mapping[str, Any], name: str, default: timedelta) -> timedelta:
    given = part.get(name)
    if given is None:
        return default
    try:
        span = parse_time_span(given)
    except (InvalidTimestampError, TypeError):
        raise _refused(f"its {name} is {given!r}, not a time span such as '00:00:10'") from None
    if span < SHORTEST:
        raise _refused(f"its {name} is {given!r}; it must be at least 100 ms")
    return span


def _refused(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"service_platform is not the JSON that ServiceControl's /api/connection gives: {reason}."
    )
