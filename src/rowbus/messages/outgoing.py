"""An outgoing message: its standard headers, the trace that it carries on, and its uniqueness.

The tracing headers are W3C's, carried from message to message, and NServiceBus's wish for a new trace. A process that
does not trace carries traces on nevertheless. Receivers are told, as by NServiceBus, whether to continue them
(docs/wire-format.md#tracing; of all headers: docs/wire-format.md#headers).

The uniqueness of a message is its value, for how long no other message has that, and what becomes of another.

Invariants: what a message inherits (conversation, correlation, trace) comes from the incoming message alone; a caller's
headers win over ours except for the conversation, which cannot be overridden by accident; tracing and uniqueness are
pure: the messages of one handler continue one trace, at every attempt the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self, get_args

from rowbus.errors import ConfigurationError, InvalidHeaderError
from rowbus.messages.headers import Header, encode_copied_headers, encode_headers
from rowbus.messages.message import OutgoingMessage
from rowbus.messages.message_names import enclosed_types, first_type
from rowbus.messages.timestamps import format_time_span, format_timestamp
from rowbus.running.bounded import MOST
from rowbus.running.telemetry.instruments import tracing

if TYPE_CHECKING:
    from rowbus.messages.address import QueueAddress
    from rowbus.messages.headers import Identity
    from rowbus.running.telemetry.spans import Attributes, Spans


Due = timedelta | datetime | None
"""When a message is to be delivered: after a delay, at an aware instant, at once."""

OnConflict = Literal["keep", "replace", "postpone"]
"""The fate of a unique message whose value an earlier one has."""

COMPATIBLE_VERSION = "10.0.0"  # the NServiceBus whose headers these are; sagas use it to tell old timeouts

LONGEST_MESSAGE_ID: Final = 200  # characters: the outbox's column

_CARRIED: Final = (Header.TRACESTATE, Header.BAGGAGE)
_PARENT: Final = re.compile(r"(?P<version>[0-9a-f]{2})-[0-9a-f]{32}-[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})")
_WISHES: Final = {"Send": "False", "Publish": "True"}  # a reply has none

SendOutcome = Literal["sent", "kept", "replaced", "postponed"]
"""The outcome of a unique send: a new message, the earlier one, a new one in its place, or the earlier one later."""


# Headers.


class Origin(NamedTuple):
    """Where messages come from: the sender (None for a bare client) and where replies go (None: nowhere)."""

    identity: Identity | None = None
    reply_to: str | None = None


class Content(NamedTuple):
    """The contents of a message: its body, the body's type, and its wire names, most concrete first.

    A control message has neither a type of its body (None) nor names.
    """

    body: bytes
    content_type: str | None
    types: tuple[str, ...]


class Options(NamedTuple):
    """The wishes of a caller for one send, reply or publish."""

    headers: Mapping[str, str] | None = None
    time_to_be_received: timedelta | None = None
    new_conversation: bool | str | None = False
    """Whether not to continue the conversation of the message in hand; text is the id of the new one."""
    reply_to: str | QueueAddress | None = None
    """The queue of replies; None: the origin's. Who composes makes an origin of it."""
    reply_to_this_instance: bool = False
    """Whether the queue of replies is that of the sender's instance, without `reply_to`."""
    delay: timedelta | None = None
    """The time that the message waits before it is delivered, from the database's now."""
    deliver_at: datetime | None = None
    """When the message is delivered, an aware instant."""
    correlation_id: str | None = None
    """The id of the message that this one answers, without the ids of a saga; None: what the message in hand says."""
    type: str | tuple[str, ...] | None = None
    """The wire names of dicts and bytes, most concrete first."""
    immediate: bool = False
    """Whether the message leaves now, in a transaction of its own."""
    key: str | None = None
    """The key that its lane is chosen by, and in which order it is handled, where it goes to."""
    priority: str | None = None
    """The lane that it names, where it goes to."""
    unique: str | None = None
    """The value that no other message for its queue is to have, for as long as the next two say."""
    while_waiting: bool = False
    within: timedelta | None = None
    on_conflict: OnConflict | None = None
    """The fate of a message whose value another has; None: that one is kept."""

    @property
    def due(self) -> Due:
        """When the message is to be delivered; None: at once, also when the delay is none or less."""
        if self.delay is not None:
            _refuse_number("delay", self.delay)
            return self.delay if self.delay > timedelta() else None
        return self.deliver_at


NO_OPTIONS = Options()
NOWHERE = Origin()


