"""What a message did to a saga, as the plug-in SagaAudit of .NET tells it to ServiceControl.

Invariant: pure; names, their order and the forms of values are .NET's.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from rowbus.errors import InvalidTimestampError
from rowbus.messages.dispatch import AnySend, DelayedSend
from rowbus.messages.headers import Header, parse_enclosed_types
from rowbus.messages.timestamps import format_time_span, parse_timestamp
from rowbus.platform.json_text import instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import timedelta

    from rowbus.messages.state_change import StateChange

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
