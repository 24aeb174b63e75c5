"""The way to ServiceControl: the queues that it says it has, sends to one, and an endpoint's metrics each period.

ServiceControl says so in the JSON of `GET /api/connection`, and of its monitoring's `GET /connection`.

Invariants: what is read of that JSON is complete: a part that is on has its queue and its times; what is not sent
raises; nothing here reaches the endpoint's critical-error callback; that ServiceControl cannot be reached harms nothing
else than its metrics: it is logged, and tried again, and they are sent later, as far as the meter keeps them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.errors import ConfigurationError, InvalidTimestampError, QueueNotFoundError, RowbusError
from rowbus.messages.dispatch import Send
from rowbus.messages.timestamps import parse_time_span
from rowbus.platform.forms import is_countable
from rowbus.running.critical import Alarm, ReportedBreaker, log_lasting
from rowbus.running.service import Periodic

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from rowbus.database.sessions import Database
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.message import OutgoingMessage
    from rowbus.platform.meter import Meter
    from rowbus.platform.reports import Reporter
    from rowbus.transport.receiving.dispatcher import Dispatcher


logger = logging.getLogger("rowbus.platform")

Platform = Mapping[str, Any] | str
"""The JSON in which ServiceControl says where its queues are, as text or as a dict."""

FREQUENCY: Final = timedelta(seconds=10)
INTERVAL: Final = timedelta(seconds=1)
LIFETIMES: Final = 4  # how many heartbeats may be missed before the endpoint counts as dead
SHORTEST: Final = timedelta(milliseconds=100)
PARTS: Final = frozenset({"Heartbeats", "CustomChecks", "Metrics", "SagaAudit"})

LAST_WAIT: Final = 5.0
"""Seconds that an endpoint which stops waits for its last measurements to be sent."""


# What ServiceControl says of itself.


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
    """The queues of the platform, None for what is not sent; as .NET writes addresses."""

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


# What is sent there.


class Outbox:
    """Sends to one queue."""

    def __init__(self, dispatcher: Dispatcher, queue: QueueAddress) -> None:
        """Send to `queue`, which ServiceControl made. No I/O."""
        self._dispatcher = dispatcher
        self._queue = queue

    async def send(self, messages: Iterable[OutgoingMessage]) -> None:
        """Send them in one transaction of their own. Raises QueueNotFoundError, StorageError."""
        with self._naming_its_maker():
            await self._dispatcher.dispatch([Send(self._queue, message) for message in messages])

    def send_from_thread(self, message: OutgoingMessage, database: Database) -> None:
        """Send one without the event loop, on a connection of its own. Blocks; raises as `send`."""
        statements = self._dispatcher.statements([Send(self._queue, message)])
        with self._naming_its_maker(), database.session() as session:
            session.run_all(statements)

    @contextmanager
    def _naming_its_maker(self) -> Generator[None]:
        try:
            yield
        except QueueNotFoundError as error:
            raise QueueNotFoundError(
                f"{self._queue} does not exist: ServiceControl makes it when it is set up, in the schema of its "
                "connection string",
                queue=error.queue,
            ) from error

    def outages(self, activity: str, failure: str) -> ReportedBreaker:
        """Return the breaker of a service that sends here; what fails for long is logged, and no more."""
        return ReportedBreaker(activity, f"{failure} ({self._queue})", logger, Alarm(log_lasting(logger)))


class Metrics(Periodic):
    """Sends an endpoint's metrics each period. For one event loop."""

    def __init__(
        self, outbox: Outbox, reporter: Reporter, plan: MetricsPlan, meter: Meter, address: QueueAddress
    ) -> None:
        """Send what `meter` measures, first at the start; and where `address` is, if monitoring can count it."""
        outages = outbox.outages("Metrics", "Could not send metrics to ServiceControl's monitoring")
        super().__init__("rowbus metrics", outages, plan.every.total_seconds(), at_once=True)
        self._outbox = outbox
        self._reporter = reporter
        self._meter = meter
        self._is_counted = is_countable(address)
        if not self._is_counted:
            logger.info(
                "ServicePulse does not show the length of %s: one of its names would need quotes", address
            )

    async def stop(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a grace period
        """End, then send what was measured since the last time: to be called when nothing is measured any more."""
        was_started = self._task is not None
        await super().stop(timeout)
        if not was_started or not self._meter.has_measured:
            return
        try:
            async with asyncio.timeout(LAST_WAIT):
                await self.do()
        except (RowbusError, TimeoutError) as error:
            logger.warning(
                "The last measurements are lost: %s", str(error) or f"not sent within {LAST_WAIT} s"
            )

    async def do(self) -> None:
        """Send what there is."""
        taken = await self._meter.take()
        messages = [self._reporter.metadata()] if self._is_counted else []
        try:
            for kind, found in taken.items():
                for message in self._reporter.measurements(kind, found):
                    messages.append(message)
                    await asyncio.sleep(0)  # messages are handled meanwhile
            await self._outbox.send(messages)
        except BaseException:
            self._meter.put_back(taken)
            raise
