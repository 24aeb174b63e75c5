"""What ServiceControl can read: the forms of the messages to it. One wrong row breaks the page of the whole team.

A heartbeat without a name, or with `+00:00` for `Z`, breaks the heartbeats of all endpoints until ServiceControl is
restarted; an address that is not canonical, or whose names need quotes, breaks all queue lengths.

Invariant: `checked` returns a message as it is, or raises; it trusts nothing of those who composed it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from rowbus.errors import InvalidAddressError, MessageSerializationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.sqlserver_address import SqlServerAddress
from rowbus.platform.measurements import parsed

if TYPE_CHECKING:
    from rowbus.messages.message import OutgoingMessage

STARTUP: Final = "ServiceControl.Plugin.Heartbeat.Messages.RegisterEndpointStartup"
HEARTBEAT: Final = "ServiceControl.Plugin.Heartbeat.Messages.EndpointHeartbeat"
CHECK_RESULT: Final = "ServiceControl.Plugin.CustomChecks.Messages.ReportCustomCheckResult"
SAGA_UPDATED: Final = "ServiceControl.EndpointPlugin.Messages.SagaState.SagaUpdatedMessage"
METADATA: Final = "NServiceBus.Metrics.EndpointMetadataReport"
MEASUREMENTS: Final = "TaggedLongValueWriterOccurrence"  # a content type
METRIC_TYPE: Final = "NServiceBus.Metric.Type"

PROCESSING_TIME: Final = "ProcessingTime"
CRITICAL_TIME: Final = "CriticalTime"
RETRIES: Final = "Retries"

Form = Callable[[object], bool]

_GUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_INSTANT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,7})?Z")
_SPAN: Final = re.compile(r"(?:[0-9]{1,8}\.)?[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{7})?")
_SPECIAL: Final = frozenset("@'[]")
_BARE_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]*")
# Names that PostgreSQL takes only in quotes, or for something else: pg_get_keywords() says R or T.
_KEYWORDS: Final = (
    "all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation "
    "column concurrently constraint create cross current_catalog current_date current_role current_schema "
    "current_time current_timestamp current_user default deferrable desc distinct do else end except false fetch for "
    "foreign freeze from full grant group having ilike in initially inner intersect into is isnull join lateral "
    "leading left like limit localtime localtimestamp natural not notnull null offset on only or order outer "
    "overlaps placing primary references returning right select session_user similar some symmetric system_user "
    "table tablesample then to trailing true union unique user using variadic verbose when where window with"
)
_RESERVED: Final = frozenset(_KEYWORDS.split())


def checked(message: OutgoingMessage) -> OutgoingMessage:
    """Return a message as it is; raises MessageSerializationError for one that ServiceControl could not read."""
    headers = message.headers
    if headers.get(Header.CONTENT_TYPE) == MEASUREMENTS:
        _check_measurements(message)
        return message
    type = headers.get(Header.ENCLOSED_MESSAGE_TYPES) or ""
    if type not in _FORMS:
        raise _refused(f"{type!r} is no type of its plug-ins")
    _check_members(type, _members(message.body), _FORMS[type])
    reply_to = headers.get(Header.REPLY_TO_ADDRESS)
    if reply_to is not None and not _is_quoted(reply_to):
        raise _refused(f"the address {reply_to!r} is not quoted")
    return message


def is_countable(address: QueueAddress) -> bool:
    """Say whether monitoring can count a queue.

    Its query names the schema without quotes on PostgreSQL; on SQL Server it splits an address at each `@`, and has the
    names in brackets and as texts.
    """
    if isinstance(address, SqlServerAddress):
        names = (address.table, address.schema, address.catalog)
        return all(name and not _SPECIAL.intersection(name) for name in names)
    return _names_bare(address.schema)


def _check_measurements(message: OutgoingMessage) -> None:
    if message.headers.get(METRIC_TYPE) not in {PROCESSING_TIME, CRITICAL_TIME, RETRIES}:
        raise _refused(f"{message.headers.get(METRIC_TYPE)!r} is no metric")
    try:
        offsets = parsed(message.body).offsets
    except ValueError as error:
        raise _refused(str(error)) from error
    if not offsets or offsets[0] < 0 or offsets != sorted(offsets):
        raise _refused("its measurements are not in the order of time")


def _members(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise _refused(f"its body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _refused("its body is no object")
    return cast("Mapping[str, Any]", found)


def _check_members(type: str, members: Mapping[str, Any], forms: Mapping[str, Form]) -> None:
    """Refuse other names, or another order, than .NET's, and values that are not of the form."""
    if tuple(members) != tuple(forms):
        raise _refused(f"{type} has {', '.join(members)} instead of {', '.join(forms)}")
    for name, is_well_formed in forms.items():
        if not is_well_formed(members[name]):
            raise _refused(f"the {name} of {type} is {members[name]!r}")


