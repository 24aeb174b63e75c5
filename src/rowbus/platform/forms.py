"""Forms of the messages that ServiceControl can read. One wrong row breaks the page of the whole team.

A heartbeat without a name, or with `+00:00` for `Z`, breaks the heartbeats of all endpoints until ServiceControl is
restarted; an address that is not canonical, or whose names need quotes, breaks all queue lengths.

Measurements go to its monitoring as times, tags and values in one binary body, little-endian and without padding: int64
version 1, int64 the first moment in .NET's ticks (100 ns since the year 1), int32 how many tags, each an int32 key, an
int32 length and UTF-8, int32 how many entries, each int32 ticks since the first moment, int32 the tag's key, int64 the
value.

Invariants: `checked` returns a message as it is, or raises, and trusts nothing of those who composed it; measurements
are in the order of time, each tag that they name is declared, and `decoded` gives back what `encoded` took.
"""

from __future__ import annotations

import json
import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from rowbus.errors import InvalidAddressError, MessageSerializationError
from rowbus.messages.address import QueueAddress
from rowbus.messages.headers import Header
from rowbus.messages.sqlserver_address import SqlServerAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rowbus.messages.message import OutgoingMessage


VERSION: Final = 1
MOST_ENTRIES: Final = 2048  # of one message, as in .NET
LONGEST_TAG: Final = 4000  # characters; more than any list of types
LONGEST_SPAN: Final = 2**31 - 1  # ticks, some 214 s

TICKS_OF_1970: Final = 621_355_968_000_000_000
_HEAD: Final = Struct("<qqi")
_TAG: Final = Struct("<ii")
_COUNT: Final = Struct("<i")
_ENTRY: Final = Struct("<iiq")
_TICKS: Final = itemgetter(0)
_TAG_OF: Final = itemgetter(1)

Entry = tuple[int, str, int]
"""A measurement as it is written, a bare tuple: there are many of them."""

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


# Measurements in one binary body.


class Measurement(NamedTuple):
    """One value, the moment it belongs to in .NET's ticks, and the types of the message that it was measured of."""

    ticks: int
    tag: str
    value: int


class ReportBody(NamedTuple):
    """A body as it was read: the first moment, the tags by their keys, the entries' offsets, and the entries."""

    first: int
    tags: dict[int, str]
    offsets: list[int]
    entries: bytes


def ticks_at(nanoseconds: int) -> int:
    """Return an instant, in nanoseconds since 1970, in .NET's ticks."""
    return nanoseconds // 100 + TICKS_OF_1970


def messages_of(measurements: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Give the measurements of each message: in order of time, none too many, none too far from the first."""
    rest, begin = sorted(measurements, key=_TICKS), 0
    while begin < len(rest):
        end = min(begin + MOST_ENTRIES, len(rest))
        end = bisect_right(rest, rest[begin][0] + LONGEST_SPAN, begin, end, key=_TICKS)
        yield rest[begin:end]
        begin = end


def numbered(measurements: Iterable[Entry]) -> dict[str, int]:
    """Return a key for each tag: 1, 2, …, in the order they come."""
    return {tag: key for key, tag in enumerate(dict.fromkeys(map(_TAG_OF, measurements)), 1)}


def encoded(measurements: Sequence[Entry], keys: Mapping[str, int]) -> bytes:
    """Return the body of a message of `messages_of`, whose tags have these keys.

    A value below 0, which only clocks that differ make, is written as 0.
    """
    first = measurements[0][0]
    parts = [_HEAD.pack(VERSION, first, len(keys))]
    for tag, key in keys.items():
        text = tag[:LONGEST_TAG].encode()
        parts += (_TAG.pack(key, len(text)), text)
    parts.append(_COUNT.pack(len(measurements)))
    numbers = [
        number
        for ticks, tag, value in measurements
        for number in (ticks - first, keys[tag], value if value > 0 else 0)  # noqa: FURB136 - a call for each
    ]
    parts.append(_entries(len(measurements)).pack(*numbers))
    return b"".join(parts)


def decoded(body: bytes) -> tuple[list[Measurement], dict[str, int]]:
    """Return the measurements of a body and their tags' keys; raises ValueError for a body that is none."""
    first, tags, _, entries = parsed(body)
    found = [
        Measurement(first + offset, tags[key], value) for offset, key, value in _ENTRY.iter_unpack(entries)
    ]
    return found, {tag: key for key, tag in tags.items()}


def parsed(body: bytes) -> ReportBody:
    """Return what a body holds; raises ValueError for one that is none, or names a tag it does not declare."""
    try:
        version, first, count = _HEAD.unpack_from(body)
        tags, position = _tags(body, _HEAD.size, count)
        (count,) = _COUNT.unpack_from(body, position)
    except (StructError, UnicodeDecodeError) as error:
        raise ValueError(f"not the body of measurements: {error}") from error
    entries = body[position + _COUNT.size :]
    if version != VERSION or count * _ENTRY.size != len(entries):
        raise ValueError("not the body of measurements: its version or its number of entries is wrong")
    numbers = array("i", entries)  # a column at a time: two thirds less than a tuple for each entry
    if sys.byteorder == "big":
        numbers.byteswap()
    if not tags.keys() >= set(numbers[1::4]):
        raise ValueError("not the body of measurements: a tag is not declared")
    return ReportBody(first, tags, numbers[0::4].tolist(), entries)


def _tags(body: bytes, position: int, count: int) -> tuple[dict[int, str], int]:
    tags: dict[int, str] = {}
    for _ in range(count):
        key, length = _TAG.unpack_from(body, position)
        position += _TAG.size
        tags[key] = body[position : position + length].decode()
        position += length
    return tags, position


@lru_cache(maxsize=4)  # full messages, and the last ones of a period
def _entries(count: int) -> Struct:
    """Return what packs so many entries at once."""
    return Struct(f"<{'iiq' * count}")


# Messages, each in its form.


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
