"""The messages of an error queue as a person sees them: their stories, which are meant, and how one is sent back.

A story is read from the headers that `failure_headers` and .NET endpoints write (docs/wire-format.md#error-queue); a
message is sent back by ServiceControl's rules (docs/wire-format.md#servicecontrol). The attempts before the latest go
with it as one header (docs/wire-format.md#retries).

Invariants: all is pure and total: a row whose headers say little or cannot be read has a story all the same, and a
header of attempts that makes no sense, which anybody who sends can write, tells nothing. That header is bounded in
attempts and in the length of each.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from rowbus.errors import InvalidAddressError, InvalidTimestampError, MalformedHeadersError
from rowbus.errors.strangers import writable
from rowbus.messages.headers import Header, decode_headers, parse_enclosed_types
from rowbus.messages.malformed_headers import MALFORMED_PREFIX, is_guid
from rowbus.messages.message import OutgoingMessage, new_message_id
from rowbus.messages.outgoing import COMPATIBLE_VERSION
from rowbus.messages.timestamps import format_timestamp, parse_timestamp
from rowbus.transport.queues.diagnosis import Finding, Level, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rowbus.messages.address import QueueAddress

MOST: Final = 10  # attempts that are told of, the latest
LONGEST: Final = 500  # characters of an attempt's field
_LONGEST_HEADER: Final = 100_000

_AT: Final = "   at "
_LAST_PART: Final = re.compile(r"[.+]")
_STORY: Final = (
    Header.RETRIES,  # and its timestamp, which begins the same
    Header.FAILED_ATTEMPTS,
    Header.INTERRUPTION,
    Header.FAILED_QUEUE,
    Header.TIME_OF_FAILURE,
    "NServiceBus.ExceptionInfo.",
    Header.EDIT_OF,
)
_OF_OTHERS: Final = ("NServiceBus.", "ServiceControl.", "Rowbus.", "$.diagnostics.")
_TRACING: Final = frozenset({Header.TRACEPARENT, Header.TRACESTATE, Header.BAGGAGE})


class FailedMessage(NamedTuple):
    """One message of an error queue; what its headers do not say is empty or None.

    `row_id` and `seq` are the row's; `type` is the most concrete one; `failed_queue` is where it failed; `is_readable`
    says whether its headers could be read at all. An acknowledgement is no failure: it waits there for ServiceControl,
    and tells it that a message which it had retried was processed.
    """

    row_id: str
    seq: int
    message_id: str
    type: str
    exception: str
    reason: str
    failed_queue: QueueAddress | None
    failed_at: datetime | None
    endpoint: str
    is_readable: bool = True
    is_acknowledgement: bool = False
    conversation: str = ""
    retry_id: str = ""
    """By which ServiceControl knows it, if that had sent it back."""


class Group(NamedTuple):
    """Failed messages with the same exception, message type and queue; `latest` is the last of them to fail."""

    size: int
    first_failed_at: datetime | None
    latest: FailedMessage


class Selection(NamedTuple):
    """A choice of failed messages: those that fit everything that is given; nothing given means all.

    `ids` are message ids or row ids; names of exceptions and types may be given by their last part; `since` and
    `until` bound the time of failure, and leave out messages that do not tell it.
    """

    ids: frozenset[str] = frozenset()
    exceptions: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    failed_queue: QueueAddress | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __str__(self) -> str:
        """Say which they are, for people."""
        said = [
            f"{what} {', '.join(sorted(names))}"
            for what, names in (("ids", self.ids), ("exception", self.exceptions), ("type", self.types))
            if names
        ]
        bounds = (("failed in", self.failed_queue), ("since", self.since), ("until", self.until))
        said += [f"{what} {value}" for what, value in bounds if value is not None]
        return "; ".join(said) or "all"

    def fits(self, failed: FailedMessage) -> bool:
        """Say whether a message is one of those meant."""
        return (
            (not self.ids or failed.message_id in self.ids or failed.row_id in self.ids)
            and _named(failed.exception, self.exceptions)
            and _named(failed.type, self.types)
            and self.failed_queue in {None, failed.failed_queue}
            and self._is_in_time(failed.failed_at)
        )

    def _is_in_time(self, failed_at: datetime | None) -> bool:
        if self.since is None and self.until is None:
            return True
        return failed_at is not None and (
            (self.since is None or failed_at >= self.since) and (self.until is None or failed_at < self.until)
        )


class PastAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failed attempt, and what was done then."""

    time: str
    place: str
    exception: str
    reason: str
    where: str = ""
    then: str = ""

    @property
    def at(self) -> datetime | None:
        """When it failed, None if that cannot be read."""
        try:
            return parse_timestamp(self.time)
        except InvalidTimestampError:
            return None


