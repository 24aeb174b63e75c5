"""The messages to ServiceControl and its monitoring, as NServiceBus's plug-ins write them.

Invariants: each message returned has passed `checked`; names, their order and the forms of values are .NET's; what is
written here is valid JSON of the object given, names as they are and in its order.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias
from uuid import UUID

from rowbus.errors import InvalidTimestampError
from rowbus.messages.dispatch import AnySend, DelayedSend
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.timestamps import format_time_span, parse_timestamp
from rowbus.platform.forms import (
    CHECK_RESULT,
    HEARTBEAT,
    MEASUREMENTS,
    METADATA,
    METRIC_TYPE,
    SAGA_UPDATED,
    STARTUP,
    checked,
    encoded,
    messages_of,
    numbered,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.messages.state_change import StateChange
    from rowbus.platform.forms import Entry
    from rowbus.running.host import Process

_STRING: Final = re.compile(r"(\"(?:[^\"\\]|\\.)*\")")
_CHARACTERS: Final = re.compile(r"\\u[0-9a-f]{4}|\\.|[<>&'+`\x7f]")


def json_bytes(members: Mapping[str, object]) -> bytes:
    """Return an object's text. Values are texts, booleans, whole numbers, None, and mappings and lists of these."""
    text = json.dumps(members, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return _STRING.sub(lambda found: f'"{_escaped(found[0][1:-1])}"', text).encode("ascii")


def instant(moment: datetime) -> str:
    """Return an aware moment in UTC, as .NET writes it: a `Z`, and no zeros at the end of the fraction."""
    if moment.utcoffset() is None:
        raise ValueError(f"{moment} is naive: give it a time zone, for example datetime.UTC.")
    text = moment.astimezone(UTC).replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0') if '.' in text else text}Z"


def _escaped(inner: str) -> str:
    return _CHARACTERS.sub(lambda found: _escape(found[0]), inner)


def _escape(part: str) -> str:
    r"""Return what .NET writes for an escape of Python's, or for a character that Python writes as it is."""
    if part == '\\"':
        return "\\u0022"
    if part.startswith("\\u"):
        return f"\\u{part[2:].upper()}"
    return part if part.startswith("\\") else f"\\u{ord(part):04X}"


Headers: TypeAlias = "Mapping[str, str | None]"


def saga_change(endpoint: str, change: StateChange, incoming: Headers) -> dict[str, object]:
    """Return the body of the message about a change, which a message with these headers made."""
    return {
        "SagaState": change.state,
        "SagaId": change.id,
        "Initiator": _initiator(incoming),
        "ResultingMessages": [_resulting(send, change) for send in _messages(change)],
        "Endpoint": endpoint,
        "IsNew": change.is_new,
        "IsCompleted": change.is_completed,
        "StartTime": instant(change.started),
        "FinishTime": instant(change.finished),
        "SagaType": change.type,
    }


def _initiator(headers: Headers) -> dict[str, object]:
    return {
        "InitiatingMessageId": headers.get(Header.MESSAGE_ID),
        "MessageType": _type(headers),
        "IsSagaTimeoutMessage": headers.get(Header.IS_SAGA_TIMEOUT_MESSAGE) is not None,
        "TimeSent": _moment(headers.get(Header.TIME_SENT)),
        "OriginatingMachine": headers.get(Header.ORIGINATING_MACHINE),
        "OriginatingEndpoint": headers.get(Header.ORIGINATING_ENDPOINT),
        "Intent": headers.get(Header.MESSAGE_INTENT),
    }


def _messages(change: StateChange) -> Iterable[AnySend]:
    """Return what was sent, each event once, however many subscribers it has."""
    found = {
        send.message.headers.get(Header.MESSAGE_ID): send
        for send in change.sends
        if isinstance(send, AnySend)
    }
    return found.values()


def _resulting(send: AnySend, change: StateChange) -> dict[str, object]:
    headers = send.message.headers
    is_event = headers.get(Header.MESSAGE_INTENT) == "Publish"
    at, delay = _due(send.due) if isinstance(send, DelayedSend) else (None, None)
    return {
        "MessageType": _type(headers),
        "TimeSent": _moment(headers.get(Header.TIME_SENT)) or instant(change.finished),
        "DeliveryAt": at,
        "DeliveryDelay": delay,
        "Destination": None if is_event else send.destination.canonical,
        "ResultingMessageId": headers.get(Header.MESSAGE_ID),
        "Intent": headers.get(Header.MESSAGE_INTENT),
    }


def _due(due: timedelta | datetime) -> tuple[str | None, str | None]:
    if isinstance(due, datetime):
        return instant(due), None
    return None, format_time_span(due)


def _type(headers: Headers) -> str | None:
    return next(iter(parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))), None)


def _moment(text: str | None) -> str | None:
    try:
        return instant(parse_timestamp(text or ""))
    except InvalidTimestampError:
        return None


JSON: Final = "application/json"
PLUGIN_VERSION: Final = 3
METRICS_LIVE: Final = timedelta(days=7)


class CheckResult(NamedTuple):
    """The result of a check: None when all is well, else why it failed."""

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
