r"""Headers of messages: their names, how they are read and written, and the identity of a process that goes into them.

The text is one JSON object of strings; .NET also writes null values, and two dialects of escapes (`\/` in both). We
read everything valid .NET endpoints write and write only what every reader accepts: ASCII, compact, no nulls. (Source:
docs/wire-format.md#headers and docs/wire-format.md#header-text.)

Invariants: `decode_headers(encode_headers(headers)) == headers` for headers without None; header text of any kind,
however hostile, gives either a dictionary or `MalformedHeadersError`: a row must never loop; an identity is a value,
gathered once at start by the endpoint: nothing here asks the operating system.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii as _quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from rowbus.errors import InvalidHeaderError, MalformedHeadersError
from rowbus.messages.timestamps import is_well_formed_timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping


# What it takes is read as `_read_slowly` reads it, at a third of the price; what it refuses may still be fit to read.
_read_quickly: Final = msgspec.json.Decoder(dict[str, str | None]).decode
# What it writes is as `_write_slowly` writes it, at a tenth of the price, if it is ASCII without DEL.
_write_quickly: Final = msgspec.json.Encoder().encode
_STRINGS: Final = frozenset({str})
_DELETE: Final = b"\x7f"
# Numbers are refused in any case; `len` spares converting them, which for a million digits would take minutes.
_read_document: Final = json.JSONDecoder(parse_int=len, parse_float=len).raw_decode
_JSON_SPACE: Final = " \t\r\n"
_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    type(None): "null",
}
# How much of a name from elsewhere an error shows.
_SHOWN_LENGTH: Final = 100


class Header:
    """The names of the standard headers, letter for letter as NServiceBus spells them. A namespace: never made."""

    # What the message is.
    MESSAGE_ID: Final = "NServiceBus.MessageId"
    ENCLOSED_MESSAGE_TYPES: Final = "NServiceBus.EnclosedMessageTypes"
    CONTENT_TYPE: Final = "NServiceBus.ContentType"
    MESSAGE_INTENT: Final = "NServiceBus.MessageIntent"  # Send, Publish, Subscribe, Unsubscribe or Reply
    # "True" on messages without a body, for the platform.
    CONTROL_MESSAGE: Final = "NServiceBus.ControlMessage"
    RETURN_MESSAGE_ERROR_CODE: Final = "NServiceBus.ReturnMessage.ErrorCode"
    TRANSACTIONAL_SESSION_PREFIX: Final = "NServiceBus.TransactionalSession."
    NON_DURABLE_MESSAGE: Final = "NServiceBus.NonDurableMessage"  # SQL transports ignore it
    VERSION: Final = "NServiceBus.Version"

    # What it belongs to.
    CORRELATION_ID: Final = "NServiceBus.CorrelationId"
    CONVERSATION_ID: Final = "NServiceBus.ConversationId"
    PREVIOUS_CONVERSATION_ID: Final = "NServiceBus.PreviousConversationId"
    RELATED_TO: Final = "NServiceBus.RelatedTo"

    # Where it comes from; a reply goes to the canonical address.
    REPLY_TO_ADDRESS: Final = "NServiceBus.ReplyToAddress"
    ORIGINATING_ENDPOINT: Final = "NServiceBus.OriginatingEndpoint"
    ORIGINATING_MACHINE: Final = "NServiceBus.OriginatingMachine"
    ORIGINATING_HOST_ID: Final = "$.diagnostics.originating.hostid"  # a GUID as 32 lower-case hex digits

    # When: timestamps of 28 characters, and a time span.
    TIME_SENT: Final = "NServiceBus.TimeSent"
    DELIVER_AT: Final = "NServiceBus.DeliverAt"
    TIME_TO_BE_RECEIVED: Final = "NServiceBus.TimeToBeReceived"

    # Sagas.
    SAGA_ID: Final = "NServiceBus.SagaId"
    SAGA_TYPE: Final = "NServiceBus.SagaType"
    ORIGINATING_SAGA_ID: Final = "NServiceBus.OriginatingSagaId"
    ORIGINATING_SAGA_TYPE: Final = "NServiceBus.OriginatingSagaType"
    IS_SAGA_TIMEOUT_MESSAGE: Final = "NServiceBus.IsSagaTimeoutMessage"
    INVOKED_SAGAS: Final = "NServiceBus.InvokedSagas"
    SAGA_STATE_CHANGE: Final = "ServiceControl.SagaStateChange"

    # Tracing: W3C, plus NServiceBus's wish to begin a trace of its own ("True" or "False").
    TRACEPARENT: Final = "traceparent"
    TRACESTATE: Final = "tracestate"
    BAGGAGE: Final = "baggage"
    START_NEW_TRACE: Final = "NServiceBus.OpenTelemetry.StartNewTrace"

    # Message-driven subscribe messages of old SQL Server endpoints.
    SUBSCRIPTION_MESSAGE_TYPE: Final = "SubscriptionMessageType"
    SUBSCRIBER_ADDRESS: Final = "NServiceBus.SubscriberAddress"
    SUBSCRIBER_ENDPOINT: Final = "NServiceBus.SubscriberEndpoint"

    # The transport's own, on delayed messages; removed before anyone sees it. The same name on PostgreSQL.
    FORWARD_DESTINATION: Final = "NServiceBus.SqlServer.ForwardDestination"

    # Retries. FLRetries is legacy: never written, only removed.
    RETRIES: Final = "NServiceBus.Retries"
    RETRIES_TIMESTAMP: Final = "NServiceBus.Retries.Timestamp"
    FL_RETRIES: Final = "NServiceBus.FLRetries"

    ENCRYPTION_KEY: Final = "NServiceBus.RijndaelKeyIdentifier"
    """Names the key of encrypted properties, as NServiceBus.Encryption.MessageProperty does."""

    # Followed by the key, or by type and property: the key of a value.
    CLAIM_PREFIX: Final = "NServiceBus.DataBus."
    CLAIM_CONTENT_TYPE: Final = "NServiceBus.DataBusConfig.ContentType"

    # Ours, on a message whose handling was interrupted: how often it failed since it came into its queue, and what was
    # seen last. Removed before anyone sees it; other readers ignore them.
    FAILED_ATTEMPTS: Final = "Rowbus.FailedAttempts"
    INTERRUPTION: Final = "Rowbus.Interruption"

    # Ours, on a message that a rate limit deferred: the limit's key. It has its turn before those that were not.
    RATE_LIMITED: Final = "Rowbus.RateLimited"

    # Ours, on such a message with a time to be received: when that is over. A table of delayed messages has no column.
    EXPIRES: Final = "Rowbus.Expires"

    # Ours, on a message that waits for a newer version of the program: since when.
    WAITING_SINCE: Final = "Rowbus.WaitingSince"

    # Ours, who and which request of a web application stand at the beginning; carried on from message to message.
    USER: Final = "Rowbus.User"
    REQUEST: Final = "Rowbus.Request"

    # Ours, on a message that a person sent back: the attempts before, as JSON.
    ATTEMPTS: Final = "Rowbus.Attempts"

    # Ours, for endpoints with lanes: the key whose messages are handled in order, the lane by its name, and on a
    # message that is to be retried later, and waits where it is, until when.
    KEY: Final = "Rowbus.Key"
    PRIORITY: Final = "Rowbus.Priority"
    NOT_BEFORE: Final = "Rowbus.NotBefore"

    # Failure: added to the copy in the error queue.
    FAILED_QUEUE: Final = "NServiceBus.FailedQ"
    TIME_OF_FAILURE: Final = "NServiceBus.TimeOfFailure"
    EXCEPTION_TYPE: Final = "NServiceBus.ExceptionInfo.ExceptionType"
    INNER_EXCEPTION_TYPE: Final = "NServiceBus.ExceptionInfo.InnerExceptionType"
    EXCEPTION_HELP_LINK: Final = "NServiceBus.ExceptionInfo.HelpLink"
    EXCEPTION_SOURCE: Final = "NServiceBus.ExceptionInfo.Source"
    EXCEPTION_MESSAGE: Final = "NServiceBus.ExceptionInfo.Message"
    EXCEPTION_STACK_TRACE: Final = "NServiceBus.ExceptionInfo.StackTrace"
    EXCEPTION_DATA_PREFIX: Final = "NServiceBus.ExceptionInfo.Data."
    EXCEPTION_TRACEBACK: Final = "NServiceBus.ExceptionInfo.Data.Traceback"  # as Python prints it; ours

    # Who processed it: on error and audit copies.
    PROCESSING_MACHINE: Final = "NServiceBus.ProcessingMachine"
    PROCESSING_ENDPOINT: Final = "NServiceBus.ProcessingEndpoint"
    PROCESSING_STARTED: Final = "NServiceBus.ProcessingStarted"
    PROCESSING_ENDED: Final = "NServiceBus.ProcessingEnded"
    HOST_ID: Final = "$.diagnostics.hostid"
    HOST_DISPLAY_NAME: Final = "$.diagnostics.hostdisplayname"

    # ServiceControl's retries and their confirmation.
    RETRY_UNIQUE_MESSAGE_ID: Final = "ServiceControl.Retry.UniqueMessageId"
    RETRY_ACKNOWLEDGEMENT_QUEUE: Final = "ServiceControl.Retry.AcknowledgementQueue"
    RETRY_SUCCESSFUL: Final = "ServiceControl.Retry.Successful"
    RETRY_ACKNOWLEDGEMENT_SENT: Final = "ServiceControl.Retry.AcknowledgementSent"
    # The id of the failure whose message this is, edited and sent again.
    EDIT_OF: Final = "ServiceControl.EditOf"


TIMESTAMP_HEADERS: Final = (
    Header.TIME_SENT,
    Header.DELIVER_AT,
    Header.TIME_OF_FAILURE,
    Header.RETRIES_TIMESTAMP,
)
"""Headers whose malformed value makes a .NET endpoint fail on every attempt, so `encode_headers` checks them."""


def decode_headers(text: str | None) -> dict[str, str | None]:
    """Read the column `headers` as any NServiceBus or Rowbus endpoint writes it, in the order it was written.

    Null values, which .NET writes for absent details of an exception, stay None. NULL and empty text are no headers.
    Raises `MalformedHeadersError`, whose `reason` says exactly what is wrong, for text that is not JSON, JSON that is
    not an object, values that are not strings, and halves of surrogate pairs. Of a repeated name the last counts, as
    in .NET. Takes time linear in the length of the text.
    """
    if not text:
        return {}
    try:
        return _read_quickly(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _read_slowly(text)


def _read_slowly(text: str) -> dict[str, str | None]:
    """Read what is not as it should be: it may be legible all the same, or the error says what is wrong."""
    headers = _parse(text)
    try:
        characters = "".join([*headers, *headers.values()])
    except TypeError:  # a null, or what must not be there
        characters = _joined_strings(text, headers)
    if not (characters.isascii() or is_encodable(characters)):
        raise _malformed(text, f"the header {_shown(_surrogate_in(headers))} holds half of a surrogate pair")
    return headers


def encode_headers(headers: Mapping[str, str | None]) -> str:
    """Write the headers of a new message for the column `headers`: compact ASCII JSON, in the order of the mapping.

    A header that is None is left out. Raises `InvalidHeaderError`, naming the header, for a name or value that is
    not a string or holds half of a surrogate pair, and for a timestamp header .NET could not parse.
    """
    for name in TIMESTAMP_HEADERS:
        value = headers.get(name)
        if value is not None and not is_well_formed_timestamp(value):
            raise _unwritable(
                name, f"{_shown(value)} is not a timestamp of the form 'yyyy-MM-dd HH:mm:ss:ffffff Z'"
            )
    return encode_copied_headers(headers)


def encode_copied_headers(headers: Mapping[str, str | None]) -> str:
    """Write headers that came with a message (a retry, an error or audit copy, a forward) without judging them.

    As `encode_headers`, except that timestamps are left as their sender wrote them: a message whose TimeSent is
    nonsense must still reach the error queue.
    """
    if isinstance(headers, dict) and {*map(type, headers), *map(type, headers.values())} <= _STRINGS:
        try:
            text = _write_quickly(headers)
        except UnicodeEncodeError:
            return _write_slowly(headers)
        if text.isascii() and _DELETE not in text:
            return text.decode("ascii")
    return _write_slowly(headers)


def _write_slowly(headers: Mapping[str, str | None]) -> str:
    """Write what is not as it mostly is: with nulls, or characters that must be escaped; or say what is wrong."""
    try:
        members = [f"{_quote(name)}:{_quote(value)}" for name, value in headers.items() if value is not None]
    except TypeError:
        raise _not_strings(headers) from None
    text = f"{{{','.join(members)}}}"
    # An escaped surrogate is nearly always one of a proper pair.
    if "\\ud" in text and (name := _surrogate_in(headers)) is not None:
        raise _unwritable(name, "it holds half of a surrogate pair, which is not a character")
    return text


def is_control(headers: Mapping[str, str | None]) -> bool:
    """Return whether headers are a control message's, which no handler gets: any spelling of `true`, as in .NET."""
    value = headers.get(Header.CONTROL_MESSAGE)
    return value is not None and value.lower() == "true"