def compose(
    content: Content,
    *,
    intent: str,
    message_id: str,
    now: datetime,
    origin: Origin = NOWHERE,
    incoming: Mapping[str, str | None] | None = None,
    options: Options = NO_OPTIONS,
    destination: str = "",
) -> OutgoingMessage:
    """Return the message with all its headers; raises InvalidHeaderError for headers that no receiver could read.

    `destination` names its queue, for the span of a process that traces; the first of its types, where it has none.
    """
    headers: dict[str, str | None] = {
        Header.MESSAGE_ID: message_id,
        Header.MESSAGE_INTENT: intent,
        Header.CONTENT_TYPE: content.content_type,
        Header.ENCLOSED_MESSAGE_TYPES: enclosed_types(content.types) or None,
        Header.CORRELATION_ID: message_id,
        Header.CONVERSATION_ID: message_id,
        Header.TIME_SENT: format_timestamp(now),
        Header.VERSION: COMPATIBLE_VERSION,
    }
    headers.update(_of_origin(origin))
    if incoming is not None:
        _inherit(headers, incoming, intent, options)
    due, extra = None, options.headers or {}
    if options is not NO_OPTIONS:
        due = options.due
        _choose(headers, options, due, now)
    if extra:
        _apply(headers, extra, inherited=incoming is not None)
    if (spans := tracing()) is not None and Header.TRACEPARENT not in extra:
        _trace(headers, spans, intent, destination or next(iter(content.types), ""))
    if Header.START_NEW_TRACE not in extra:  # says whether its receiver begins a trace of its own
        if due is not None and headers.get(Header.TRACEPARENT):
            headers[Header.START_NEW_TRACE] = "True"
        elif intent in _WISHES:
            headers[Header.START_NEW_TRACE] = _WISHES[intent]
    return OutgoingMessage(headers, content.body, options.time_to_be_received)


@lru_cache(maxsize=MOST)
def _of_origin(origin: Origin) -> Mapping[str, str]:
    """Return the headers of all messages of an origin."""
    sender = {} if origin.identity is None else origin.identity.originating_headers()
    return sender if origin.reply_to is None else {**sender, Header.REPLY_TO_ADDRESS: origin.reply_to}


def _choose(headers: dict[str, str | None], options: Options, due: Due, now: datetime) -> None:
    """Add what the caller chose; raises InvalidHeaderError for what no header can hold."""
    headers.update(_chosen_ids(options))
    headers.update(_chosen_lane(options))
    if options.time_to_be_received is not None:
        headers[Header.TIME_TO_BE_RECEIVED] = format_time_span(_positive(options.time_to_be_received))
    if options.delay is not None and options.deliver_at is not None:
        raise _undeliverable("give delay or deliver_at, not both", "two times")
    if due is not None:
        headers[Header.DELIVER_AT] = _deliver_at(options, now)


def _trace(headers: dict[str, str | None], spans: Spans, intent: str, destination: str) -> None:
    """Have a message carry the span of its sending."""

    def attributes() -> Attributes:
        given: Attributes = {
            "messaging.message.conversation_id": headers[Header.CONVERSATION_ID] or "",
            "rowbus.message.type": first_type(headers[Header.ENCLOSED_MESSAGE_TYPES]),
        }
        if headers[Header.MESSAGE_ID] != HeaderText.PLACEHOLDER:
            given["messaging.message.id"] = headers[Header.MESSAGE_ID] or ""
        return given

    spans.send(headers, destination, name=intent.lower(), attributes=attributes)


class HeaderText:
    """The header text of many messages that differ in nothing but their id.

    Made once from a message whose id is `PLACEHOLDER`; each text is then a join, a twentieth of the work.
    """

    PLACEHOLDER = "00000000-0000-4000-8000-726f77627573"

    def __init__(self, message: OutgoingMessage) -> None:
        """Take the headers of a message composed with the placeholder as its id."""
        self._parts = encode_copied_headers(message.headers).split(self.PLACEHOLDER)

    def with_id(self, message_id: str) -> str:
        """Return the text for one id, which must not need escaping."""
        return message_id.join(self._parts)


def _inherit(
    headers: dict[str, str | None], incoming: Mapping[str, str | None], intent: str, options: Options
) -> None:
    """Carry conversation, correlation and trace over from the message being handled."""
    incoming_id = incoming.get(Header.MESSAGE_ID)
    headers[Header.RELATED_TO] = incoming_id
    headers[Header.CORRELATION_ID] = incoming.get(Header.CORRELATION_ID) or incoming_id
    if conversation := incoming.get(Header.CONVERSATION_ID):
        is_new = bool(options.new_conversation)
        headers[Header.PREVIOUS_CONVERSATION_ID if is_new else Header.CONVERSATION_ID] = conversation
    headers.update(carried_trace(incoming))
    headers.update({name: incoming[name] for name in (Header.USER, Header.REQUEST) if incoming.get(name)})
    if intent == "Reply" and options.correlation_id is None:
        _address_saga(headers, incoming)


