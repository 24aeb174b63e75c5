"""The events of ServiceControl, ready to be handled: failed messages, heartbeats, custom checks.

```python
@operations.handler
async def failed(event: servicecontrol.MessageFailed) -> None: ...
```

Starting the endpoint subscribes to what it handles. Source: the contracts that ServiceControl publishes,
https://github.com/Particular/ServiceControl.Contracts. What an event leaves out, or has as null, is None or empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from rowbus.messages.bodies.shape import OpenEnum
from rowbus.messages.message_types import event

__all__ = [
    "CustomCheckFailed",
    "CustomCheckSucceeded",
    "Endpoint",
    "ExceptionInfo",
    "FailedMessagesArchived",
    "FailedMessagesUnArchived",
    "FailureDetails",
    "HeartbeatRestored",
    "HeartbeatStopped",
    "MessageDetails",
    "MessageEditedAndRetried",
    "MessageFailed",
    "MessageFailureResolvedByRetry",
    "MessageFailureResolvedManually",
    "MessageStatus",
]

T = TypeVar("T", bound=type)


def _contract(kind: T) -> T:
    """Declare a class to be the event of the same name that ServiceControl publishes."""
    return event(f"ServiceControl.Contracts.{kind.__name__}", rename="pascal")(kind)


class MessageStatus(OpenEnum):
    """The knowledge of a failed message; numbers that are newer are kept."""

    ArchivedFailure = 0
    Failed = 1
    RepeatedFailure = 2


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An endpoint as ServiceControl knows it."""

    name: str | None = None
    host_id: UUID | None = None
    host: str | None = None


@dataclass(frozen=True, kw_only=True)
class ExceptionInfo:
    """The exception that a message failed with."""

    exception_type: str | None = None
    message: str | None = None
    source: str | None = None
    stack_trace: str | None = None


@dataclass(frozen=True, kw_only=True)
class FailureDetails:
    """Where, when and how a message failed."""

    address_of_failing_endpoint: str | None = None
    time_of_failure: datetime | None = None
    exception: ExceptionInfo | None = None


@dataclass(frozen=True, kw_only=True)
class MessageDetails:
    """The message that failed; the body is there if it is text."""

    message_id: str | None = None
    headers: dict[str, str | None] | None = None
    content_type: str | None = None
    body: str | None = None


@_contract
@dataclass(frozen=True, kw_only=True)
class MessageFailed:
    """A message failed, and is in ServiceControl's list. `failed_message_id` is ServiceControl's id of the failure."""

    failed_message_id: str
    message_type: str | None = None
    number_of_processing_attempts: int = 0
    status: MessageStatus = MessageStatus.Failed
    sending_endpoint: Endpoint | None = None
    processing_endpoint: Endpoint | None = None
    failure_details: FailureDetails | None = None
    message_details: MessageDetails | None = None


@_contract
@dataclass(frozen=True, kw_only=True)
class MessageEditedAndRetried:
    """A failed message was edited and sent again."""

    failed_message_id: str


@_contract
@dataclass(frozen=True, kw_only=True)
class MessageFailureResolvedByRetry:
    """A failed message was retried and succeeded; the alternative ids are those that it may also be known by."""

    failed_message_id: str
    alternative_failed_message_ids: list[str] | None = None


@_contract
@dataclass(frozen=True, kw_only=True)
class MessageFailureResolvedManually:
    """A person said of a failure that it is resolved."""

    failed_message_id: str


@_contract
@dataclass(frozen=True, kw_only=True)
class FailedMessagesArchived:
    """Failures were archived ("deleted", on the page); here and in the next the ids are ServiceControl's of them."""

    failed_messages_ids: list[str] = field(default_factory=list)


@_contract
@dataclass(frozen=True, kw_only=True)
class FailedMessagesUnArchived:
    """Archived failures were brought back."""

    failed_messages_ids: list[str] = field(default_factory=list)


@_contract
@dataclass(frozen=True, kw_only=True)
class HeartbeatStopped:
    """An endpoint sends no more heartbeats."""

    endpoint_name: str
    host_id: UUID | None = None
    host: str | None = None
    last_received_at: datetime | None = None
    detected_at: datetime | None = None


@_contract
@dataclass(frozen=True, kw_only=True)
class HeartbeatRestored:
    """An endpoint sends heartbeats again."""

    endpoint_name: str
    host_id: UUID | None = None
    host: str | None = None
    restored_at: datetime | None = None


@_contract
@dataclass(frozen=True, kw_only=True)
class CustomCheckFailed:
    """A check of an endpoint failed."""

    custom_check_id: str
    category: str | None = None
    failure_reason: str | None = None
    failed_at: datetime | None = None
    endpoint_name: str | None = None
    host_id: UUID | None = None
    host: str | None = None


@_contract
@dataclass(frozen=True, kw_only=True)
class CustomCheckSucceeded:
    """A check of an endpoint passed again."""

    custom_check_id: str
    category: str | None = None
    succeeded_at: datetime | None = None
    endpoint_name: str | None = None
    host_id: UUID | None = None
    host: str | None = None