def _is_named(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_null(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _is_guid(value: object) -> bool:
    return isinstance(value, str) and _GUID.fullmatch(value) is not None


def _is_instant(value: object) -> bool:
    return isinstance(value, str) and _INSTANT.fullmatch(value) is not None


def _is_instant_or_null(value: object) -> bool:
    return value is None or _is_instant(value)


def _is_span(value: object) -> bool:
    return value is None or (isinstance(value, str) and _SPAN.fullmatch(value) is not None)


def _is_object_text(value: object) -> bool:
    """Say whether ServicePulse can show a state: as text, a JSON object."""
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict)
    except ValueError:
        return False


def _has(forms: Mapping[str, Form]) -> Form:
    """Return the form of an object within."""

    def has(value: object) -> bool:
        members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
        return tuple(members) == tuple(forms) and all(form(members[name]) for name, form in forms.items())

    return has


def _lists(form: Form) -> Form:
    return lambda value: isinstance(value, list) and all(map(form, cast("list[object]", value)))


def _is_version(value: object) -> bool:
    return value == 3  # noqa: PLR2004 - the only one that monitoring takes addresses from


def _are_properties(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, str) for pair in cast("dict[object, object]", value).items() for one in pair
    )


def _is_quoted(text: object) -> bool:
    """Say whether an address of PostgreSQL is canonical; those of SQL Server have an `@`, and brackets."""
    if not isinstance(text, str):
        return False
    if not text.startswith('"'):
        return "@[" in text
    try:
        return QueueAddress.parse(text).canonical == text
    except InvalidAddressError:
        return False


def _is_local_address(value: object) -> bool:
    if not isinstance(value, str):
        return False
    kind = QueueAddress if value.startswith('"') else SqlServerAddress
    try:
        address = kind.parse(value)
    except InvalidAddressError:
        return False
    return address.canonical == value and is_countable(address)


def _names_bare(schema: str) -> bool:
    return _BARE_SCHEMA.fullmatch(schema) is not None and schema not in _RESERVED


_FORMS: Final[dict[str, dict[str, Form]]] = {
    STARTUP: {
        "HostId": _is_guid,
        "Endpoint": _is_named,
        "StartedAt": _is_instant,
        "HostProperties": _are_properties,
        "HostDisplayName": _is_named,
        "Host": _is_named,
    },
    HEARTBEAT: {"ExecutedAt": _is_instant, "EndpointName": _is_named, "HostId": _is_guid, "Host": _is_named},
    CHECK_RESULT: {
        "HostId": _is_guid,
        "CustomCheckId": _is_named,
        "Category": _is_text,
        "HasFailed": _is_bool,
        "FailureReason": _is_text_or_null,
        "ReportedAt": _is_instant,
        "EndpointName": _is_named,
        "Host": _is_named,
    },
    SAGA_UPDATED: {
        "SagaState": _is_object_text,
        "SagaId": _is_guid,
        "Initiator": _has(
            {
                "InitiatingMessageId": _is_text_or_null,
                "MessageType": _is_text_or_null,
                "IsSagaTimeoutMessage": _is_bool,
                "TimeSent": _is_instant_or_null,
                "OriginatingMachine": _is_text_or_null,
                "OriginatingEndpoint": _is_text_or_null,
                "Intent": _is_text_or_null,
            }
        ),
        "ResultingMessages": _lists(
            _has(
                {
                    "MessageType": _is_text_or_null,
                    "TimeSent": _is_instant,
                    "DeliveryAt": _is_instant_or_null,
                    "DeliveryDelay": _is_span,
                    "Destination": _is_text_or_null,
                    "ResultingMessageId": _is_text_or_null,
                    "Intent": _is_text_or_null,
                }
            )
        ),
        "Endpoint": _is_named,
        "IsNew": _is_bool,
        "IsCompleted": _is_bool,
        "StartTime": _is_instant,
        "FinishTime": _is_instant,
        "SagaType": _is_named,
    },
    METADATA: {"PluginVersion": _is_version, "LocalAddress": _is_local_address},
}


def _refused(reason: str) -> MessageSerializationError:
    return MessageSerializationError(f"A message to ServiceControl is not sent: {reason}.")
