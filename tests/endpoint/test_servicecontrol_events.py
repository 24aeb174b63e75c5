"""ServiceControl's events reach handlers of their classes, in the form in which ServiceControl writes them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from datetime import UTC, datetime
from uuid import UUID

import pytest

from rowbus import servicecontrol
from rowbus.messages.message_types import contract_of, deserializer
from tests.conformance.endpoints import Endpoints
from tests.conformance.transport import headers_text, in_default_mode, within
from tests.fixtures.every import every

NAMESPACE = "ServiceControl.Contracts."
HOST = {"HostId": "0696488b-a526-b5ea-d0a4-fd9bb712ddbd", "Host": "vm"}
HOST_ID = UUID(HOST["HostId"])
FAILED = {
    "FailedMessageId": "a3f5",
    "MessageType": "Shop.Messages.PlaceOrder",
    "NumberOfProcessingAttempts": 2,
    "Status": 2,
    "SendingEndpoint": {"Name": "Shop.Web", **HOST},
    "ProcessingEndpoint": {"Name": "Shop.Sales", **HOST},
    "FailureDetails": {
        "AddressOfFailingEndpoint": '"public"."Shop.Sales"',
        "TimeOfFailure": "2026-11-22T10:50:28.1087813Z",
        "Exception": {"ExceptionType": "ValueError", "Message": "no", "Source": "shop", "StackTrace": "…"},
    },
    "MessageDetails": {"MessageId": "1", "Headers": {"a": "b"}, "ContentType": None, "Body": "{}"},
}
EVENTS = {
    servicecontrol.CustomCheckFailed: {
        "CustomCheckId",
        "Category",
        "FailureReason",
        "FailedAt",
        "EndpointName",
    }
    | set(HOST),
    servicecontrol.CustomCheckSucceeded: {"CustomCheckId", "Category", "SucceededAt", "EndpointName"}
    | set(HOST),
    servicecontrol.FailedMessagesArchived: {"FailedMessagesIds"},
    servicecontrol.FailedMessagesUnArchived: {"FailedMessagesIds"},
    servicecontrol.HeartbeatRestored: {"RestoredAt", "EndpointName"} | set(HOST),
    servicecontrol.HeartbeatStopped: {"LastReceivedAt", "DetectedAt", "EndpointName"} | set(HOST),
    servicecontrol.MessageEditedAndRetried: {"FailedMessageId"},
    servicecontrol.MessageFailed: set(FAILED),
    servicecontrol.MessageFailureResolvedByRetry: {"FailedMessageId", "AlternativeFailedMessageIds"},
    servicecontrol.MessageFailureResolvedManually: {"FailedMessageId"},
}


@in_default_mode
@pytest.mark.one_version
async def test_a_failed_message_is_published_to_a_handler_of_its_class(endpoints: Endpoints) -> None:
    operations = endpoints.make("Operations")
    taken: asyncio.Queue[servicecontrol.MessageFailed] = asyncio.Queue()

    @operations.handler
    async def failed(event: servicecontrol.MessageFailed) -> None:
        await taken.put(event)

    async with operations:
        row = headers_text(
            NServiceBus__EnclosedMessageTypes=f"{NAMESPACE}MessageFailed, ServiceControl.Contracts",
            NServiceBus__ContentType="application/json",
            NServiceBus__MessageIntent="Publish",
        )
        await endpoints.backend.insert(operations.address, row, json.dumps(FAILED).encode())
        event = await within(taken.get())
        await operations.publish({"FailedMessageId": "b"}, type=f"{NAMESPACE}MessageFailed")
        assert (await within(taken.get())).failed_message_id == "b"  # it subscribed to the name

    assert event.status is servicecontrol.MessageStatus.RepeatedFailure
    assert event.processing_endpoint == servicecontrol.Endpoint(name="Shop.Sales", host_id=HOST_ID, host="vm")
    assert event.failure_details is not None
    assert event.failure_details.exception is not None
    assert event.failure_details.exception.exception_type == "ValueError"
    assert event.failure_details.time_of_failure == datetime(2026, 11, 22, 10, 50, 28, 108781, UTC)
    assert event.message_details is not None
    assert event.message_details.headers == {"a": "b"}


@every("kind", EVENTS, ids=lambda kind: str(kind.__name__))
def test_each_event_has_the_name_and_the_properties_of_its_contract(kind: type) -> None:
    assert contract_of(kind).name == NAMESPACE + kind.__name__
    body = {name: _value(name) for name in EVENTS[kind]}
    read = deserializer(kind, kind.__name__)(json.dumps(body).encode(), "application/json")
    assert all(getattr(read, one.name) for one in fields(kind))
    assert len(fields(kind)) == len(EVENTS[kind])


def test_each_event_of_the_module_is_tested() -> None:
    assert {getattr(servicecontrol, name) for name in servicecontrol.__all__ if _is_event(name)} == set(
        EVENTS
    )


def test_a_status_may_be_a_name_and_a_newer_number() -> None:
    read = deserializer(servicecontrol.MessageFailed, "MessageFailed")
    for written, status in (("Failed", 1), (7, 7)):
        event = read(json.dumps({"FailedMessageId": "a", "Status": written}).encode(), "application/json")
        assert isinstance(event, servicecontrol.MessageFailed)
        assert event.status == status


def _is_event(name: str) -> bool:
    return contract_of(getattr(servicecontrol, name)).name.startswith(NAMESPACE)


def _value(name: str) -> object:
    if name in FAILED:
        return FAILED[name]
    if name in HOST:
        return HOST[name]
    return ["a"] if name.endswith("Ids") else "2026-11-22T10:50:28Z"