ALL = Selection()


def read(
    row_id: str, seq: int, headers_text: str | None, *, error_queue: QueueAddress, size: int | None = None
) -> FailedMessage:
    """Read the story of a row of an error queue, in whose database it failed.

    `size` is that of headers which are too large to be read, and None for others.
    """
    if size is not None:
        reason = f"its headers have {size} bytes, which is more than is read here"
        return FailedMessage(row_id, seq, row_id, "", "", reason, None, None, "", is_readable=False)
    try:
        headers = decode_headers(headers_text)
    except MalformedHeadersError as error:
        return FailedMessage(row_id, seq, row_id, "", "", str(error), None, None, "", is_readable=False)
    retry_id = headers.get(Header.RETRY_UNIQUE_MESSAGE_ID) or ""
    return FailedMessage(
        row_id,
        seq,
        headers.get(Header.MESSAGE_ID) or row_id,
        next(iter(parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))), ""),
        headers.get(Header.EXCEPTION_TYPE) or "",
        headers.get(Header.EXCEPTION_MESSAGE) or "",
        _address(headers.get(Header.FAILED_QUEUE), error_queue),
        _moment(headers.get(Header.TIME_OF_FAILURE)),
        headers.get(Header.PROCESSING_ENDPOINT) or "",
        is_acknowledgement=_is_acknowledgement(headers),
        conversation=headers.get(Header.CONVERSATION_ID) or "",
        retry_id=retry_id if is_guid(retry_id) else "",
    )


def group(messages: Iterable[FailedMessage]) -> list[Group]:
    """Count messages by exception, type and queue; the largest group first, and of equals the one that failed last."""
    groups: dict[tuple[object, ...], Group] = {}
    for failed in messages:
        key = (failed.exception, failed.type, failed.failed_queue, failed.is_readable)
        known = groups.get(key)
        groups[key] = Group(1, failed.failed_at, failed) if known is None else _joined(known, failed)
    return sorted(groups.values(), key=_rank)


def diagnose_failures(
    error_queue: QueueAddress, depth: int, latest: Sequence[FailedMessage], at: datetime
) -> Finding:
    """Tell of the messages of an error queue; `latest` are as many as were read."""
    more = "at least " if len(latest) < depth else ""
    moments = [failed.failed_at for failed in latest if failed.failed_at is not None]
    since = f", the latest {duration(at - max(moments))} ago" if moments else ""
    groups = len(group(latest))
    text = f"{depth:,} failed messages in {more}{groups:,} {'group' if groups == 1 else 'groups'}{since}"
    advice = "see why, then send them back: `rowbus errors list`, `rowbus errors retry`"
    return Finding(Level.WARN, str(error_queue), text, advice)