def _chosen_ids(options: Options) -> dict[str, str]:
    """Return the headers of the ids that the caller chose; raises InvalidHeaderError for what no header can hold."""
    conversation = options.new_conversation
    if options.correlation_id is None and not isinstance(conversation, str):
        return {}
    chosen = {
        Header.CONVERSATION_ID: conversation if isinstance(conversation, str) else None,
        Header.CORRELATION_ID: options.correlation_id,
    }
    ids = {header: text for header, text in chosen.items() if text is not None}
    for header, text in ids.items():
        if not text.strip():
            raise InvalidHeaderError("An id that is given must not be empty.", header=header, reason="empty")
    encode_headers(ids)
    return ids


def _chosen_lane(options: Options) -> dict[str, str]:
    """Return the headers that name a lane; raises InvalidHeaderError for what no header can hold."""
    if options.key is None and options.priority is None:
        return {}
    chosen: dict[str, str] = {}
    for header, given in ((Header.KEY, options.key), (Header.PRIORITY, options.priority)):
        if given is None:
            continue
        if type(given) is not str or not given:
            called = header.removeprefix("Rowbus.").lower()
            raise InvalidHeaderError(
                f"{called} is {given!r}; give text, such as str(order_id).", header=header, reason="no text"
            )
        if "\0" in given:
            raise InvalidHeaderError(
                f"{given!r} holds a NUL, which no lane can be chosen by.", header=header, reason="NUL"
            )
        chosen[header] = given
    encode_headers(chosen)
    return chosen


def _address_saga(headers: dict[str, str | None], incoming: Mapping[str, str | None]) -> None:
    for ours, theirs in (
        (Header.SAGA_ID, Header.ORIGINATING_SAGA_ID),
        (Header.SAGA_TYPE, Header.ORIGINATING_SAGA_TYPE),
    ):
        if incoming.get(theirs):
            headers[ours] = incoming[theirs]


def _refuse_other(given: object) -> None:
    if not isinstance(given, Mapping):
        text = f"headers is {given!r}; give texts by their names, such as {{'tenant': 'blue'}}."
        raise InvalidHeaderError(text, header="", reason="no mapping")


def _apply(headers: dict[str, str | None], extra: Mapping[str, str], *, inherited: bool) -> None:
    """Add the caller's headers, strictly checked."""
    _refuse_other(extra)
    if inherited and Header.CONVERSATION_ID in extra:
        raise InvalidHeaderError(
            "A handler's message continues the conversation of the message it handles; to begin a new one pass "
            "new_conversation=True.",
            header=Header.CONVERSATION_ID,
            reason="inherited",
        )
    encode_headers(extra)
    if not (message_id := extra.get(Header.MESSAGE_ID, headers[Header.MESSAGE_ID])):
        raise InvalidHeaderError(
            "A message needs an id: leave the header out for a new one.",
            header=Header.MESSAGE_ID,
            reason="empty",
        )
    check_message_id(message_id)
    if headers[Header.CORRELATION_ID] == headers[Header.MESSAGE_ID]:  # a reply to it names the id that it has
        headers[Header.CORRELATION_ID] = extra.get(Header.MESSAGE_ID, headers[Header.MESSAGE_ID])
    headers.update(extra)
    if types := extra.get(Header.ENCLOSED_MESSAGE_TYPES):
        headers[Header.ENCLOSED_MESSAGE_TYPES] = types.rstrip("; ")  # .NET refuses an empty name at its end


def check_message_id(message_id: str) -> None:
    """Raise InvalidHeaderError for an id that a .NET receiver could not store."""
    if len(message_id) > LONGEST_MESSAGE_ID:
        raise InvalidHeaderError(
            f"The message id {message_id[:20]}… has {len(message_id)} characters; an id may have {LONGEST_MESSAGE_ID}, "
            "because a .NET receiver's outbox stores no more of it.",
            header=Header.MESSAGE_ID,
            reason="too long",
        )


def _deliver_at(options: Options, now: datetime) -> str:
    """Return what the header says about a delay; what counts is the database's clock, this is for people."""
    if options.time_to_be_received is not None:
        raise _undeliverable(
            "a delayed message cannot have a time_to_be_received: NServiceBus's table of delayed messages has no "
            "place for it. Leave one of them out",
            "expires",
        )
    try:
        return format_timestamp(options.deliver_at or now + (options.delay or timedelta()))
    except OverflowError:
        raise _undeliverable(f"the delay {options.delay} ends after the year 9999", "too long") from None


def _undeliverable(problem: str, reason: str) -> InvalidHeaderError:
    return InvalidHeaderError(
        f"The message cannot be delayed: {problem}.", header=Header.DELIVER_AT, reason=reason
    )


def _refuse_number(option: str, given: object) -> None:
    if not isinstance(given, timedelta):
        raise InvalidHeaderError(
            f"{option} is {given!r}; give a datetime.timedelta, as in {option}=timedelta(seconds=5).",
            header=Header.TIME_TO_BE_RECEIVED if option == "time_to_be_received" else Header.DELIVER_AT,
            reason="no timedelta",
        )