def is_of_a_session(headers: Mapping[str, str | None]) -> bool:
    """Return whether headers are those of a transactional session's control message, as .NET sends it."""
    return is_control(headers) and any(
        name.startswith(Header.TRANSACTIONAL_SESSION_PREFIX) for name in headers
    )


def parse_enclosed_types(value: str | None) -> tuple[str, ...]:
    """Read EnclosedMessageTypes: the wire names of a message's types, most concrete first.

    An assembly-qualified name is cut to its FullName at the first comma outside brackets (a generic type keeps its
    arguments as they are, a nested type its `+`). Names with `__impl`, proxies .NET makes for interfaces, are skipped.
    """
    if not value:
        return ()
    names = (_full_name(entry) for entry in value.split(";") if "__impl" not in entry)
    return tuple(filter(None, names))


def _full_name(qualified: str) -> str:
    if "[" not in qualified and "\\" not in qualified:
        return qualified.partition(",")[0].strip()
    return qualified[: _end_of_full_name(qualified)].strip()


def _end_of_full_name(qualified: str) -> int:
    """Find the first comma outside brackets; a backslash takes its meaning from the character after it."""
    depth, escaped = 0, False
    for position, character in enumerate(qualified):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "," and depth == 0:
            return position
        else:
            depth += (character == "[") - (character == "]")
    return len(qualified)