def retried_headers(headers: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the headers with which a failed message goes back: its own names, without the story of its failure."""
    own = ((name.removeprefix(MALFORMED_PREFIX), value) for name, value in headers.items())
    return {name: value for name, value in own if not name.startswith(_STORY)}


def edited_headers(headers: Mapping[str, str | None], own: Mapping[str, str]) -> dict[str, str | None]:
    """Return the headers with which an edited message goes back: a new message, which names the one it is made of.

    `own` are the application's headers as they are to be now; all others stay as they are, but for the story of the
    failure. (Source: docs/wire-format.md#servicecontrol.)
    """
    failure_id = headers.get(Header.RETRY_UNIQUE_MESSAGE_ID) or headers.get(Header.MESSAGE_ID)
    kept = {name: value for name, value in retried_headers(headers).items() if not is_own(name)}
    return {**kept, **own, Header.MESSAGE_ID: new_message_id(), Header.EDIT_OF: failure_id}


def acknowledgement(retry_id: str, message_id: str, now: datetime) -> OutgoingMessage:
    """Return what tells ServiceControl that a failure is over whose message it had sent back."""
    moment = format_timestamp(now)
    return OutgoingMessage(
        {
            Header.MESSAGE_ID: message_id,
            Header.CONTROL_MESSAGE: "True",
            Header.VERSION: COMPATIBLE_VERSION,
            Header.TIME_SENT: moment,
            Header.RETRY_UNIQUE_MESSAGE_ID: retry_id,
            Header.RETRY_SUCCESSFUL: moment,
        }
    )


def is_own(name: str) -> bool:
    """Say whether a header is an application's own: no framework, platform or tracer writes one of its name."""
    return not name.startswith(_OF_OTHERS) and name not in _TRACING


def past_attempts(headers: Mapping[str, str | None]) -> list[PastAttempt]:
    """Return the attempts that a message's headers tell of, the first one first."""
    text = headers.get(Header.ATTEMPTS) or ""
    if len(text) > _LONGEST_HEADER:
        return []
    try:
        return msgspec.json.decode(text, type=list[PastAttempt])[-MOST:]
    except msgspec.MsgspecError:
        return []


def failed_before(headers: Mapping[str, str | None], then: str) -> PastAttempt:
    """Return the attempt of which the story in a failed message's headers tells."""
    names = (
        Header.TIME_OF_FAILURE,
        Header.PROCESSING_ENDPOINT,
        Header.PROCESSING_MACHINE,
        Header.EXCEPTION_TYPE,
        Header.EXCEPTION_MESSAGE,
        Header.EXCEPTION_STACK_TRACE,
    )
    time, endpoint, machine, exception, reason, trace = (headers.get(name) or "" for name in names)
    place = f"{endpoint} on {machine}" if machine else endpoint
    return _bounded(PastAttempt(time, place, exception, reason, _first_call(trace), then=then))


def attempts_header(headers: Mapping[str, str | None], latest: PastAttempt) -> dict[str, str | None]:
    """Return the header that tells of the attempts so far, and of one more."""
    told = [*past_attempts(headers), latest][-MOST:]
    return {Header.ATTEMPTS: msgspec.json.encode(told).decode()}


def _is_acknowledgement(headers: Mapping[str, str | None]) -> bool:
    is_control = (headers.get(Header.CONTROL_MESSAGE) or "").strip().lower() == "true"
    return is_control and headers.get(Header.RETRY_SUCCESSFUL) is not None


def _joined(known: Group, failed: FailedMessage) -> Group:
    times = [time for time in (known.first_failed_at, failed.failed_at) if time is not None]
    latest = known.latest if _age(failed) < _age(known.latest) else failed
    return Group(known.size + 1, min(times, default=None), latest)


def _rank(one: Group) -> tuple[int, float, int]:
    failed_at, seq = _age(one.latest)
    return -one.size, -failed_at, -seq


def _age(failed: FailedMessage) -> tuple[float, int]:
    return (0.0 if failed.failed_at is None else failed.failed_at.timestamp()), failed.seq


def _named(name: str, wanted: frozenset[str]) -> bool:
    return not wanted or name in wanted or _LAST_PART.split(name)[-1] in wanted


def _address(text: str | None, error_queue: QueueAddress) -> QueueAddress | None:
    try:
        return error_queue.neighbour(text) if text else None
    except InvalidAddressError:
        return None


def _moment(text: str | None) -> datetime | None:
    try:
        return parse_timestamp(text or "")
    except InvalidTimestampError:
        return None


def _bounded(attempt: PastAttempt) -> PastAttempt:
    names = ("time", "place", "exception", "reason", "where", "then")
    cut = {name: writable(getattr(attempt, name))[:LONGEST] for name in names}
    return msgspec.structs.replace(attempt, **cut)


def _first_call(trace: str) -> str:
    """Return the call that raised, as a trace in the form of .NET's names it."""
    return next((line.removeprefix(_AT) for line in trace.splitlines() if line.startswith(_AT)), "")