def _positive(time_to_be_received: timedelta) -> timedelta:
    _refuse_number("time_to_be_received", time_to_be_received)
    if time_to_be_received.total_seconds() <= 0:
        raise InvalidHeaderError(
            f"time_to_be_received is {time_to_be_received}; it must be longer than nothing.",
            header=Header.TIME_TO_BE_RECEIVED,
            reason="not positive",
        )
    return time_to_be_received


# The trace.


def carried_trace(incoming: Mapping[str, str | None]) -> dict[str, str]:
    """Return the trace of what a handler sends: its message's, or a new one if that message wishes it."""
    parent = incoming.get(Header.TRACEPARENT)
    if parent and is_wished(incoming):
        parent = _new_parent(parent, incoming.get(Header.MESSAGE_ID) or "")
    trace = {Header.TRACEPARENT: parent, **{name: incoming.get(name) for name in _CARRIED}}
    return {name: value for name, value in trace.items() if value}


def with_new_trace(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the headers of a copy that is handled later, by itself: if it has a trace, a new one begins there."""
    if not headers.get(Header.TRACEPARENT):
        return dict(headers)
    return {**headers, Header.START_NEW_TRACE: "True"}


def is_wished(headers: Mapping[str, str | None]) -> bool:
    """Say whether a message wishes that its receiver begin a trace of its own."""
    return (headers.get(Header.START_NEW_TRACE) or "").strip().lower() == "true"


def _new_parent(parent: str, message_id: str) -> str | None:
    """Return the beginning of a new trace, none where the old one cannot be read."""
    found = _PARENT.fullmatch(parent)
    if found is None:
        return None
    digits = hashlib.sha256(f"{parent} {message_id}".encode("utf-8", "replace")).hexdigest()
    return f"{found['version']}-{digits[:32]}-{digits[32:48]}-{found['flags']}"


# Uniqueness.


class UniqueMessageId(str):
    """The id of the message that is there after a unique send: the earlier one's when that was kept or postponed."""

    __slots__ = ("outcome",)

    outcome: SendOutcome
    """The outcome of the send."""

    def __new__(cls, message_id: str, outcome: SendOutcome) -> Self:
        """Note the outcome of the send beside the id."""
        made = super().__new__(cls, message_id)
        made.outcome = outcome
        return made


class Uniqueness(NamedTuple):
    """The uniqueness of one message; `within` is None for as long as the message waits."""

    value: str
    within: timedelta | None
    on_conflict: OnConflict


class Claim(NamedTuple):
    """The claim of an earlier message on a value.

    `is_timed` says whether it lasts for a time, `is_open` whether that is not over; `is_delayed` whether the message
    was sent with a delay.
    """

    row_id: str
    message_id: str
    is_delayed: bool
    is_timed: bool
    is_open: bool


def uniqueness_of(options: Options) -> Uniqueness | None:
    """Return what the options of a send say, None if nothing. Raises ConfigurationError for what does not fit."""
    value, within, on_conflict = options.unique, options.within, options.on_conflict
    if value is None:
        for name in ("while_waiting", "within", "on_conflict"):
            if getattr(options, name):
                raise ConfigurationError(f"{name} is for unique messages: give unique='…', too.")
        return None
    if type(value) is not str or not value:
        raise ConfigurationError(f"unique is {value!r}; give text, such as f'reminder-{{order_id}}'.")
    if bool(options.while_waiting) == (within is not None):
        raise ConfigurationError(
            f"For how long is {value!r} unique? Give while_waiting=True, or within=timedelta(…), one of them."
        )
    if within is not None and not _is_span(within):
        raise ConfigurationError(f"within is {within!r}; give a timedelta that is longer than nothing.")
    if on_conflict is not None and on_conflict not in get_args(OnConflict):
        raise ConfigurationError(f"on_conflict is {on_conflict!r}; give 'keep', 'replace' or 'postpone'.")
    if on_conflict == "postpone" and options.due is None:
        raise ConfigurationError("on_conflict='postpone' needs the new time: give delay or deliver_at.")
    return Uniqueness(value, within, on_conflict or "keep")


def decide(claim: Claim, on_conflict: OnConflict, *, waits: bool, is_due: bool) -> SendOutcome:
    """Return what a send comes to, the value of which an earlier message has claimed.

    `waits` says whether that is still to be received, `is_due` whether it has left the table of delayed messages.
    """
    if not (claim.is_open if claim.is_timed else waits):
        return "sent"
    if not waits or on_conflict == "keep":
        return "kept"
    if on_conflict == "replace":
        return "replaced"
    return "kept" if is_due else "postponed"


def _is_span(given: object) -> bool:
    return isinstance(given, timedelta) and given > timedelta()
