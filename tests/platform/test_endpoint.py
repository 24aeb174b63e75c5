"""An endpoint in ServicePulse: what it sends of itself to ServiceControl while it runs."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import rowbus
from rowbus.errors import ConfigurationError
from rowbus.platform.forms import decoded, is_countable
from tests.conformance.endpoints import ERROR, Endpoints, PlaceOrder
from tests.conformance.transport import SimulatedError, eventually

if TYPE_CHECKING:
    from tests.conformance.backend import Backend, StoredRow

SERVICECONTROL = "Particular.ServiceControl"
MONITORING = "Particular.Monitoring"
TYPE = "NServiceBus.EnclosedMessageTypes"


def connection(backend: Backend, *parts: str, interval: str = "00:00:00.1") -> dict[str, Any]:
    """Return ServiceControl's JSON with these parts enabled, and short periods."""
    control, monitoring = (backend.queue(name).canonical for name in (SERVICECONTROL, MONITORING))
    known = {
        "Heartbeats": {"HeartbeatsQueue": control, "Frequency": interval, "TimeToLive": "00:00:40"},
        "CustomChecks": {"CustomChecksQueue": control},
        "SagaAudit": {"SagaAuditQueue": backend.queue("audit").canonical},
        "Metrics": {"MetricsQueue": monitoring, "Interval": interval},
    }
    return {name: {"Enabled": name in parts, **part} for name, part in known.items()}


async def platform(backend: Backend) -> None:
    """Make ServiceControl's queues, as it does."""
    for name in (SERVICECONTROL, MONITORING):
        await backend.create_queue(name)


def kinds(rows: list[StoredRow]) -> list[str]:
    return [(row.headers.get(TYPE) or "").rpartition(".")[2] for row in rows]


async def wait_for(backend: Backend, queue: str, *wanted: str) -> list[StoredRow]:
    async def there() -> bool:
        found = kinds(await backend.rows(queue))
        return all(found.count(kind) >= wanted.count(kind) for kind in wanted)

    await eventually(there)
    return await backend.rows(queue)


