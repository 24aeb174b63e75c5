"""What the headers of a failed message tell of it: its attempts, and its part in a conversation.

Invariant: pure and total: a header that is missing or odd leaves something out, and nothing else.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from rowbus.errors import InvalidTimestampError, MalformedHeadersError
from rowbus.messages.headers import Header, decode_headers, parse_enclosed_types
from rowbus.messages.timestamps import parse_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

TRACES: Final = (
    ("Stack trace, as .NET writes it", Header.EXCEPTION_STACK_TRACE),
    ("Traceback, as Python prints it", Header.EXCEPTION_TRACEBACK),
)
LONGEST_NAME: Final = 200
MOST_DATA: Final = 100  # of what handlers noted with an exception; all of it is among the headers
LONGEST_DATA: Final = 2_000
ELSEWHERE: Final = "(unknown)"


class Event(NamedTuple):
    """Something that happened to the message; `at` is None when nothing tells when."""

    at: datetime | None
    text: str


class Step(NamedTuple):
    """A message of a conversation: who sent it, who processed it or failed to, and when it was sent.

    `row_id` is that of a failed one. `is_this` marks the message that is looked at.
    """

    message_id: str
    type: str
    sender: str
    receiver: str
    at: datetime | None
    has_failed: bool
    row_id: str = ""
    is_this: bool = False
    related_to: str = ""


def attempts(headers: Mapping[str, str | None]) -> list[Event]:
    """Return what headers tell of a message's way into the error queue, in order."""
    sender, machine = headers.get(Header.ORIGINATING_ENDPOINT), headers.get(Header.ORIGINATING_MACHINE)
    events = [Event(time(headers, Header.TIME_SENT), f"sent by {_place(sender, machine)}")]
    if edited := headers.get(Header.EDIT_OF):
        events.append(Event(None, f"made by editing the failed message {edited}"))
    if retried := headers.get(Header.RETRY_UNIQUE_MESSAGE_ID):
        events.append(Event(None, f"sent back by ServiceControl as {retried}"))
    if count := headers.get(Header.RETRIES):
        events.append(Event(time(headers, Header.RETRIES_TIMESTAMP), f"retried after a delay, {count} times"))
    events += islice(_data(headers), MOST_DATA)
    processor, host = headers.get(Header.PROCESSING_ENDPOINT), headers.get(Header.PROCESSING_MACHINE)
    failed = Event(time(headers, Header.TIME_OF_FAILURE), f"given up on by {_place(processor, host)}")
    return [*events, failed]


def _data(headers: Mapping[str, str | None]) -> Iterator[Event]:
    for name, value in headers.items():
        if name.startswith(Header.EXCEPTION_DATA_PREFIX) and name != Header.EXCEPTION_TRACEBACK and value:
            yield Event(None, f"{name.removeprefix(Header.EXCEPTION_DATA_PREFIX)}: {value}"[:LONGEST_DATA])


def step(headers_text: str, *, row_id: str = "", is_this: bool = False) -> Step | None:
    """Return what a copy in an error or audit queue tells; None for one that cannot be read or is no message."""
    try:
        headers = decode_headers(headers_text)
    except MalformedHeadersError:
        return None
    if headers.get(Header.RETRY_SUCCESSFUL):
        return None
    has_failed = headers.get(Header.FAILED_QUEUE) is not None
    return Step(
        headers.get(Header.MESSAGE_ID) or "",
        next(iter(parse_enclosed_types(headers.get(Header.ENCLOSED_MESSAGE_TYPES))), ""),
        (headers.get(Header.ORIGINATING_ENDPOINT) or ELSEWHERE)[:LONGEST_NAME],
        (headers.get(Header.PROCESSING_ENDPOINT) or ELSEWHERE)[:LONGEST_NAME],
        time(headers, Header.TIME_SENT),
        has_failed,
        row_id if has_failed else "",
        is_this,
        headers.get(Header.RELATED_TO) or "",
    )


def in_order(steps: Iterable[Step | None]) -> list[Step]:
    """Return the messages of a conversation as they were sent; those that do not tell when stand last."""
    known = [one for one in steps if one is not None]
    return sorted(known, key=lambda one: (one.at is None, one.at.timestamp() if one.at else 0.0))


def time(headers: Mapping[str, str | None], name: str) -> datetime | None:
    """Return the time that a header tells, None if it tells none."""
    try:
        return parse_timestamp(headers.get(name) or "")
    except InvalidTimestampError:
        return None


def _place(endpoint: str | None, machine: str | None) -> str:
    return f"{endpoint or ELSEWHERE}{f' on {machine}' if machine else ''}"