def _parse(text: str) -> dict[str, Any]:
    """Parse the text into one object, values not yet looked at."""
    # No writer puts space before the brace, so look for it only when it is not there.
    start = 0 if text[0] == "{" else len(text) - len(text.lstrip(_JSON_SPACE))
    try:
        document, end = _read_document(text, start)
    except json.JSONDecodeError as error:
        raise _malformed(
            text, f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos}"
        ) from None
    except RecursionError:
        raise _malformed(text, "nested too deeply") from None
    if end != len(text) and text[end:].strip(_JSON_SPACE):
        raise _malformed(text, f"not JSON: extra text at character {end}")
    if not isinstance(document, dict):
        raise _malformed(text, f"{_kind(document)} instead of an object")
    return cast("dict[str, Any]", document)


def _joined_strings(text: str, headers: Mapping[str, object]) -> str:
    """Join the values that are not None, refusing any that is not a string."""
    strings = list(headers)
    for name, value in headers.items():
        if isinstance(value, str):
            strings.append(value)
        elif value is not None:
            raise _malformed(text, f"the value of {_shown(name)} is {_kind(value)} instead of a string")
    return "".join(strings)


def _kind(value: object) -> str:
    return _KINDS.get(type(value), "a number")


def is_encodable(text: str) -> bool:
    """Tell whether the text is free of halves of surrogate pairs; they are not characters and fit no encoding."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _surrogate_in(headers: Mapping[str, str | None]) -> str | None:
    """Name the header whose name or value holds half of a surrogate pair, if one does."""
    return next((name for name, value in headers.items() if not is_encodable(f"{name}{value}")), None)


def _not_strings(headers: Mapping[Any, Any]) -> InvalidHeaderError:
    for name, value in headers.items():
        if not isinstance(name, str):
            return _unwritable(str(name), "its name is not a string")
        if not isinstance(value, str | None):
            return _unwritable(name, f"its value is {type(value).__name__}; convert it to a string first")
    return _unwritable("", "a header changed while it was written")


def _malformed(text: str, reason: str) -> MalformedHeadersError:
    return MalformedHeadersError(f"Not the headers of a message: {reason}.", text=text, reason=reason)


def _unwritable(header: str, reason: str) -> InvalidHeaderError:
    message = f"The header {_shown(header)} cannot be sent: {reason}."
    return InvalidHeaderError(message, header=header, reason=reason)


def _shown(name: object) -> str:
    text = str(name)
    return repr(text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…")


class Identity(NamedTuple):
    """An endpoint's name, its machine, and the host id (32 lower-case hex digits) by which the platform groups them.

    People read the display name; without one, the machine's.
    """

    endpoint: str
    machine: str
    host_id: str
    display_name: str = ""

    @property
    def host_name(self) -> str:
        """The name by which people know the host."""
        return self.display_name or self.machine

    def originating_headers(self) -> dict[str, str]:
        """Return the headers that say who sent a message."""
        return {
            Header.ORIGINATING_ENDPOINT: self.endpoint,
            Header.ORIGINATING_MACHINE: self.machine,
            Header.ORIGINATING_HOST_ID: self.host_id,
        }

    def processing_headers(self) -> dict[str, str]:
        """Return the headers that say who processed a message."""
        return {
            Header.PROCESSING_MACHINE: self.machine,
            Header.PROCESSING_ENDPOINT: self.endpoint,
            Header.HOST_ID: self.host_id,
            Header.HOST_DISPLAY_NAME: self.host_name,
        }