async def test_a_started_endpoint_registers_once_and_beats_until_it_stops(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    sales = endpoints.make("Sales", service_platform=json.dumps(connection(backend, "Heartbeats")))
    async with sales:
        await wait_for(
            backend, SERVICECONTROL, "RegisterEndpointStartup", "EndpointHeartbeat", "EndpointHeartbeat"
        )
    startup, *beats = rows = await backend.rows(SERVICECONTROL)
    assert kinds(rows) == ["RegisterEndpointStartup", *["EndpointHeartbeat"] * len(beats)]
    assert json.loads(startup.body or b"")["Endpoint"] == "Sales"
    beat = json.loads(beats[0].body or b"")
    assert beat["EndpointName"] == "Sales"
    assert beat["HostId"] == json.loads(startup.body or b"")["HostId"]
    assert beat["ExecutedAt"].endswith("Z")
    assert set(beats[0].headers) == {
        TYPE,
        "NServiceBus.ContentType",
        "NServiceBus.MessageIntent",
        "NServiceBus.ReplyToAddress",
    }
    assert 20 < (beats[-1].expires_in or 0) <= 40
    assert await backend.rows(MONITORING) == []
    assert len(await backend.rows(SERVICECONTROL)) == len(rows)


async def test_an_endpoint_beats_while_a_handler_blocks_its_loop(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    sales = endpoints.make("Sales", service_platform=connection(backend, "Heartbeats"))
    goes_on = threading.Event()
    blocked: list[datetime] = []
    done = asyncio.Event()

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        blocked.append(datetime.now(UTC))
        goes_on.wait(20)
        blocked.append(datetime.now(UTC))
        done.set()

    def hear(record: logging.LogRecord) -> bool:
        if record.getMessage().startswith("Event loop blocked since 20"):
            goes_on.set()
        return True

    logger = logging.getLogger("rowbus.platform")
    logger.addFilter(hear)
    try:
        async with sales:
            await sales.send("Sales", PlaceOrder("1"))
            await done.wait()
    finally:
        logger.removeFilter(hear)
    bodies = [json.loads(row.body or b"") for row in await backend.rows(SERVICECONTROL)]
    beats = [datetime.fromisoformat(body["ExecutedAt"]) for body in bodies if "ExecutedAt" in body]
    assert any(blocked[0] < beat < blocked[1] for beat in beats)
    assert not [thread for thread in threading.enumerate() if thread.name == "rowbus pacemaker"]


async def test_without_the_setting_nothing_is_sent(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    called: list[int] = []
    sales = endpoints.make("Sales")
    sales.check()(lambda: called.append(1))
    async with sales:
        pass
    assert await backend.rows(SERVICECONTROL) == []
    assert not called


async def test_a_platform_without_queues_stops_no_message(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    handled: list[str] = []
    critical: list[str] = []
    sales = endpoints.make(
        "Sales",
        service_platform=connection(backend, "Heartbeats", "Metrics"),
        on_critical_error=lambda text, _: critical.append(text),
        time_to_trigger_circuit_breaker=timedelta(0),
    )

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await eventually(lambda: handled == ["1"])
        await platform(backend)  # and later it is there
        await wait_for(backend, SERVICECONTROL, "RegisterEndpointStartup", "EndpointHeartbeat")
        found = await measured(backend, "ProcessingTime", 1)
    assert [one.tag for one in found] == ["Shop.Messages.PlaceOrder"]
    assert not critical


async def measured(backend: Backend, kind: str, count: int) -> list[Any]:
    found: list[Any] = []

    async def there() -> bool:
        rows = await backend.rows(MONITORING)
        bodies = [row.body or b"" for row in rows if row.headers.get("NServiceBus.Metric.Type") == kind]
        found[:] = [one for body in bodies for one in decoded(body)[0]]
        return len(found) >= count

    await eventually(there)
    return found


@pytest.mark.parametrize("batch_size", [1, 5])
async def test_every_message_is_measured_also_in_batches(endpoints: Endpoints, batch_size: int) -> None:
    backend = endpoints.backend
    await platform(backend)
    sales = endpoints.make("Sales", batch_size=batch_size, service_platform=connection(backend, "Metrics"))

    @sales.handler
    async def place(message: PlaceOrder) -> None: ...

    await backend.create_queue("Sales")
    client = backend.client()
    await client.send_many("Sales", [PlaceOrder(str(number)) for number in range(12)])
    async with sales:
        times = await measured(backend, "ProcessingTime", 12)
        ages = await measured(backend, "CriticalTime", 12)
    assert len(times) == len(ages) == 12
    assert {one.tag for one in times} == {"Shop.Messages.PlaceOrder"}
    assert all(0 <= one.value < 60_000 for one in [*times, *ages])


async def test_retries_are_counted_and_failures_are_no_throughput(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    policy = rowbus.Recoverability(immediate=2, delayed=1, increase=timedelta(milliseconds=1))
    sales = endpoints.make("Sales", recoverability=policy, service_platform=connection(backend, "Metrics"))

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        raise SimulatedError

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))

        async def failed() -> bool:
            return await backend.count(ERROR) == 1

        await eventually(failed)
        retries = await measured(backend, "Retries", 5)  # two, one with a delay, two
    assert [one.value for one in retries] == [1] * 5
    assert not [
        row
        for row in await backend.rows(MONITORING)
        if row.headers.get("NServiceBus.Metric.Type") == "ProcessingTime"
    ]


async def test_what_was_measured_last_is_sent_at_the_stop(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    handled: list[str] = []
    sales = endpoints.make(
        "Sales", service_platform=connection(backend, "Metrics", interval="01:00:00")
    )  # the first report is at the start

    @sales.handler
    async def place(message: PlaceOrder) -> None:
        handled.append(message.order_id)

    async with sales:
        await wait_for(backend, MONITORING, "EndpointMetadataReport")
        for number in range(3):
            await sales.send("Sales", PlaceOrder(str(number)))
        await eventually(lambda: len(handled) == 3)
    assert len(await measured(backend, "ProcessingTime", 3)) == 3


@pytest.mark.only("PostgreSQL", reason="nothing here asks the database")
async def test_a_check_is_not_called_again_because_it_could_not_be_reported(
    endpoints: Endpoints, caplog: pytest.LogCaptureFixture
) -> None:
    backend = endpoints.backend
    calls: list[object] = []
    sales = endpoints.make("Sales", service_platform=connection(backend, "CustomChecks"))

    @sales.check(every=timedelta(hours=1))
    def disk_space() -> str:
        calls.append(None)
        return "no\0room"

    def tries() -> int:
        said = [record.getMessage() for record in caplog.records]
        return sum("does not exist: ServiceControl makes it when it is set up" in text for text in said)

    with caplog.at_level("DEBUG", "rowbus.platform"):
        async with sales:
            await eventually(lambda: tries() == 2)
            await platform(backend)
            (row,) = await wait_for(backend, SERVICECONTROL, "ReportCustomCheckResult")
    assert json.loads(row.body or b"")["FailureReason"] == r"no\x00room"
    assert len(calls) == 1


async def test_checks_are_called_and_their_failures_told(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    sales = endpoints.make("Sales", service_platform=connection(backend, "CustomChecks"))

    @sales.check(every=timedelta(seconds=100), category="Storage")
    def disk_space() -> str | None:
        return "no room"

    @sales.check(name="Licence file")
    async def once() -> None:
        raise OSError("it is missing")

    @sales.check()
    def fine() -> None: ...

    async with sales:
        rows = await wait_for(backend, SERVICECONTROL, *["ReportCustomCheckResult"] * 3)
    found = {body["CustomCheckId"]: (body, row) for row in rows for body in [json.loads(row.body or b"")]}
    disk, licence, well = found["disk space"], found["Licence file"], found["fine"]
    assert (disk[0]["HasFailed"], disk[0]["FailureReason"], disk[0]["Category"]) == (
        True,
        "no room",
        "Storage",
    )
    assert 300 < (disk[1].expires_in or 0) <= 400
    assert (licence[0]["FailureReason"], licence[1].expires_in) == ("OSError: it is missing", None)
    assert (well[0]["HasFailed"], well[0]["FailureReason"]) == (False, None)


def test_json_of_something_else_is_refused_when_the_endpoint_is_made() -> None:
    settings = rowbus.EndpointSettings(service_platform="{}")
    with pytest.raises(ConfigurationError, match="service_platform"):
        rowbus.Endpoint("Sales", database="postgresql://", settings=settings)


def test_a_check_must_be_callable_without_arguments_and_have_a_name_of_its_own() -> None:
    sales = rowbus.Endpoint("Sales", database="postgresql://")
    with pytest.raises(ConfigurationError, match="no arguments"):
        sales.check()(str.upper)
    with pytest.raises(ConfigurationError, match="100 ms"):
        sales.check(every=timedelta(0))(lambda: None)
    sales.check(name="A")(lambda: None)
    with pytest.raises(ConfigurationError, match="already"):
        sales.check(name="A")(lambda: None)


async def test_monitoring_is_told_where_a_queue_is_only_if_it_can_count_it(endpoints: Endpoints) -> None:
    backend = endpoints.backend
    await platform(backend)
    sales = endpoints.make("Sales", service_platform=connection(backend, "Metrics"))

    @sales.handler
    async def place(message: PlaceOrder) -> None: ...

    async with sales:
        await sales.send("Sales", PlaceOrder("1"))
        await measured(backend, "ProcessingTime", 1)
    metadata = [row for row in await backend.rows(MONITORING) if "Metadata" in (row.headers.get(TYPE) or "")]
    told = {json.loads(row.body or b"")["LocalAddress"] for row in metadata}
    assert told == ({sales.address.canonical} if is_countable(sales.address) else set())
    assert is_countable(sales.address)  # on each database
