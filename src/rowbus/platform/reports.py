"""The messages to ServiceControl and its monitoring, as NServiceBus's plug-ins write them.

Invariant: each message returned has passed `checked`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from rowbus.messages.headers import Header
from rowbus.messages.message import OutgoingMessage
from rowbus.platform.forms import (
    CHECK_RESULT,
    HEARTBEAT,
    MEASUREMENTS,
    METADATA,
    METRIC_TYPE,
    SAGA_UPDATED,
    STARTUP,
    checked,
)
from rowbus.platform.json_text import instant, json_bytes
from rowbus.platform.measurements import encoded, messages_of, numbered
from rowbus.platform.saga_changes import saga_change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.identity import Identity
    from rowbus.messages.state_change import StateChange
    from rowbus.platform.measurements import Entry
    from rowbus.running.host import Process

JSON: Final = "application/json"
PLUGIN_VERSION: Final = 3
METRICS_LIVE: Final = timedelta(days=7)


class CheckResult(NamedTuple):
    """What a check found: None when all is well, else why it failed."""

    check: str
    category: str
    failure: str | None = None


class Reporter:
    """Writes one endpoint's messages to the platform."""

    def __init__(self, identity: Identity, address: QueueAddress) -> None:
        """Report for the endpoint that receives from `address`."""
        self._identity = identity
        self._address = address

    def startup(self, process: Process, now: datetime, time_to_live: timedelta) -> OutgoingMessage:
        """Return what makes the endpoint known. Raises MessageSerializationError, as all of these."""
        properties = {
            "Machine": self._identity.machine,
            "ProcessID": str(process.id),
            "UserName": process.user,
            "PathToExecutable": process.program,
        }
        body = {
            "HostId": self._host_id,
            "Endpoint": self._identity.endpoint,
            "StartedAt": instant(now),
            "HostProperties": properties,
            "HostDisplayName": self._identity.host_name,
            "Host": self._identity.host_name,
        }
        return self._plug_in_message(STARTUP, body, time_to_live)

    def heartbeat(self, now: datetime, time_to_live: timedelta) -> OutgoingMessage:
        """Return the sign that the endpoint is alive."""
        body = {
            "ExecutedAt": instant(now),
            "EndpointName": self._identity.endpoint,
            "HostId": self._host_id,
            "Host": self._identity.host_name,
        }
        return self._plug_in_message(HEARTBEAT, body, time_to_live)

    def check_result(
        self, result: CheckResult, now: datetime, time_to_live: timedelta | None
    ) -> OutgoingMessage:
        """Return what a check found; it lives four periods, for ever when there is no next time."""
        body = {
            "HostId": self._host_id,
            "CustomCheckId": result.check,
            "Category": result.category,
            "HasFailed": result.failure is not None,
            "FailureReason": result.failure,
            "ReportedAt": instant(now),
            "EndpointName": self._identity.endpoint,
            "Host": self._identity.host_name,
        }
        return self._plug_in_message(CHECK_RESULT, body, time_to_live)

    def saga_change(self, change: StateChange, incoming: Mapping[str, str | None]) -> OutgoingMessage:
        """Return what a message with these headers did to a saga."""
        return self._plug_in_message(
            SAGA_UPDATED, saga_change(self._identity.endpoint, change, incoming), None
        )

    def metadata(self) -> OutgoingMessage:
        """Return what has monitoring count the endpoint's queue."""
        body = json_bytes({"PluginVersion": PLUGIN_VERSION, "LocalAddress": self._address.canonical})
        names = {Header.ENCLOSED_MESSAGE_TYPES: METADATA, Header.CONTENT_TYPE: JSON}
        return checked(OutgoingMessage({**self._origin(), **names}, body, METRICS_LIVE))

    def measurements(self, kind: str, found: Iterable[Entry]) -> Iterator[OutgoingMessage]:
        """Give the messages that carry measurements of a kind; none when there are none."""
        names = {Header.CONTENT_TYPE: MEASUREMENTS, METRIC_TYPE: kind}
        for entries in messages_of(found):
            body = encoded(entries, numbered(entries))
            yield checked(OutgoingMessage({**self._origin(), **names}, body, METRICS_LIVE))

    @property
    def _host_id(self) -> str:
        return str(UUID(self._identity.host_id))

    def _plug_in_message(
        self, type: str, body: Mapping[str, object], time_to_live: timedelta | None
    ) -> OutgoingMessage:
        headers = {
            Header.ENCLOSED_MESSAGE_TYPES: type,
            Header.CONTENT_TYPE: JSON,
            Header.MESSAGE_INTENT: "Send",
            Header.REPLY_TO_ADDRESS: self._address.canonical,
        }
        return checked(OutgoingMessage(headers, json_bytes(body), time_to_live))

    def _origin(self) -> dict[str, str]:
        return {
            **self._identity.originating_headers(),
            Header.HOST_DISPLAY_NAME: self._identity.host_name,
        }
